//! Runs of `hearth` that measure.

use super::reports::parse;
use crate::process::{Outcome, Output, capture, shown};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tokens of the context of a run that measures the start: the smallest of llama-bench.
const CONTEXT: &str = "256";

/// A release build of `hearth`.
#[derive(Debug, Clone)]
pub struct Hearth {
    program: PathBuf,
}

/// The settings of a `hearth bench` run.
#[derive(Debug, Clone, Default)]
pub struct Bench<'a> {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Generated tokens.
    pub generated: usize,
    /// Repetitions, of which it reports the median.
    pub repetitions: usize,
    /// Tokens in the KV cache before either.
    pub depth: usize,
    /// The type of the KV cache; by default f16.
    pub kv: Option<&'a str>,
    /// The path of a LoRA adapter.
    pub adapter: Option<&'a str>,
    /// CPU threads; by default one per physical core.
    pub threads: Option<usize>,
    /// The ID of the device.
    pub device: &'a str,
    /// Layers on a GPU: `all` or a number.
    pub gpu_layers: Option<&'a str>,
    /// The build; by default the fastest for the device.
    pub build: Option<&'a str>,
}

/// A command that was run, and its report.
#[derive(Debug)]
pub struct Measured<T> {
    /// The report.
    pub report: T,
    /// The captured output.
    pub output: Output,
}

impl Hearth {
    /// The build at `program`.
    pub fn new(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
        }
    }

    /// A `hearth bench` of a model.
    pub fn bench(&self, model: &Path, bench: &Bench) -> Command {
        let mut command = self.command("bench", model);
        command.args(["--device", bench.device]);
        command.args(bench.gpu_layers.into_iter().flat_map(|layers| ["--gpu-layers", layers]));
        command.args(bench.build.into_iter().flat_map(|build| ["--build", build]));
        for (option, value) in [("-p", bench.prompt), ("-n", bench.generated), ("-r", bench.repetitions)] {
            command.arg(option).arg(value.to_string());
        }
        if bench.depth > 0 {
            command.arg("--depth").arg(bench.depth.to_string());
        }
        command.args(bench.kv.into_iter().flat_map(|kv| ["--kv", kv]));
        command.args(bench.adapter.into_iter().flat_map(|path| ["--adapter", path]));
        if let Some(threads) = bench.threads {
            command.arg("--threads").arg(threads.to_string());
        }
        command.arg("--json");
        command
    }

    /// A `hearth run` on the CPU that answers `words` with one token, in a context as short as
    /// llama-bench's.
    pub fn run(&self, model: &Path, words: &str, threads: usize) -> Command {
        let mut command = self.command("run", model);
        command
            .arg(words)
            .args(["-n", "1", "--raw", "--ctx", CONTEXT, "--device", "cpu"]);
        command.arg("--threads").arg(threads.to_string());
        command
    }

    /// A `hearth plan` of a model with all layers on a device.
    pub fn plan(&self, model: &Path, device: &str) -> Command {
        let mut command = self.command("plan", model);
        command.args(["--device", device, "--gpu-layers", "all", "--json"]);
        command
    }

    /// A `hearth train` of a model on `data` to the folder `out`, in file order and without
    /// validation.
    pub fn train(&self, model: &Path, data: &Path, out: &Path, options: &[&str]) -> Command {
        let mut command = self.command("train", model);
        command.arg(data).arg("--out").arg(out).args(options);
        command.args(["--no-shuffle", "--eval-split", "0", "--json"]);
        command
    }

    fn command(&self, name: &str, model: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name).arg(model);
        command
    }
}

/// Runs a program that must succeed and print a report in its last line.
///
/// # Errors
/// If it cannot be started or fails, or the report cannot be read.
pub fn measure<T: DeserializeOwned>(command: &mut Command) -> Outcome<Measured<T>> {
    let shown = shown(command);
    let output = capture(&shown, command)?;
    if output.ok {
        Ok(Measured {
            report: parse(&shown, output.last_line())?,
            output,
        })
    } else {
        Err(format!("`{shown}`: {}", output.last_stderr_line()))
    }
}

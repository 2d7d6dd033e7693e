//! Runs of llama.cpp's `llama-bench`.

use super::reports::{LlamaResult, parse};
use crate::process::{Outcome, Output, shown};
use crate::{paths, system};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `-ngl` value for all layers.
const ALL_LAYERS: &str = "99";

/// A `llama-bench`, or a program with its options: `bench/ik_bench.cpp`, or
/// `bench/openvino_bench.py`.
#[derive(Debug, Clone)]
pub struct LlamaBench {
    program: PathBuf,
    /// Additional options.
    options: Vec<String>,
}

/// The measurements of `llama-bench`.
#[derive(Debug)]
pub struct LlamaCpp {
    /// Mean speed of prefill in tokens per second.
    pub prefill: f64,
    /// Mean speed of decode.
    pub decode: f64,
    /// The result of decode, with the program's commit, backends and GPU.
    pub about: LlamaResult,
}

/// Tokens of the prompt that warms up before a long one, instead of the program's own warm-up,
/// which is the whole prompt.
const WARM_UP: usize = 32;
/// Prompts with more tokens than this are long.
const LONG: usize = 512;

impl LlamaBench {
    /// The program at `program`.
    pub fn new(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
            options: Vec::new(),
        }
    }

    /// The same program with additional options.
    #[must_use]
    pub fn with(self, options: Vec<String>) -> Self {
        Self { options, ..self }
    }

    /// The program in HEARTH_LLAMA_BENCH, or the one on the PATH.
    ///
    /// # Errors
    /// If there is none.
    pub fn find() -> Outcome<Self> {
        let named = env::var_os("HEARTH_LLAMA_BENCH").map(PathBuf::from);
        let program = named.or_else(|| paths::program(&["llama-bench"]));
        let program = program.ok_or("`llama-bench` was not found on the PATH or in HEARTH_LLAMA_BENCH.")?;
        Ok(Self::new(&program))
    }

    /// A measurement of prefill and decode with all layers on its GPUs.
    pub fn bench(&self, model: &Path, prompt: usize, generated: usize, repetitions: usize) -> Command {
        let mut command = self.command();
        command.arg("-m").arg(model).args(["-ngl", ALL_LAYERS]);
        for (option, value) in [("-p", prompt), ("-n", generated), ("-r", repetitions)] {
            command.arg(option).arg(value.to_string());
        }
        command.args(["-o", "jsonl"]);
        command
    }
}

impl LlamaBench {
    /// A measurement of prefill or decode on the CPU, with each of these thread counts. Before a
    /// long prompt comes the result of a short one, which warms up.
    pub fn on_cpu(
        &self,
        model: &Path,
        [prefill, decode, depth, repetitions]: [usize; 4],
        kv: &str,
        threads: &[usize],
    ) -> Command {
        let mut command = self.cpu(model, threads);
        let is_long = prefill > LONG;
        let prompts = if is_long {
            format!("{WARM_UP},{prefill}")
        } else {
            prefill.to_string()
        };
        command.args(["-p", &prompts, "-ctk", kv, "-ctv", kv]);
        for (option, value) in [("-n", decode), ("-d", depth), ("-r", repetitions)] {
            command.arg(option).arg(value.to_string());
        }
        command.args(is_long.then_some("--no-warmup"));
        command
    }

    /// A process that prefills `tokens` tokens on the CPU and generates one.
    pub fn start(&self, model: &Path, tokens: usize, threads: usize) -> Command {
        let mut command = self.cpu(model, &[threads]);
        command.args(["-p", "0", "-n", "0", "-r", "1", "--no-warmup", "-pg"]);
        command.arg(format!("{tokens},1"));
        command
    }

    /// A command that runs the program. A script is run by the Python in HEARTH_PYTHON, or by the
    /// one on the PATH.
    fn command(&self) -> Command {
        if self.program.extension().is_none_or(|extension| extension != "py") {
            return Command::new(&self.program);
        }
        let named = env::var_os("HEARTH_PYTHON");
        let mut command = Command::new(named.unwrap_or_else(|| system::python().unwrap_or("python").into()));
        command.arg(&self.program);
        command
    }

    fn cpu(&self, model: &Path, threads: &[usize]) -> Command {
        let threads: Vec<String> = threads.iter().map(usize::to_string).collect();
        let mut command = self.command();
        command.arg("-m").arg(model).args(["-ngl", "0", "-o", "jsonl"]);
        command.arg("-t").arg(threads.join(",")).args(&self.options);
        command
    }
}

impl LlamaCpp {
    /// Reads the output of a [`LlamaBench::bench`].
    ///
    /// # Errors
    /// If prefill or decode is missing, or a line lacks a field.
    pub fn read(command: &Command, output: &Output) -> Outcome<Self> {
        let command_line = shown(command);
        let results = output.stdout.lines().filter(|line| line.starts_with('{'));
        let results = results
            .map(|line| parse(&command_line, line))
            .collect::<Outcome<Vec<LlamaResult>>>()?;
        let prefill = results
            .iter()
            .find(|result| result.n_prompt > 0)
            .map(|result| result.avg_ts);
        let decode = results.into_iter().find(|result| result.n_gen > 0);
        match (prefill, decode) {
            (Some(prefill), Some(about)) => Ok(Self {
                prefill,
                decode: about.avg_ts,
                about,
            }),
            _ => Err(format!("`{command_line}` measured no prefill or no decode.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_prompts_are_warmed_up_by_a_short_one() {
        let bench = LlamaBench::new(Path::new("llama-bench")).with(vec!["--repack".to_owned(), "1".to_owned()]);
        let arguments = |prefill: usize| {
            let command = bench.on_cpu(Path::new("m.gguf"), [prefill, 0, 0, 3], "f16", &[2, 1]);
            command
                .get_args()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let short = "-m m.gguf -ngl 0 -o jsonl -t 2,1 --repack 1 -p 200 -ctk f16 -ctv f16 -n 0 -d 0 -r 3";
        assert_eq!(arguments(200), short);
        assert_eq!(arguments(2048), short.replace("-p 200", "-p 32,2048") + " --no-warmup");
        let script = LlamaBench::new(Path::new("openvino_bench.py")).start(Path::new("m.gguf"), 32, 2);
        assert!(
            script.get_program() != "openvino_bench.py" && script.get_args().next().unwrap() == "openvino_bench.py"
        );
    }

    #[test]
    fn prefill_and_decode_are_found() {
        let line = |prompt: u64, generated: u64, speed: f64| {
            format!(
                r#"{{"build_commit":"0c1e570","backends":"CPU","gpu_info":"","n_prompt":{prompt},"n_gen":{generated},"n_threads":2,"avg_ts":{speed},"samples_ts":[{speed}]}}"#
            )
        };
        let output = |stdout: String| Output {
            ok: true,
            stdout,
            stderr: String::new(),
        };
        let command = Command::new("llama-bench");
        let both = output(format!("loading\n{}\n{}", line(512, 0, 70.5), line(0, 128, 8.5)));
        let actual = LlamaCpp::read(&command, &both).expect("both");
        assert_eq!((actual.prefill, actual.decode), (70.5, 8.5));
        assert!(LlamaCpp::read(&command, &output(line(512, 0, 70.5))).is_err());
    }
}

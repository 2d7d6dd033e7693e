//! `cargo xtask same`: checks that two builds of `hearth` compute bit-identical results on the CPU.
//! For refactorings that must not change results: compares perplexities, answers, losses, adapters
//! and checkpoints of the fixtures with every instruction set of the machine, and of the default
//! model with the native one.

use crate::model;
use crate::paths;
use crate::process::{Outcome, announce};
use serde_json::Value;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Instruction sets beside the native one, as values of `HEARTH_ISA`.
fn isa_levels() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avxvnni") {
        return vec!["avx+vnni", "avx2", "scalar"];
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("i8mm") {
        return vec!["neon+dot", "neon", "scalar"];
    }
    if cfg!(target_arch = "x86_64") {
        vec!["avx2", "scalar"]
    } else {
        vec!["neon", "scalar"]
    }
}

/// A prompt that needs no template.
const PROMPT: &str = "Once upon a time there was";

/// Inference commands for each model: the compared JSON field, and the arguments.
const INFERENCE_COMMANDS: &[(&str, &[&str])] = &[
    ("ids", &["run", PROMPT, "--raw", "-n", "48", "--temp", "0"]),
    (
        "ids",
        &[
            "run",
            PROMPT,
            "--raw",
            "-n",
            "48",
            "--temp",
            "1",
            "--seed",
            "7",
            "--threads",
            "1",
        ],
    ),
    ("perplexity", &["perplexity", "TEXT", "--ctx", "128"]),
    ("perplexity", &["perplexity", "TEXT", "--ctx", "128", "--kv", "q8_0"]),
    ("perplexity", &["perplexity", "TEXT", "--ctx", "128", "--exact"]),
];

/// Options of the training runs for each model.
const TRAINING_OPTIONS: &[&[&str]] = &[
    &["--precision", "f32", "--batch", "2"],
    &[
        "--precision",
        "bf16",
        "--batch",
        "3",
        "--accum",
        "2",
        "--checkpointing",
        "layers",
    ],
    &[
        "--precision",
        "f32",
        "--batch",
        "2",
        "--dropout",
        "0.1",
        "--rslora",
        "--threads",
        "1",
    ],
];

/// Compares two executables; the second defaults to the build in the target folder.
///
/// # Errors
/// If one of them cannot be started or fails when the other does not, or results differ.
pub fn same(arguments: &[String]) -> Outcome {
    let mut programs = arguments.iter().map(PathBuf::from);
    let old = programs
        .next()
        .ok_or("Missing argument OLD, the executable to compare with: cargo xtask same OLD [NEW].")?;
    let new = programs.next().unwrap_or_else(|| paths::executable("hearth"));
    let mut comparison = Comparison {
        programs: [old, new],
        same: 0,
        different: Vec::new(),
    };
    for model in fixtures()? {
        comparison.model(&model, None);
        isa_levels().iter().for_each(|isa| comparison.model(&model, Some(isa)));
    }
    if model::path().is_file() {
        comparison.model(&model::path(), None);
    }
    comparison.verdict()
}

/// The fixtures' models.
fn fixtures() -> Outcome<Vec<PathBuf>> {
    let folder = paths::root().join("tests/fixtures/models");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut models: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    models.retain(|path| path.extension().is_some_and(|ending| ending == "gguf"));
    models.sort();
    Ok(models)
}

struct Comparison {
    programs: [PathBuf; 2],
    same: usize,
    different: Vec<String>,
}

impl Comparison {
    /// Compares one model with one instruction set; `None` for the native one.
    fn model(&mut self, model: &Path, isa: Option<&str>) {
        let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        announce(&format!("{name}, {}", isa.unwrap_or("native instruction set")));
        let [loads_in_old, loads_in_new] = self.programs.each_ref().map(|program| loads(program, model));
        if loads_in_new && !loads_in_old {
            println!("    the old build does not load it");
            return;
        }
        let text = paths::root().join("tests/fixtures/perplexity/text.txt");
        for (field, words) in INFERENCE_COMMANDS {
            let command = |program: &Path| {
                let mut command = base_command(program, isa);
                let (subcommand, rest) = words.split_first().unwrap_or((&"", &[]));
                command.arg(subcommand).arg(model);
                rest.iter().for_each(|word| match *word {
                    "TEXT" => drop(command.arg(&text)),
                    word => drop(command.arg(word)),
                });
                command.arg("--json");
                last_line(&mut command).and_then(|output| value(&output, field).map(String::into_bytes))
            };
            self.compare(&name, isa, &words.join(" "), command);
        }
        for options in TRAINING_OPTIONS {
            let command = |program: &Path| trained(program, isa, model, &text, options);
            self.compare(&name, isa, &format!("train {}", options.join(" ")), command);
        }
    }

    fn compare(&mut self, model: &str, isa: Option<&str>, case: &str, run: impl Fn(&Path) -> Outcome<Vec<u8>>) {
        let [old, new] = [0, 1].map(|index| run(&self.programs[index]));
        if old == new {
            self.same += 1;
            // Equal failures prove little, so they are shown.
            if let Err(problem) = old {
                println!("    both failed: {case}: {problem}");
            }
            return;
        }
        let describe = |result: &Outcome<Vec<u8>>| match result {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(problem) => problem.clone(),
        };
        let different = format!(
            "{model}, {}: {case} ({}; {})",
            isa.unwrap_or("native"),
            describe(&old),
            describe(&new)
        );
        println!("    DIFFERENT: {different}");
        self.different.push(different);
    }

    fn verdict(self) -> Outcome {
        println!("\n{} the same, {} different", self.same, self.different.len());
        if self.different.is_empty() {
            Ok(())
        } else {
            Err(format!("The two differ in:\n    {}", self.different.join("\n    ")))
        }
    }
}

/// A command without a cache, on this instruction set.
fn base_command(program: &Path, isa: Option<&str>) -> Command {
    let mut command = Command::new(program);
    // Do not share packed weights between the two.
    command.env("HEARTH_CACHE", "off").stdin(Stdio::null());
    if let Some(isa) = isa {
        command.env("HEARTH_ISA", isa);
    }
    command
}

/// Whether an executable loads a model.
fn loads(program: &Path, model: &Path) -> bool {
    let mut command = base_command(program, None);
    command
        .arg("run")
        .arg(model)
        .args([PROMPT, "--raw", "-n", "1", "--json"]);
    last_line(&mut command).is_ok()
}

/// Runs a command and returns its last line of output, or of standard error if it fails.
fn last_line(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let last = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.lines().last().unwrap_or_default().to_owned()
    };
    if output.status.success() {
        Ok(last(&output.stdout))
    } else {
        Err(last(&output.stderr))
    }
}

/// A JSON field as text, to compare. Numbers are printed with enough digits to identify their bits.
fn value(object: &str, field: &str) -> Outcome<String> {
    let object: Value = serde_json::from_str(object).map_err(|error| format!("{error}: {object}"))?;
    match object.get(field) {
        None | Some(Value::Null) => Err(format!("There is no {field} in {object}.")),
        Some(value) => Ok(value.to_string()),
    }
}

/// The losses of a short run, and the tensors of its adapter and checkpoint.
fn trained(program: &Path, isa: Option<&str>, model: &Path, text: &Path, options: &[&str]) -> Outcome<Vec<u8>> {
    let out = env::temp_dir().join(format!("hearth-same-{}", std::process::id()));
    let _ = fs::remove_dir_all(&out);
    let mut command = base_command(program, isa);
    command.arg("train").arg(model).arg(text).arg("--out").arg(&out);
    command
        .args(["--max-steps", "4", "--seq", "64", "--json"])
        .args(options);
    let result = last_line(&mut command).and_then(|output| {
        let mut bytes = value(&output, "losses")?.into_bytes();
        for file in ["adapter/adapter_model.safetensors", "checkpoint.safetensors"] {
            bytes.extend(tensors(&out.join(file))?);
        }
        Ok(bytes)
    });
    let _ = fs::remove_dir_all(&out);
    result
}

/// The tensor data of a safetensors file. The header contains timestamps.
fn tensors(path: &Path) -> Outcome<Vec<u8>> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let header = bytes.first_chunk().map(|length| u64::from_le_bytes(*length) as usize);
    let data = header.and_then(|length| bytes.get(8 + length..));
    data.map(<[u8]>::to_vec)
        .ok_or_else(|| format!("{} is not a safetensors file.", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_bit_for_bit() {
        let output = r#"{"text":"ids","ids":[1,23],"perplexity":-0.0,"losses":[6.25, 0.1],"none":null}"#;
        for (field, expected) in [("ids", "[1,23]"), ("perplexity", "-0.0"), ("losses", "[6.25,0.1]")] {
            assert_eq!(value(output, field).as_deref(), Ok(expected));
        }
        assert!(value(output, "none").is_err() && value(output, "text ").is_err() && value("{", "ids").is_err());
        let next_float = value(r#"{"x":0.10000000000000002}"#, "x");
        assert_ne!(next_float, value(r#"{"x":0.1}"#, "x"));
    }
}

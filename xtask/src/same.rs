//! `cargo xtask same`: whether two builds of `hearth` compute the same bits on the CPU.
//!
//! A change that moves code and is to change no result is tried by this: perplexities, answers, losses, adapters and training states of
//! the fixtures, on every level of vector instructions that the machine has, and of the default model on its own level.

use crate::json;
use crate::model;
use crate::place;
use crate::process::{Outcome, announce};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Levels of vector instructions beside the machine's own, as `HEARTH_ISA` names them.
const LEVELS: &[&str] = match cfg!(target_arch = "x86_64") {
    true => &["avx2", "scalar"],
    false => &["neon", "scalar"],
};

/// What a model says first. It needs no template.
const PROMPT: &str = "Once upon a time there was";

/// How each model is asked: what is compared of the answer's JSON, and the command line behind the model.
const ASKED: &[(&str, &[&str])] = &[
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

/// How an adapter of each model is trained.
const TRAINED: &[&[&str]] = &[
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

/// Compares two executables; without a second one, with the build in the target folder.
///
/// # Errors
/// One of them cannot be started or fails where the other does not, or they differ.
pub fn same(arguments: &[String]) -> Outcome {
    let mut programs = arguments.iter().map(PathBuf::from);
    let old = programs
        .next()
        .ok_or("Name the executable to compare with: cargo xtask same OLD [NEW].")?;
    let new = programs.next().unwrap_or_else(|| place::executable("hearth"));
    let mut compared = Compared {
        programs: [old, new],
        same: 0,
        different: Vec::new(),
    };
    for model in fixtures()? {
        compared.model(&model, None);
        LEVELS.iter().for_each(|level| compared.model(&model, Some(level)));
    }
    if model::path().is_file() {
        compared.model(&model::path(), None);
    }
    compared.verdict()
}

/// The fixtures' models.
fn fixtures() -> Outcome<Vec<PathBuf>> {
    let folder = place::root().join("tests/fixtures/models");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut models: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    models.retain(|path| path.extension().is_some_and(|ending| ending == "gguf"));
    models.sort();
    Ok(models)
}

struct Compared {
    programs: [PathBuf; 2],
    same: usize,
    different: Vec<String>,
}

impl Compared {
    /// One model on one level; none: the machine's own.
    fn model(&mut self, model: &Path, level: Option<&str>) {
        let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        announce(&format!("{name}, {}", level.unwrap_or("the machine's own level")));
        let text = place::root().join("tests/fixtures/perplexity/text.txt");
        for (field, words) in ASKED {
            let command = |program: &Path| {
                let mut command = started(program, level);
                let (verb, rest) = words.split_first().unwrap_or((&"", &[]));
                command.arg(verb).arg(model);
                rest.iter().for_each(|word| match *word {
                    "TEXT" => drop(command.arg(&text)),
                    word => drop(command.arg(word)),
                });
                command.arg("--json");
                said(&mut command).map(|said| value(&said, field).into_bytes())
            };
            self.compare(&name, level, &words.join(" "), command);
        }
        for options in TRAINED {
            let command = |program: &Path| trained(program, level, model, &text, options);
            self.compare(&name, level, &format!("train {}", options.join(" ")), command);
        }
    }

    fn compare(&mut self, model: &str, level: Option<&str>, what: &str, of: impl Fn(&Path) -> Outcome<Vec<u8>>) {
        let [old, new] = [0, 1].map(|at| of(&self.programs[at]));
        if old == new {
            self.same += 1;
            // Both may refuse alike, which says little.
            if let Err(problem) = old {
                println!("    both failed: {what}: {problem}");
            }
            return;
        }
        let told = |side: &Outcome<Vec<u8>>| match side {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(problem) => problem.clone(),
        };
        let different = format!(
            "{model}, {}: {what} ({}; {})",
            level.unwrap_or("own level"),
            told(&old),
            told(&new)
        );
        println!("    DIFFERENT: {different}");
        self.different.push(different);
    }

    fn verdict(self) -> Outcome {
        println!("\n{} the same, {} different", self.same, self.different.len());
        match self.different.is_empty() {
            true => Ok(()),
            false => Err(format!("The two differ in:\n    {}", self.different.join("\n    "))),
        }
    }
}

fn started(program: &Path, level: Option<&str>) -> Command {
    let mut command = Command::new(program);
    // Weights that one of them packed are not for the other.
    command.env("HEARTH_CACHE", "off").stdin(Stdio::null());
    if let Some(level) = level {
        command.env("HEARTH_ISA", level);
    }
    command
}

/// The last line that a program prints, or why there is none.
fn said(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let last = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.lines().last().unwrap_or_default().to_owned()
    };
    match output.status.success() {
        true => Ok(last(&output.stdout)),
        false => Err(last(&output.stderr)),
    }
}

/// A field of a JSON object as it is written: a number, or a list of numbers.
fn value(object: &str, field: &str) -> String {
    let numbers = json::list(object, field).unwrap_or_default();
    match json::number(object, field) {
        Some(number) if numbers.is_empty() => format!("{:016x}", number.to_bits()),
        _ => numbers.to_owned(),
    }
}

/// The losses of a short run, and the bits of its adapter and its state.
fn trained(program: &Path, level: Option<&str>, model: &Path, text: &Path, options: &[&str]) -> Outcome<Vec<u8>> {
    let out = env::temp_dir().join(format!("hearth-same-{}", std::process::id()));
    let _ = fs::remove_dir_all(&out);
    let mut command = started(program, level);
    command.arg("train").arg(model).arg(text).arg("--out").arg(&out);
    command
        .args(["--max-steps", "4", "--seq", "64", "--json"])
        .args(options);
    let result = said(&mut command).and_then(|said| {
        let mut bytes = value(&said, "losses").into_bytes();
        for file in ["adapter/adapter_model.safetensors", "checkpoint.safetensors"] {
            bytes.extend(tensors(&out.join(file))?);
        }
        Ok(bytes)
    });
    let _ = fs::remove_dir_all(&out);
    result
}

/// The numbers in a safetensors file. What stands before them has times in it.
fn tensors(path: &Path) -> Outcome<Vec<u8>> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let header = bytes.first_chunk().map(|length| u64::from_le_bytes(*length) as usize);
    let data = header.and_then(|length| bytes.get(8 + length..));
    data.map(<[u8]>::to_vec)
        .ok_or_else(|| format!("{} is no safetensors file.", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_of_an_answer_are_its_numbers() {
        let said = r#"{"text":"ids","ids":[1,23],"perplexity":1.5,"losses":[6.25, 5]}"#;
        assert_eq!(value(said, "ids"), "1,23");
        assert_eq!(value(said, "losses"), "6.25, 5");
        assert_eq!(value(said, "perplexity"), format!("{:016x}", 1.5f64.to_bits()));
    }
}

//! `cargo xtask fuzz`: the targets of `fuzz/` under libFuzzer, on the stable compiler.
//!
//! Coverage comes from LLVM options that stable rustc passes on. They are put on the workspace's crates alone, by this program as their
//! compiler's wrapper, so that Burn and everything else from a registry is the ordinary build's and is not built again.

use crate::cargo::cargo;
use crate::place;
use crate::process::{Outcome, announce, read, run};
use crate::templates;
use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;

/// Set for [`rustc`]: this program is the compiler's wrapper then.
pub const AS_RUSTC: &str = "HEARTH_FUZZ_RUSTC";

/// As cargo-fuzz has them. After a change of them, remove `hearth_*` from the target folder: Cargo knows a wrapper by its path only.
const COVERAGE: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Crates whose code decides by what it reads. Not the kernels: their loops are hot, and they are handed sizes that were checked.
const COVERED: [&str; 6] = ["engine", "formats", "fuzz", "llm", "protocol", "train"];

/// Targets fuzzed at a time.
const AT_A_TIME: usize = 2;

/// Longest input that is kept with the sources.
const MOST_KEPT: u64 = 4096;

/// What to fuzz, and for how long.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    seconds: u32,
    /// Makes the same mutations each time; a new one if none.
    seed: Option<u32>,
    /// Puts minimised inputs that reach more than the seeds into `fuzz/corpus`.
    keep: bool,
    /// All, if none.
    target: Option<String>,
    /// Inputs to replay instead.
    files: Vec<PathBuf>,
}

impl Asked {
    fn parse(arguments: &[String]) -> Outcome<Self> {
        let mut asked = Self {
            seconds: 20,
            seed: None,
            keep: false,
            target: None,
            files: Vec::new(),
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => {
                    let seconds = words.next().and_then(|number| number.parse().ok());
                    asked.seconds = seconds
                        .filter(|&n| n > 0)
                        .ok_or("--seconds takes a number of seconds.")?;
                }
                "--seed" => {
                    let seed = words.next().and_then(|number| number.parse().ok());
                    asked.seed = Some(seed.filter(|&n| n > 0).ok_or("--seed takes a number, from 1 on.")?);
                }
                "--keep" => asked.keep = true,
                option if option.starts_with('-') => return Err(format!("There is no option {option}.")),
                name if asked.target.is_none() => asked.target = Some(name.to_owned()),
                file => asked.files.push(PathBuf::from(file)),
            }
        }
        Ok(asked)
    }
}

/// A row of the table of targets, as the fuzzer prints it.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    name: String,
    memory_mib: u32,
    longest: u32,
}

impl Target {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        Some(Self {
            name: words.next()?.to_owned(),
            memory_mib: words.next()?.parse().ok()?,
            longest: words.next()?.parse().ok()?,
        })
    }
}

/// Compiles as Cargo asks, with coverage for the crates that are fuzzed.
pub fn rustc(arguments: &[OsString]) -> ExitCode {
    let Some((compiler, rest)) = arguments.split_first() else {
        return ExitCode::FAILURE;
    };
    let of = |option: &str| {
        let at = rest.iter().position(|word| word == option)?;
        rest.get(at + 1)?.to_str()
    };
    let name = of("--crate-name").unwrap_or_default();
    let is_covered = name == "libfuzzer" || name.strip_prefix("hearth_").is_some_and(|name| COVERED.contains(&name));
    let mut command = Command::new(compiler);
    command.args(rest);
    if is_covered {
        command.args(COVERAGE);
    }
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}: {error}", compiler.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}

/// Fuzzes one target or all of them, or replays inputs.
///
/// # Errors
/// The options make no sense, the build fails, or an input was found that a target does not survive.
pub fn fuzz(arguments: &[String]) -> Outcome {
    let asked = Asked::parse(arguments)?;
    // They are seeds. Without them other seeds are left.
    if let Err(problem) = templates::fetch() {
        eprintln!("{problem}");
    }
    let fuzzer = build()?;
    let mut targets = targets(&fuzzer)?;
    if let Some(name) = &asked.target {
        targets.retain(|target| target.name == *name);
        if targets.is_empty() {
            return Err(format!(
                "There is no target {name}. Targets are the rows of TARGETS in fuzz/src/lib.rs."
            ));
        }
    }
    if let (Some(target), false) = (targets.first(), asked.files.is_empty()) {
        let files = asked
            .files
            .iter()
            .map(|file| env::current_dir().unwrap_or_default().join(file));
        return run("Replaying", started(&fuzzer, target, &folder_of(target)?).args(files));
    }
    announce(&format!(
        "Fuzzing {} targets for {} s each, {AT_A_TIME} at a time",
        targets.len(),
        asked.seconds
    ));
    let failed = Mutex::new(Vec::new());
    let waiting = Mutex::new(targets.iter().collect::<VecDeque<_>>());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.pop_front());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(target) = next() {
                    if let Err(problem) = one(&fuzzer, target, &asked) {
                        eprintln!("\n{problem}");
                        if let Ok(mut failed) = failed.lock() {
                            failed.push(target.name.as_str());
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_default().as_slice() {
        [] => Ok(()),
        failed => Err(format!(
            "Fuzzing found inputs that do not end as they should: {}.",
            failed.join(", ")
        )),
    }
}

/// Builds the fuzzer; with assertions and checks of overflow in the crates that are fuzzed.
fn build() -> Outcome<PathBuf> {
    if cfg!(windows) {
        return Err("Fuzzing takes Linux or macOS. Here `cargo test --test replay` replays the inputs.".to_owned());
    }
    let this = env::current_exe().map_err(|error| format!("This program does not know where it is ({error})."))?;
    let selected = [
        "--workspace",
        "--example",
        "libfuzzer",
        "--features",
        "hearth-fuzz/libfuzzer",
    ];
    let mut build = cargo(&["build", "--release", "--locked"]);
    build.args(selected);
    for name in COVERED {
        for check in ["debug-assertions=true", "overflow-checks=true"] {
            build.args(["--config", &format!("profile.release.package.hearth-{name}.{check}")]);
        }
    }
    // What is fuzzed is small, so that the time to build counts more.
    for name in COVERED.iter().chain(&["kernels"]) {
        build.args([
            "--config",
            &format!("profile.release.package.hearth-{name}.opt-level=1"),
        ]);
    }
    build.env("RUSTC_WORKSPACE_WRAPPER", this).env(AS_RUSTC, "1");
    run("Building the fuzzer", &mut build)?;
    let examples = place::target().join("release").join("examples");
    Ok(examples.join("libfuzzer").with_extension(env::consts::EXE_EXTENSION))
}

/// The table of targets.
fn targets(fuzzer: &Path) -> Outcome<Vec<Target>> {
    let table = read(Command::new(fuzzer).current_dir(place::root())).ok_or("The fuzzer does not list its targets.")?;
    let rows = table.lines().map(|line| Target::parse(line).ok_or(line));
    rows.collect::<Result<_, _>>()
        .map_err(|line| format!("The fuzzer's list of targets has a line that is none: {line}"))
}

/// Where inputs are put that a target does not survive. They stay until they are removed by hand.
fn artifacts() -> PathBuf {
    place::target().join("fuzz").join("artifacts")
}

/// An empty folder for a target.
fn folder_of(target: &Target) -> Outcome<PathBuf> {
    let folder = place::target().join("fuzz").join(&target.name);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::create_dir_all(artifacts()).map_err(failed)?;
    for part in ["seeds", "found"] {
        fs::create_dir_all(folder.join(part)).map_err(failed)?;
    }
    Ok(folder)
}

/// The fuzzer with a target's limits. It writes the seeds itself.
fn started(fuzzer: &Path, target: &Target, folder: &Path) -> Command {
    let mut command = Command::new(fuzzer);
    command
        .current_dir(place::root())
        .env("HEARTH_FUZZ_TARGET", &target.name)
        .env("HEARTH_FUZZ_SEEDS", folder.join("seeds"))
        // Beside what is there before the first input. The allocator of `fuzz/src/limits.rs` is stricter.
        .arg(format!("-rss_limit_mb={}", target.memory_mib + 512))
        .arg(format!("-max_len={}", target.longest))
        .arg("-timeout=60")
        .arg("-print_final_stats=1")
        .arg(format!(
            "-artifact_prefix={}",
            artifacts().join(format!("{}-", target.name)).display()
        ));
    command
}

/// Fuzzes one target.
fn one(fuzzer: &Path, target: &Target, asked: &Asked) -> Outcome {
    let folder = folder_of(target)?;
    let log = folder.join("log");
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let out = File::create(&log).map_err(failed)?;
    let mut command = started(fuzzer, target, &folder);
    command
        .args(asked.seed.map(|seed| format!("-seed={seed}")))
        .arg(format!("-max_total_time={}", asked.seconds))
        .arg(folder.join("found"))
        .arg(folder.join("seeds"))
        .stdout(out.try_clone().map_err(failed)?)
        .stderr(out);
    let status = command.status().map_err(failed)?;
    let log = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    if !status.success() {
        return Err(report(target, &log));
    }
    let stat = |name: &str| {
        let line = log.lines().rev().find(|line| line.contains(name));
        line.and_then(|line| line.split(name).nth(1)?.split_whitespace().next())
            .unwrap_or("?")
            .to_owned()
    };
    println!(
        "    {}: {} runs, {} edges, {} MiB",
        target.name,
        stat("number_of_executed_units:"),
        stat(" cov: "),
        stat("peak_rss_mb:")
    );
    match asked.keep {
        true => keep(fuzzer, target, &folder),
        false => Ok(()),
    }
}

/// What to tell of an input that was found.
fn report(target: &Target, log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines[lines.len().saturating_sub(40)..].join("\n");
    let written = log
        .split("Test unit written to ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let name = &target.name;
    let how = match written {
        Some(input) => format!(
            "The input: {input}\nReplay it: cargo xtask fuzz {name} {input}\n\
             Keep it, once it is mended: copy it to fuzz/corpus/{name}, which the test `replay` reads."
        ),
        None => format!("There is no input: the fuzzer did not come so far. Try again: cargo xtask fuzz {name}"),
    };
    format!("{tail}\n\nThe target {name} failed.\n{how}")
}

/// Adds inputs to `fuzz/corpus` that reach what seeds do not.
fn keep(fuzzer: &Path, target: &Target, folder: &Path) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let names = |folder: &Path| -> Outcome<Vec<OsString>> {
        let entries = fs::read_dir(folder).map_err(failed)?.flatten();
        Ok(entries.map(|entry| entry.file_name()).collect())
    };
    let seeds = folder.join("seeds");
    let before = names(&seeds)?;
    let mut merge = started(fuzzer, target, folder);
    merge.arg("-merge=1").arg(&seeds).arg(folder.join("found"));
    run(&format!("Minimising what was found for {}", target.name), &mut merge)?;
    let corpus = place::root().join("fuzz").join("corpus").join(&target.name);
    fs::create_dir_all(&corpus).map_err(failed)?;
    for name in names(&seeds)?.iter().filter(|name| !before.contains(name)) {
        let file = seeds.join(name);
        if file.metadata().map_err(failed)?.len() <= MOST_KEPT {
            fs::copy(&file, corpus.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Outcome<Asked> {
        Asked::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let all = asked(&[]).expect("no option is needed");
        assert_eq!((all.seconds, all.keep, all.target), (20, false, None));
        let one = asked(&["gguf", "--seconds", "300", "--keep"]).expect("options");
        assert_eq!(
            (one.seconds, one.keep, one.target.as_deref()),
            (300, true, Some("gguf"))
        );
        let replayed = asked(&["gguf", "a", "b"]).expect("files");
        assert_eq!(replayed.files, [PathBuf::from("a"), PathBuf::from("b")]);
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--second", "1"]] {
            assert!(asked(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_was_found_is_told_with_its_target_its_input_and_how_to_replay_it() {
        let target = Target::parse("gguf 512 4096").expect("a row");
        let log = "thread panicked\nartifact_prefix='x'; Test unit written to /t/fuzz/gguf/crash-1\nBase64: AA==";
        let report = report(&target, log);
        assert!(report.contains("The target gguf failed"), "{report}");
        assert!(
            report.contains("cargo xtask fuzz gguf /t/fuzz/gguf/crash-1\n"),
            "{report}"
        );
        assert_eq!(Target::parse("gguf"), None);
    }
}

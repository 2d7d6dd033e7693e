//! `cargo xtask fuzz`: runs the targets of `fuzz/` under libFuzzer, on stable Rust. Coverage comes
//! from LLVM options that stable rustc accepts. They are added to workspace crates only, with this
//! program as `RUSTC_WORKSPACE_WRAPPER`, so that Burn and other registry crates are shared with the
//! ordinary build.

use crate::cargo::cargo;
use crate::process::{Outcome, announce, read, run};
use crate::templates;
use crate::{cases, paths};
use hearth_test_parts::Parts;
use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;

/// Environment variable that makes this program act as the compiler wrapper [`rustc`].
pub const RUSTC_WRAPPER_ENV: &str = "HEARTH_FUZZ_RUSTC";

/// As used by cargo-fuzz. After changing them, remove `hearth_*` from the target folder: cargo
/// tracks a wrapper only by its path.
const COVERAGE_FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Crates that parse untrusted input. Not the kernels: their loops are hot, and their sizes are
/// validated by the caller.
const COVERED_CRATES: [&str; 6] = ["engine", "formats", "fuzz", "llm", "protocol", "train"];

/// Number of targets fuzzed in parallel.
const PARALLEL_TARGETS: usize = 2;

/// Maximum size of a corpus file, in bytes.
const MAX_CORPUS_FILE: u64 = 4096;

/// Options of `cargo xtask fuzz`.
#[derive(Debug, PartialEq, Eq)]
struct FuzzOptions {
    seconds: u32,
    /// Seed; `None` for a random one.
    seed: Option<u32>,
    /// Whether minimized inputs with new coverage are added to `fuzz/corpus`.
    keep: bool,
    /// Parts of all targets, such as `2,4/4`; `None` for all.
    parts: Option<String>,
    /// The target; `None` for all.
    target: Option<String>,
    /// Inputs to replay instead of fuzzing.
    files: Vec<PathBuf>,
}

impl FuzzOptions {
    fn parse(arguments: &[String]) -> Outcome<Self> {
        let mut options = Self {
            seconds: 20,
            seed: None,
            keep: false,
            parts: None,
            target: None,
            files: Vec::new(),
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => {
                    let seconds = words.next().and_then(|number| number.parse().ok());
                    options.seconds = seconds
                        .filter(|&n| n > 0)
                        .ok_or("--seconds requires a positive number of seconds.")?;
                }
                "--seed" => {
                    let seed = words.next().and_then(|number| number.parse().ok());
                    options.seed = Some(seed.filter(|&n| n > 0).ok_or("--seed requires a positive number.")?);
                }
                "--keep" => options.keep = true,
                "--parts" => {
                    options.parts = Some(words.next().ok_or("--parts requires parts such as 2,4/4.")?.clone());
                }
                option if option.starts_with('-') => return Err(format!("Unknown option {option}.")),
                name if options.target.is_none() => options.target = Some(name.to_owned()),
                file => options.files.push(PathBuf::from(file)),
            }
        }
        Ok(options)
    }
}

/// A row of the table of targets printed by the fuzzer.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    name: String,
    memory_mib: u32,
    max_len: u32,
}

impl Target {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        Some(Self {
            name: words.next()?.to_owned(),
            memory_mib: words.next()?.parse().ok()?,
            max_len: words.next()?.parse().ok()?,
        })
    }
}

/// Runs the compiler with cargo's arguments, adding coverage flags for fuzzed crates.
pub fn rustc(arguments: &[OsString]) -> ExitCode {
    let Some((compiler, rest)) = arguments.split_first() else {
        return ExitCode::FAILURE;
    };
    let value = |option: &str| {
        let index = rest.iter().position(|word| word == option)?;
        rest.get(index + 1)?.to_str()
    };
    let name = value("--crate-name").unwrap_or_default();
    let is_covered = name == "libfuzzer"
        || name
            .strip_prefix("hearth_")
            .is_some_and(|name| COVERED_CRATES.contains(&name));
    let mut command = Command::new(compiler);
    command.args(rest);
    if is_covered {
        command.args(COVERAGE_FLAGS);
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
/// If the options are invalid, the build fails, or an input makes a target fail.
pub fn fuzz(arguments: &[String]) -> Outcome {
    let options = FuzzOptions::parse(arguments)?;
    // The templates are seeds; without them the other seeds remain.
    if let Err(problem) = templates::fetch() {
        eprintln!("{problem}");
    }
    let fuzzer = build()?;
    let mut targets = targets(&fuzzer)?;
    if let Some(value) = &options.parts {
        let parts = Parts::selected("fuzz", Some(value), Some(&cases::recorded()))
            .map_err(|problem| format!("--parts: {problem}."))?;
        let mut indices = 0..;
        targets.retain(|target| indices.next().is_some_and(|index| parts.includes(index, &target.name)));
    }
    if let Some(name) = &options.target {
        targets.retain(|target| target.name == *name);
        if targets.is_empty() {
            return Err(format!(
                "Unknown target {name}. The targets are listed in TARGETS in fuzz/src/lib.rs."
            ));
        }
    }
    if let (Some(target), false) = (targets.first(), options.files.is_empty()) {
        let files = options
            .files
            .iter()
            .map(|file| env::current_dir().unwrap_or_default().join(file));
        return run(
            "Replaying",
            command(&fuzzer, target, &create_folder(target)?).args(files),
        );
    }
    announce(&format!(
        "Fuzzing {} targets for {} s each, {PARALLEL_TARGETS} at a time",
        targets.len(),
        options.seconds
    ));
    let failed_targets = Mutex::new(Vec::new());
    let queue = Mutex::new(targets.iter().collect::<VecDeque<_>>());
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop_front());
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_TARGETS {
            scope.spawn(|| {
                while let Some(target) = next() {
                    if let Err(problem) = fuzz_target(&fuzzer, target, &options) {
                        eprintln!("\n{problem}");
                        if let Ok(mut failed) = failed_targets.lock() {
                            failed.push(target.name.as_str());
                        }
                    }
                }
            });
        }
    });
    match failed_targets.into_inner().unwrap_or_default().as_slice() {
        [] => Ok(()),
        failed => Err(format!("Fuzzing found failing inputs for: {}.", failed.join(", "))),
    }
}

/// Builds the fuzzer, with debug assertions and overflow checks in fuzzed crates.
fn build() -> Outcome<PathBuf> {
    if cfg!(windows) {
        return Err(
            "Fuzzing requires Linux or macOS. On Windows, run `cargo test --test replay` to replay the inputs."
                .to_owned(),
        );
    }
    let wrapper = env::current_exe()
        .map_err(|error| format!("The path of this executable could not be determined ({error})."))?;
    let selected = [
        "--workspace",
        "--example",
        "libfuzzer",
        "--features",
        "hearth-fuzz/libfuzzer",
    ];
    let mut build = cargo(&["build", "--release", "--locked"]);
    build.args(selected);
    for name in COVERED_CRATES {
        for check in ["debug-assertions=true", "overflow-checks=true"] {
            build.args(["--config", &format!("profile.release.package.hearth-{name}.{check}")]);
        }
    }
    // Inputs are small, so build time matters more than run time.
    for name in COVERED_CRATES.iter().chain(&["kernels"]) {
        build.args([
            "--config",
            &format!("profile.release.package.hearth-{name}.opt-level=1"),
        ]);
    }
    build
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
        .env(RUSTC_WRAPPER_ENV, "1");
    run("Building the fuzzer", &mut build)?;
    let examples = paths::target().join("release").join("examples");
    Ok(examples.join("libfuzzer").with_extension(env::consts::EXE_EXTENSION))
}

/// Reads the table of targets.
fn targets(fuzzer: &Path) -> Outcome<Vec<Target>> {
    let table = read(Command::new(fuzzer).current_dir(paths::root())).ok_or("The fuzzer did not list its targets.")?;
    let rows = table.lines().map(|line| Target::parse(line).ok_or(line));
    rows.collect::<Result<_, _>>()
        .map_err(|line| format!("Invalid line in the fuzzer's list of targets: {line}"))
}

/// Folder of failing inputs. They are never deleted automatically.
fn artifacts() -> PathBuf {
    paths::target().join("fuzz").join("artifacts")
}

/// Creates an empty folder for a target.
fn create_folder(target: &Target) -> Outcome<PathBuf> {
    let folder = paths::target().join("fuzz").join(&target.name);
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

/// The fuzzer command with a target's limits. The fuzzer writes the seeds itself.
fn command(fuzzer: &Path, target: &Target, folder: &Path) -> Command {
    let mut command = Command::new(fuzzer);
    command
        .current_dir(paths::root())
        .env("HEARTH_FUZZ_TARGET", &target.name)
        .env("HEARTH_FUZZ_SEEDS", folder.join("seeds"))
        // Allows for memory used before the first input. The allocator of `fuzz/src/limits.rs` is
        // stricter.
        .arg(format!("-rss_limit_mb={}", target.memory_mib + 512))
        .arg(format!("-max_len={}", target.max_len))
        .arg("-timeout=60")
        .arg("-print_final_stats=1")
        .arg(format!(
            "-artifact_prefix={}",
            artifacts().join(format!("{}-", target.name)).display()
        ));
    command
}

/// Fuzzes one target.
fn fuzz_target(fuzzer: &Path, target: &Target, options: &FuzzOptions) -> Outcome {
    let folder = create_folder(target)?;
    let log = folder.join("log");
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let out = File::create(&log).map_err(failed)?;
    let mut command = command(fuzzer, target, &folder);
    command
        .args(options.seed.map(|seed| format!("-seed={seed}")))
        .arg(format!("-max_total_time={}", options.seconds))
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
    if options.keep {
        keep(fuzzer, target, &folder)
    } else {
        Ok(())
    }
}

/// The message for a failing input.
fn report(target: &Target, log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines[lines.len().saturating_sub(40)..].join("\n");
    let input_path = log
        .split("Test unit written to ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let name = &target.name;
    let advice = match input_path {
        Some(input) => format!(
            "The input: {input}\nReplay it: cargo xtask fuzz {name} {input}\n\
             Once the bug is fixed, copy it to fuzz/corpus/{name}, so that the test `replay` covers it."
        ),
        None => format!("No input was written: the fuzzer failed before that. Try again: cargo xtask fuzz {name}"),
    };
    format!("{tail}\n\nThe target {name} failed.\n{advice}")
}

/// Adds inputs with new coverage to `fuzz/corpus`.
fn keep(fuzzer: &Path, target: &Target, folder: &Path) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let names = |folder: &Path| -> Outcome<Vec<OsString>> {
        let entries = fs::read_dir(folder).map_err(failed)?.flatten();
        Ok(entries.map(|entry| entry.file_name()).collect())
    };
    let seeds = folder.join("seeds");
    let before = names(&seeds)?;
    let mut merge = command(fuzzer, target, folder);
    merge.arg("-merge=1").arg(&seeds).arg(folder.join("found"));
    run(&format!("Minimizing the inputs found for {}", target.name), &mut merge)?;
    let corpus = paths::root().join("fuzz").join("corpus").join(&target.name);
    fs::create_dir_all(&corpus).map_err(failed)?;
    for name in names(&seeds)?.iter().filter(|name| !before.contains(name)) {
        let file = seeds.join(name);
        if file.metadata().map_err(failed)?.len() <= MAX_CORPUS_FILE {
            fs::copy(&file, corpus.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Outcome<FuzzOptions> {
        FuzzOptions::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_parsed() {
        let defaults = parse(&[]).expect("no option is needed");
        assert_eq!((defaults.seconds, defaults.keep, defaults.target), (20, false, None));
        let selected = parse(&["gguf", "--seconds", "300", "--keep"]).expect("options");
        assert_eq!(
            (selected.seconds, selected.keep, selected.target.as_deref()),
            (300, true, Some("gguf"))
        );
        let replayed = parse(&["gguf", "a", "b"]).expect("files");
        assert_eq!(replayed.files, [PathBuf::from("a"), PathBuf::from("b")]);
        for invalid in [&["--seconds"][..], &["--seconds", "0"], &["--second", "1"]] {
            assert!(parse(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn failures_are_reported_with_target_input_and_replay_command() {
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

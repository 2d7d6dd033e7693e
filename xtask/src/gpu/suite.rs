//! Runs all GPU tests in each build.

use super::options::Options;
use super::report::{Part, command_line};
use crate::nextest::{nextest, run_nextest};
use crate::process::{Outcome, capture, read};
use std::path::Path;
use std::process::Command;

/// The GPU tests of the portable build: of the kernels in `tests`, of the models in `crates/llm`,
/// of the worker in `crates/engine`.
const PORTABLE: [&str; 3] = ["--workspace", "--test", "gpu"];

/// The packages whose tests are built for a backend. The worker's tests inject allocation failures
/// and lost devices, which only wgpu can simulate.
fn packages(backend: &str) -> &'static [&'static str] {
    match backend {
        "cuda" => &["hearth-tests", "hearth-llm"],
        _ => &["hearth-tests", "hearth-llm", "hearth-engine"],
    }
}

/// Arguments that select the GPU tests in a build for a backend, which replaces the portable build.
pub fn select(backend: &str) -> Vec<String> {
    let packages = packages(backend);
    let features: Vec<String> = packages.iter().map(|package| format!("{package}/{backend}")).collect();
    let mut arguments: Vec<String> = ["--test", "gpu", "--no-default-features", "--features"]
        .map(str::to_owned)
        .into();
    arguments.push(features.join(","));
    for package in packages {
        arguments.extend(["--package".to_owned(), (*package).to_owned()]);
    }
    arguments
}

/// Runs the GPU tests, on the hardware driver if there is a hardware GPU.
pub fn part(options: &Options, real: bool) -> Part {
    let mut part = Part::default();
    match (&options.hearth, options.tests.as_slice()) {
        (None, _) => {
            let portable = PORTABLE.map(str::to_owned).to_vec();
            let others = options.builds.iter().map(|backend| select(backend));
            for arguments in std::iter::once(portable).chain(others) {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let tested = nextest(&arguments).and_then(|command| suite(command, real, options.quick, &mut part));
                tested.unwrap_or_else(|problem| part.fail(&problem));
            }
        }
        (Some(_), []) => return Part::skipped("`--hearth` was given without its test executables (`--tests`)."),
        (Some(_), programs) => {
            for program in programs {
                let tested = executable(program, real, options.quick, &mut part);
                tested.unwrap_or_else(|problem| part.fail(&problem));
            }
        }
    }
    part
}

/// Runs a nextest command.
fn suite(mut command: Command, real: bool, quick: bool, part: &mut Part) -> Outcome {
    prepare(&mut command, real, quick, part);
    let results = run_nextest("GPU tests", &mut command, "gpu")?;
    let sum = format!("{} passed, {} failed.", results.passed.len(), results.failed.len());
    match results.failed.as_slice() {
        [] => part.say(&sum),
        failed => part.fail(&format!("{sum} Failed tests: `{}`.", failed.join("`, `"))),
    }
    Ok(())
}

/// Runs a test executable that was built elsewhere, where there may be no cargo.
fn executable(program: &Path, real: bool, quick: bool, part: &mut Part) -> Outcome {
    let listed = read(Command::new(program).args(["--list", "--format", "terse"])).unwrap_or_default();
    let number = listed.lines().count();
    let mut command = Command::new(program);
    prepare(&mut command, real, quick, part);
    let output = capture("GPU tests", &mut command)?;
    match (output.ok, number) {
        (true, 0) => part.fail("the executable contains no test."),
        (true, number) => part.say(&format!("All {number} tests passed.")),
        (false, _) => {
            part.fail("the test executable failed:");
            part.block("text", &format!("{}\n{}", output.stdout, output.stderr));
        }
    }
    Ok(())
}

/// Sets the tests' environment, and adds the command line to the page.
fn prepare(command: &mut Command, real: bool, quick: bool, part: &mut Part) {
    command.env_remove("HEARTH_NO_GPU_TESTS");
    let mut shown = command_line(command);
    if real {
        command.env("HEARTH_TEST_GPU", "real");
        shown = format!("HEARTH_TEST_GPU=real {shown}");
    }
    if real && !quick {
        // Every case of the operation table; on a software driver it would take a day.
        command.env("HEARTH_GPU_TABLE", "complete");
        shown = format!("HEARTH_GPU_TABLE=complete {shown}");
    }
    part.commands(&[shown]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::BACKENDS;

    #[test]
    fn every_backend_has_its_own_tests() {
        for backend in BACKENDS {
            let line = select(backend).join(" ");
            assert!(line.contains("--no-default-features"), "{line}");
            for package in ["hearth-tests", "hearth-llm"] {
                assert!(line.contains(&format!("{package}/{backend}")), "{line}");
            }
        }
    }
}

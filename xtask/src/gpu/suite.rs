//! Runs all GPU tests in each build.

use super::options::Options;
use super::report::{Part, command_line};
use crate::cargo::cargo;
use crate::process::run_streaming;
use crate::test::parse_totals;
use std::process::Command;

/// The GPU tests of the portable build: of the kernels in `tests`, of the models in `crates/llm`,
/// of the worker in `crates/engine`.
const PORTABLE: [&str; 7] = [
    "test",
    "--no-fail-fast",
    "--release",
    "--locked",
    "--workspace",
    "--test",
    "gpu",
];

/// The packages whose tests are built for a backend. The worker's tests inject allocation failures
/// and lost devices, which only wgpu can simulate.
fn packages(backend: &str) -> &'static [&'static str] {
    match backend {
        "cuda" => &["hearth-tests", "hearth-llm"],
        _ => &["hearth-tests", "hearth-llm", "hearth-engine"],
    }
}

/// The GPU tests in a build for a backend, which replaces the portable build.
pub fn suite_of(backend: &str) -> Command {
    let mut command = cargo(&["test", "--no-fail-fast", "--release", "--locked", "--test", "gpu"]);
    command.arg("--no-default-features");
    let packages = packages(backend);
    for package in packages {
        command.args(["--package", package]);
    }
    let features: Vec<String> = packages.iter().map(|package| format!("{package}/{backend}")).collect();
    command.arg("--features").arg(features.join(","));
    command
}

/// Runs the GPU tests, on the hardware driver if there is a hardware GPU.
pub fn part(options: &Options, real: bool) -> Part {
    let commands: Vec<Command> = match (&options.hearth, options.tests.as_slice()) {
        (None, _) => std::iter::once(cargo(&PORTABLE))
            .chain(options.builds.iter().map(|backend| suite_of(backend)))
            .collect(),
        (Some(_), []) => return Part::skipped("`--hearth` was given without its test executables (`--tests`)."),
        (Some(_), programs) => programs.iter().map(Command::new).collect(),
    };
    let mut part = Part::default();
    for mut command in commands {
        one(&mut command, real, options.quick, &mut part);
    }
    part
}

fn one(command: &mut Command, real: bool, quick: bool, part: &mut Part) {
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
    let (mut passed, mut failed, mut names) = (0, 0, Vec::new());
    let ended = run_streaming("GPU tests", command, |line| {
        if let Some((passed_test, badly)) = parse_totals(line) {
            passed += passed_test;
            failed += badly;
        }
        if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            names.push(name.to_owned());
        }
    });
    let sum = format!("{passed} passed, {failed} failed.");
    match ended {
        Ok(true) if passed > 0 => part.say(&sum),
        Ok(true) => part.fail("no test was run."),
        Ok(false) if names.is_empty() => part.fail(&format!("the test program ended early. {sum}")),
        Ok(false) => part.fail(&format!("{sum} Failed tests: `{}`.", names.join("`, `"))),
        Err(problem) => part.fail(&problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::BACKENDS;

    #[test]
    fn every_backend_has_its_own_tests() {
        for backend in BACKENDS {
            let arguments: Vec<_> = suite_of(backend)
                .get_args()
                .map(|a| a.to_string_lossy().into_owned())
                .collect();
            let line = arguments.join(" ");
            assert!(line.contains("--no-default-features"), "{line}");
            for package in ["hearth-tests", "hearth-llm"] {
                assert!(line.contains(&format!("{package}/{backend}")), "{line}");
            }
        }
    }
}

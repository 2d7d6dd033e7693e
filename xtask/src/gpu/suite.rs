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
                let result = suite(&arguments, real, options.quick, &mut part);
                result.unwrap_or_else(|problem| part.fail(&problem));
            }
        }
        (Some(_), []) => return Part::skipped("`--hearth` was given without its test executables (`--tests`)."),
        (Some(_), programs) => {
            let has_matrix_units = programs.iter().any(|program| has_units(program, real));
            for program in programs {
                let result = executable(program, has_matrix_units, real, options.quick, &mut part);
                result.unwrap_or_else(|problem| part.fail(&problem));
            }
        }
    }
    part
}

/// The test that the driver has matrix units. Tests that need them are ignored by default.
pub const PREFLIGHT: &str = "matrix_units::the_driver_lists_matrix_units";

/// Runs the GPU tests of a build, also those that need matrix units if the driver has them.
fn suite(arguments: &[&str], real: bool, quick: bool, part: &mut Part) -> Outcome {
    let mut preflight = nextest(arguments)?;
    preflight.args([PREFLIGHT, "--run-ignored", "only"]);
    environment(&mut preflight, real);
    let units = run_nextest("Looking for matrix units", &mut preflight, "gpu-units")?
        .failed
        .is_empty();
    let mut command = nextest(arguments)?;
    if units {
        command.args(["--run-ignored", "all"]);
    }
    prepare(&mut command, real, quick, part);
    let results = run_nextest("GPU tests", &mut command, "gpu")?;
    let units = if units {
        ""
    } else {
        " This build has no matrix units on this driver: their tests did not run."
    };
    let sum = format!(
        "{} passed, {} failed.{units}",
        results.passed.len(),
        results.failed.len()
    );
    match results.failed.as_slice() {
        [] => part.say(&sum),
        failed => part.fail(&format!("{sum} Failed tests: `{}`.", failed.join("`, `"))),
    }
    Ok(())
}

/// Whether a test executable is of a build that has matrix units on this driver.
fn has_units(program: &Path, real: bool) -> bool {
    let mut command = Command::new(program);
    command.args(["--ignored", "--exact", PREFLIGHT]);
    environment(&mut command, real);
    // Executables without this test pass by running nothing.
    read(&mut command).is_some_and(|output| output.contains("1 passed"))
}

/// Runs a test executable that was built elsewhere, where there may be no cargo.
fn executable(program: &Path, units: bool, real: bool, quick: bool, part: &mut Part) -> Outcome {
    let listed = read(Command::new(program).args(["--list", "--format", "terse"])).unwrap_or_default();
    let number = listed.lines().count();
    let mut command = Command::new(program);
    if units {
        command.arg("--include-ignored");
    }
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
    let mut shown = command_line(command);
    environment(command, real);
    if real {
        shown = format!("HEARTH_TEST_GPU=real {shown}");
    }
    if real && !quick {
        // Every case of the operation table; on a software driver it would take a day.
        command.env("HEARTH_GPU_TABLE", "complete");
        shown = format!("HEARTH_GPU_TABLE=complete {shown}");
    }
    part.commands(&[shown]);
}

/// Selects the driver.
fn environment(command: &mut Command, real: bool) {
    command.env_remove("HEARTH_NO_GPU_TESTS").env_remove("HEARTH_PART_GPU");
    if real {
        command.env("HEARTH_TEST_GPU", "real");
    }
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

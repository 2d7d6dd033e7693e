//! Every test that needs a GPU, in each build that is measured.

use super::options::Options;
use super::report::{Part, typed};
use crate::cargo::cargo;
use crate::process::watch;
use crate::test::counted;
use std::process::Command;

/// The portable build's test programs of that name: the kernels' in `tests`, the models' in `crates/llm`, the worker's in `crates/engine`.
const PORTABLE: [&str; 7] = [
    "test",
    "--no-fail-fast",
    "--release",
    "--locked",
    "--workspace",
    "--test",
    "gpu",
];

/// The packages whose tests are built for a backend. The worker's tests refuse memory and lose GPUs, which only wgpu can play.
fn packages(backend: &str) -> &'static [&'static str] {
    match backend {
        "cuda" => &["hearth-tests", "hearth-llm"],
        _ => &["hearth-tests", "hearth-llm", "hearth-engine"],
    }
}

/// The same programs in a build for a backend, which takes the place of the portable one.
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

/// Runs them, on the real driver where there is a real GPU.
pub fn part(options: &Options, real: bool) -> Part {
    let commands: Vec<Command> = match (&options.hearth, options.tests.as_slice()) {
        (None, _) => std::iter::once(cargo(&PORTABLE))
            .chain(options.builds.iter().map(|backend| suite_of(backend)))
            .collect(),
        (Some(_), []) => return Part::left_out("a build was given, and no test program of it (`--tests`)."),
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
    let mut shown = typed(command);
    if real {
        command.env("HEARTH_TEST_GPU", "real");
        shown = format!("HEARTH_TEST_GPU=real {shown}");
    }
    if real && !quick {
        // Every case of the table of operations; a driver in software would take a day.
        command.env("HEARTH_GPU_TABLE", "complete");
        shown = format!("HEARTH_GPU_TABLE=complete {shown}");
    }
    part.commands(&[shown]);
    let (mut passed, mut failed, mut names) = (0, 0, Vec::new());
    let ended = watch("The GPU's tests", command, |line| {
        if let Some((well, badly)) = counted(line) {
            passed += well;
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
        Ok(false) if names.is_empty() => part.fail(&format!("it ended before its time. {sum}")),
        Ok(false) => part.fail(&format!("{sum} Those that failed: `{}`.", names.join("`, `"))),
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

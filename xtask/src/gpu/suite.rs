//! Every test that needs a GPU.

use super::options::Options;
use super::report::{Part, typed};
use crate::cargo::cargo;
use crate::process::watch;
use crate::test::counted;
use std::process::Command;

/// The test programs of that name: the kernels' in `tests`, the models' in `crates/llm`, the worker's in `crates/engine`.
const SUITE: [&str; 7] = [
    "test",
    "--no-fail-fast",
    "--release",
    "--locked",
    "--workspace",
    "--test",
    "gpu",
];

/// Runs them, on the real driver where there is a real GPU.
pub fn part(options: &Options, real: bool) -> Part {
    let commands: Vec<Command> = match (&options.hearth, options.tests.as_slice()) {
        (None, _) => vec![cargo(&SUITE)],
        (Some(_), []) => return Part::left_out("a build was given, and no test program of it (`--tests`)."),
        (Some(_), programs) => programs.iter().map(Command::new).collect(),
    };
    let mut part = Part::default();
    for mut command in commands {
        one(&mut command, real, &mut part);
    }
    part
}

fn one(command: &mut Command, real: bool, part: &mut Part) {
    command.env_remove("HEARTH_NO_GPU_TESTS");
    let mut shown = typed(command);
    if real {
        command.env("HEARTH_TEST_GPU", "real");
        shown = format!("HEARTH_TEST_GPU=real {shown}");
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

//! Handing a command to another build of Hearth, which does better on the GPU that is asked for.

use crate::args::How;
use crate::failure::Failure;
use crate::progress::Progress;
use hearth_engine::hardware;
use hearth_protocol::HANDED_OVER;
use std::path::Path;
use std::process::Command;

/// Goes on with the same command line in another build of Hearth, in place of this process, where that is to do it. A GPU that was never
/// checked is checked first.
///
/// # Errors
/// The build that was asked for cannot do it, or could not be started.
pub fn to_the_best_build(how: &How) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let (device, build) = (how.device.as_deref(), how.build.as_deref());
    let program = hardware::elsewhere(device, build, how.gpu_layers, &mut |stage| progress.show(0.0, stage));
    drop(progress);
    match program? {
        Some(program) => Err(go_on_in(&program)),
        None => Ok(()),
    }
}

/// Comes back only where the program cannot be started.
fn go_on_in(program: &Path) -> Failure {
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(HANDED_OVER, "1");
    let error = run(&mut command);
    Failure::new(format!("{} could not be started: {error}.", program.display()))
}

#[cfg(unix)]
fn run(command: &mut Command) -> std::io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

#[cfg(not(unix))]
fn run(command: &mut Command) -> std::io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

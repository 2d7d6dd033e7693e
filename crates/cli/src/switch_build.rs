//! Re-executing a command with another build of Hearth that is faster on the requested GPU.

use crate::args::LoadOptions;
use crate::failure::Failure;
use crate::progress::Progress;
use hearth_engine::hardware;
use hearth_protocol::BUILD_SWITCHED;
use std::path::Path;
use std::process::Command;

/// Replace this process by the preferred build, with the same command line, if it is another one.
/// Runs the device check of unchecked GPUs first.
///
/// # Errors
/// The requested build cannot use the GPU, or could not be started.
pub fn to_preferred_build(options: &LoadOptions) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let (device, build) = (options.device.as_deref(), options.build.as_deref());
    let program = hardware::preferred_build(device, build, options.gpu_layers, &mut |stage| {
        progress.show(0.0, stage)
    });
    drop(progress);
    match program? {
        Some(program) => Err(execute_with(&program)),
        None => Ok(()),
    }
}

/// Returns only if the program cannot be started.
fn execute_with(program: &Path) -> Failure {
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(BUILD_SWITCHED, "1");
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

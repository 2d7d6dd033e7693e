//! The choice of devices for a model, and the switch to the build of Hearth that is predicted to be
//! fastest on them: it replaces this process and executes the same command.

use crate::args::LoadOptions;
use crate::failure::Failure;
use crate::progress::Progress;
use hearth_engine::{hardware, plan};
use hearth_protocol::{DraftChoice, GpuLayers, PlanRequest};
use std::path::Path;
use std::process::Command;

/// Environment variable of a process that another build of Hearth switched to. The process must not
/// switch again.
const SWITCHED: &str = "HEARTH_BUILD_SWITCHED";

/// The devices for a model, as a value for `--device`. Runs the device check of unchecked GPUs
/// first. If another build is predicted to be faster, it replaces this process, with the same
/// command line.
///
/// # Errors
/// The file cannot be read, the requested device or build cannot be used, or the build could not be
/// started.
pub fn choose(
    model: &Path,
    context: Option<u32>,
    draft: &DraftChoice,
    options: &LoadOptions,
) -> Result<String, Failure> {
    if options.gpu_layers == GpuLayers::Count(0) || !hardware::needs_drivers(options.device.as_deref()) {
        return Ok(hardware::CPU.to_owned());
    }
    let is_final = std::env::var_os(SWITCHED).is_some();
    let request = PlanRequest {
        path: model.to_owned(),
        context,
        device: options.device.clone(),
        gpu_layers: options.gpu_layers,
        kv: options.kv,
        draft: draft.clone(),
        build: if is_final {
            Some(hardware::own_build().to_owned())
        } else {
            options.build.clone()
        },
        check: true,
        ..PlanRequest::default()
    };
    let mut progress = Progress::new();
    let plan = plan::plan(&request, &mut |stage| progress.show(0.0, stage));
    drop(progress);
    let plan = plan?;
    match plan.program {
        Some(program) if !is_final => {
            tracing::info!("the build '{}' of Hearth continues", plan.build);
            Err(execute_with(&program))
        }
        _ => Ok(plan.device),
    }
}

/// Replaces this process with the build for a device, with the same command line. Does nothing if
/// this process runs that build.
///
/// # Errors
/// The requested device or build cannot be used, or the build could not be started.
pub fn to_build_for(device: &str, options: &LoadOptions) -> Result<(), Failure> {
    if std::env::var_os(SWITCHED).is_some() {
        return Ok(());
    }
    let mut progress = Progress::new();
    hardware::check_new(Some(device), &mut |stage| progress.show(0.0, stage));
    drop(progress);
    match hardware::build_for(device, options.build.as_deref())? {
        Some(program) => Err(execute_with(&program)),
        None => Ok(()),
    }
}

/// Replaces this process with the program, with the same command line. Returns only if the program
/// cannot be started.
fn execute_with(program: &Path) -> Failure {
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(SWITCHED, "1");
    let error = replace_process(&mut command);
    Failure::new(format!("{} could not be started: {error}.", program.display()))
}

#[cfg(unix)]
fn replace_process(command: &mut Command) -> std::io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

/// Runs the command and exits with its exit code, since a process cannot be replaced here.
#[cfg(not(unix))]
fn replace_process(command: &mut Command) -> std::io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

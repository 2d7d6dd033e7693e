//! `cargo xtask gpu`: tests and benchmarks Hearth on this machine's GPU, compares it with
//! llama.cpp, and writes a report to `docs/gpu/`. Parts that cannot run here are noted in the
//! report, and the others run.

mod bench;
mod check;
mod machine;
mod options;
mod report;
mod spirv;
mod suite;
mod train;

use crate::cargo::cargo;
use crate::process::{Outcome, run};
use crate::{model, package, paths};
use machine::Machine;
use options::Options;
use report::{Part, Report};
pub use spirv::spirv;
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};

/// Builds, runs every part, and writes the report.
///
/// # Errors
/// If an option is invalid, `hearth` cannot be built or run, the report cannot be written, or a
/// part failed.
pub fn gpu(arguments: &[String]) -> Outcome {
    let options = Options::read(arguments)?;
    let hearth = match &options.hearth {
        Some(program) => program.clone(),
        None => build(&options.builds)?,
    };
    let machine = Machine::query(&hearth, options.device.as_deref())?;
    let file = options.out.clone().unwrap_or_else(|| machine.file());
    let mut report = Report::begin(&file, &machine.title())?;
    report.add("The machine", &machine.part(options.hearth.is_none()))?;
    let models = models(&options);
    let Some(device) = machine.device() else {
        let mut part = Part::default();
        part.fail("there is no usable GPU, so nothing was run.");
        report.add("Tests, benchmarks, training", &part)?;
        return report.end();
    };
    report.add("Check", &check::part(&hearth, &device.id))?;
    report.add("Tests", &suite::part(&options, device.real))?;
    for file in &models {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        report.add(&format!("Speed: {name}"), &bench::part(&hearth, device, file, &options))?;
    }
    if let Some(file) = models.first() {
        report.add("Training", &train::part(&hearth, &device.id, file, &options))?;
    }
    report.end()
}

/// Builds the `hearth` of this working tree, with other builds beside it.
fn build(backends: &[String]) -> Outcome<PathBuf> {
    let folder = paths::target().join("gpu");
    for backend in backends {
        package::build(backend)?;
        copy_build(&folder, &format!("hearth-{backend}"))?;
    }
    let arguments = ["build", "--release", "--locked", "--workspace", "--bin", "hearth"];
    run("Building hearth (the first time takes a while)", &mut cargo(&arguments))?;
    copy_build(&folder, "hearth")
}

/// Copies the `hearth` that was built last to a folder, under a name.
fn copy_build(folder: &Path, name: &str) -> Outcome<PathBuf> {
    let file = folder.join(format!("{name}{EXE_SUFFIX}"));
    fs::create_dir_all(folder)
        .and_then(|()| fs::copy(paths::executable("hearth"), &file))
        .map_err(|error| format!("{} could not be written ({error}).", file.display()))?;
    Ok(file)
}

/// The default model (or a tiny one with `--quick`), and the given ones.
fn models(options: &Options) -> Vec<PathBuf> {
    let tiny = paths::root().join("tests/fixtures/models/llama.gguf");
    let default = if options.quick { tiny } else { model::path() };
    std::iter::once(default).chain(options.models.iter().cloned()).collect()
}

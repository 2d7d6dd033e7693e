//! `cargo xtask gpu`: Hearth on this machine's GPU, tested, measured beside llama.cpp, and written down in `docs/gpu/`.
//!
//! What cannot be run here is said on the page, and the rest goes on.

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
use crate::{model, package, place};
use machine::Machine;
use options::Options;
use report::{Part, Report};
pub use spirv::spirv;
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};

/// Builds what is needed, runs every part, and writes the page.
///
/// # Errors
/// An option is not known, `hearth` cannot be built or asked, the page cannot be written, or something on it failed.
pub fn gpu(arguments: &[String]) -> Outcome {
    let options = Options::read(arguments)?;
    let hearth = match &options.hearth {
        Some(program) => program.clone(),
        None => built(&options.builds)?,
    };
    let machine = Machine::ask(&hearth, options.device.as_deref())?;
    let file = options.out.clone().unwrap_or_else(|| machine.file());
    let mut report = Report::begin(&file, &machine.title())?;
    report.add("The machine", &machine.part(options.hearth.is_none()))?;
    let models = models(&options);
    let Some(device) = machine.device() else {
        let mut part = Part::default();
        part.fail("there is no GPU here that Hearth can use, so nothing was run.");
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

/// The `hearth` of this working tree, newly built; of the whole workspace only what that takes. Others lie beside it.
fn built(others: &[String]) -> Outcome<PathBuf> {
    let folder = place::target().join("gpu");
    for other in others {
        package::build(other)?;
        lay(&folder, &format!("hearth-{other}"))?;
    }
    let arguments = ["build", "--release", "--locked", "--workspace", "--bin", "hearth"];
    run("Building hearth (the first time takes a while)", &mut cargo(&arguments))?;
    lay(&folder, "hearth")
}

/// Lays the `hearth` that was built last into a folder, under a name.
fn lay(folder: &Path, name: &str) -> Outcome<PathBuf> {
    let file = folder.join(format!("{name}{EXE_SUFFIX}"));
    fs::create_dir_all(folder)
        .and_then(|()| fs::copy(place::executable("hearth"), &file))
        .map_err(|error| format!("{} could not be written ({error}).", file.display()))?;
    Ok(file)
}

/// The default model, or a tiny one to try this with, and those that were named.
fn models(options: &Options) -> Vec<PathBuf> {
    let tiny = place::root().join("tests/fixtures/models/llama.gguf");
    let first = if options.quick { tiny } else { model::path() };
    std::iter::once(first).chain(options.models.iter().cloned()).collect()
}

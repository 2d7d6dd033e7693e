//! `cargo xtask gpu`: Hearth on this machine's GPU, tested, measured beside llama.cpp, and written down in `docs/gpu/`.
//!
//! What cannot be run here is said on the page, and the rest goes on.

mod bench;
mod machine;
mod options;
mod report;
mod suite;
mod train;

use crate::cargo::cargo;
use crate::process::{Outcome, run};
use crate::{model, place};
use machine::Machine;
use options::Options;
use report::{Part, Report};
use std::path::PathBuf;

/// Builds what is needed, runs every part, and writes the page.
///
/// # Errors
/// An option is not known, `hearth` cannot be built or asked, the page cannot be written, or something on it failed.
pub fn gpu(arguments: &[String]) -> Outcome {
    let options = Options::read(arguments)?;
    let hearth = match &options.hearth {
        Some(program) => program.clone(),
        None => built()?,
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
    report.add("Tests", &suite::part(&options, device.real))?;
    for file in &models {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        report.add(
            &format!("Speed: {name}"),
            &bench::part(&hearth, &device.id, file, &options),
        )?;
    }
    if let Some(file) = models.first() {
        report.add("Training", &train::part(&hearth, &device.id, file, &options))?;
    }
    report.end()
}

/// The `hearth` of this working tree, newly built; of the whole workspace only what that takes.
fn built() -> Outcome<PathBuf> {
    let arguments = ["build", "--release", "--locked", "--workspace", "--bin", "hearth"];
    run("Building hearth (the first time takes a while)", &mut cargo(&arguments))?;
    Ok(place::executable("hearth"))
}

/// The default model, or a tiny one to try this with, and those that were named.
fn models(options: &Options) -> Vec<PathBuf> {
    let tiny = place::root().join("tests/fixtures/models/llama.gguf");
    let first = if options.quick { tiny } else { model::path() };
    std::iter::once(first).chain(options.models.iter().cloned()).collect()
}

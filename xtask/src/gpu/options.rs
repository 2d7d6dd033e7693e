//! What is typed after `cargo xtask gpu`.

use crate::package::BACKENDS;
use crate::process::Outcome;
use std::path::PathBuf;

/// The options; the usage in `main.rs` says what they mean.
#[derive(Debug, Default)]
pub struct Options {
    /// Where the page goes.
    pub out: Option<PathBuf>,
    /// The GPU's id.
    pub device: Option<String>,
    /// GB/s of the GPU's memory.
    pub bandwidth: Option<f64>,
    /// Few tokens of a tiny model.
    pub quick: bool,
    /// Backends that `hearth` and the tests are built for beside the portable one.
    pub builds: Vec<String>,
    /// A build that is there.
    pub hearth: Option<PathBuf>,
    /// Its test programs.
    pub tests: Vec<PathBuf>,
    /// Models to measure beside the default one.
    pub models: Vec<PathBuf>,
}

impl Options {
    /// Reads them.
    ///
    /// # Errors
    /// Names what is not understood.
    pub fn read(arguments: &[String]) -> Outcome<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{argument} wants a value."));
            match argument.as_str() {
                "--out" => options.out = Some(value()?.into()),
                "--device" => options.device = Some(value()?.clone()),
                "--bandwidth" => {
                    let number = value()?
                        .parse()
                        .ok()
                        .filter(|number: &f64| number.is_normal() && *number > 0.0);
                    options.bandwidth = Some(number.ok_or("--bandwidth wants a number, in GB/s.")?);
                }
                "--quick" => options.quick = true,
                "--build" => {
                    let build = value()?;
                    if !BACKENDS.contains(&build.as_str()) {
                        return Err(format!("--build takes one of: {}.", BACKENDS.join(", ")));
                    }
                    options.builds.push(build.clone());
                }
                "--hearth" => options.hearth = Some(value()?.into()),
                "--tests" => options.tests.push(value()?.into()),
                other if other.starts_with('-') => {
                    return Err(format!(
                        "`cargo xtask gpu` has no option {other}; `cargo xtask help` lists them."
                    ));
                }
                file => options.models.push(file.into()),
            }
        }
        if options.hearth.is_none() && !options.tests.is_empty() {
            return Err("--tests goes with --hearth: otherwise both are built.".to_owned());
        }
        Ok(options)
    }

    /// Tokens read, tokens written, and how often, for both contenders.
    pub fn sizes(&self) -> [&'static str; 3] {
        if self.quick {
            ["8", "4", "1"]
        } else {
            ["512", "128", "5"]
        }
    }

    /// Steps of training.
    pub fn steps(&self) -> &'static str {
        if self.quick { "2" } else { "10" }
    }
}

//! Options of `cargo xtask gpu`.

use crate::package::BACKENDS;
use crate::process::Outcome;
use std::path::PathBuf;

/// The options; see the usage in `main.rs`.
#[derive(Debug, Default)]
pub struct Options {
    /// Path of the report.
    pub out: Option<PathBuf>,
    /// ID of the GPU.
    pub device: Option<String>,
    /// Rated memory bandwidth of the GPU in GB/s.
    pub bandwidth: Option<f64>,
    /// Whether to use a tiny model and few tokens.
    pub quick: bool,
    /// Backends to build and test in addition to the portable build.
    pub builds: Vec<String>,
    /// An existing build of `hearth`.
    pub hearth: Option<PathBuf>,
    /// Its test executables.
    pub tests: Vec<PathBuf>,
    /// Models to benchmark in addition to the default one.
    pub models: Vec<PathBuf>,
}

impl Options {
    /// Parses the options.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn read(arguments: &[String]) -> Outcome<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{argument} requires a value."));
            match argument.as_str() {
                "--out" => options.out = Some(value()?.into()),
                "--device" => options.device = Some(value()?.clone()),
                "--bandwidth" => {
                    let number = value()?
                        .parse()
                        .ok()
                        .filter(|number: &f64| number.is_normal() && *number > 0.0);
                    options.bandwidth = Some(number.ok_or("--bandwidth requires a number in GB/s.")?);
                }
                "--quick" => options.quick = true,
                "--build" => {
                    let build = value()?;
                    if !BACKENDS.contains(&build.as_str()) {
                        return Err(format!("--build requires one of: {}.", BACKENDS.join(", ")));
                    }
                    options.builds.push(build.clone());
                }
                "--hearth" => options.hearth = Some(value()?.into()),
                "--tests" => options.tests.push(value()?.into()),
                other if other.starts_with('-') => {
                    return Err(format!("Unknown option {other}; run `cargo xtask help` for a list."));
                }
                file => options.models.push(file.into()),
            }
        }
        if options.hearth.is_none() && !options.tests.is_empty() {
            return Err("--tests requires --hearth; otherwise both are built.".to_owned());
        }
        Ok(options)
    }

    /// Prompt tokens, generated tokens and repetitions, for Hearth and llama.cpp.
    pub fn sizes(&self) -> [usize; 3] {
        if self.quick { [8, 4, 1] } else { [512, 128, 5] }
    }

    /// Number of training steps.
    pub fn steps(&self) -> &'static str {
        if self.quick { "2" } else { "10" }
    }
}

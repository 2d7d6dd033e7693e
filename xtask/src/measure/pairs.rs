//! `cargo xtask pairs`: the speed of two builds of `hearth` on the CPU, in interleaved runs.

use super::hearth::{Bench, Hearth, measure};
use super::landed;
use super::reports::{BenchReport, TrainReport};
use super::stats::{Interval, interval, median};
use crate::process::{Outcome, capture};
use crate::{model, paths};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A build is slower if the upper end of its ratio's interval is below this.
const MIN_RATIO: f64 = 0.97;

/// The measurements, in the order of [`Build::measure`].
const MEASUREMENTS: [&str; 3] = ["prefill 512", "decode 128", "training"];

/// Measures two builds in pairs, alternating which one is first, and prints the ratio of the second
/// to the first with its 95 % interval.
///
/// # Errors
/// If an option is invalid, a build fails, or the second is slower.
pub fn pairs(arguments: &[String]) -> Outcome {
    let options = Options::read(arguments)?;
    let [old, new] = options.programs.resolve()?;
    let builds = [&old, &new].map(|program| Build {
        hearth: Hearth::new(program),
        model: &options.model,
    });
    println!("\nold: {}\nnew: {}", old.display(), new.display());
    let mut devices = Command::new(&new);
    println!("{}", capture("The machine", devices.arg("devices"))?.stdout);
    let mut speeds_of_pairs: [Vec<[f64; 2]>; 3] = Default::default();
    for pair in 0..options.pairs {
        let mut speeds = [[0.0; 3]; 2];
        for turn in 0..2 {
            let build = (pair + turn) % 2;
            speeds[build] = builds[build].measure()?;
        }
        for (index, pairs) in speeds_of_pairs.iter_mut().enumerate() {
            pairs.push([speeds[0][index], speeds[1][index]]);
        }
    }
    println!(
        "\n| {} pairs | old, median tokens/s | new | ratio | 95 % interval |",
        options.pairs
    );
    println!("|---|---:|---:|---:|---:|");
    let mut slower = Vec::new();
    for (name, pairs) in MEASUREMENTS.iter().zip(&speeds_of_pairs) {
        let median_speed =
            |build: usize| median(&pairs.iter().map(|pair| pair[build]).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        let ratios: Vec<f64> = pairs.iter().map(|[old, new]| new / old).collect();
        let Interval { mean, low, high } = interval(&ratios).ok_or("At least two pairs are needed.")?;
        println!(
            "| {name} | {:.1} | {:.1} | {mean:.3} | {low:.3} to {high:.3} |",
            median_speed(0),
            median_speed(1)
        );
        if high < MIN_RATIO {
            slower.push(*name);
        }
    }
    match slower.as_slice() {
        [] => Ok(()),
        slower => Err(format!("The second build is slower: {}.", slower.join(", "))),
    }
}

struct Options {
    programs: Programs,
    model: PathBuf,
    pairs: usize,
}

/// The builds to compare.
enum Programs {
    /// The old one and the new one.
    Named([PathBuf; 2]),
    /// The build of a commit, or by default the last saved build, and the build of this checkout.
    Base(Option<String>),
}

impl Programs {
    /// The executables, built if needed.
    fn resolve(&self) -> Outcome<[PathBuf; 2]> {
        match self {
            Self::Named(programs) => Ok(programs.clone()),
            Self::Base(base) => {
                let old = base.as_deref().map_or_else(landed::last, landed::of_commit)?;
                Ok([old, landed::of_checkout()?])
            }
        }
    }
}

impl Options {
    fn read(arguments: &[String]) -> Outcome<Self> {
        let (mut model, mut pairs, mut base, mut programs) = (model::path(), 30, None, Vec::new());
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{argument} requires a value."));
            match argument.as_str() {
                "--model" => model = value()?.into(),
                "--base" => base = Some(value()?.clone()),
                "--pairs" => {
                    let number = value()?.parse().ok().filter(|number| *number >= 2);
                    pairs = number.ok_or("--pairs requires a number from 2 on.")?;
                }
                other if other.starts_with('-') => {
                    return Err(format!("Unknown option {other}; run `cargo xtask help` for a list."));
                }
                program => programs.push(PathBuf::from(program)),
            }
        }
        if !matches!((&programs[..], &base), ([], _) | ([_, _], None)) {
            return Err("Name two executables of hearth, the old one and the new one, or neither.".to_owned());
        }
        for file in programs.iter().chain([&model]) {
            if !file.is_file() {
                return Err(format!("{} does not exist.", file.display()));
            }
        }
        let programs = <[PathBuf; 2]>::try_from(programs).map_or(Programs::Base(base), Programs::Named);
        Ok(Self { programs, model, pairs })
    }
}

/// A build and the model it runs.
struct Build<'a> {
    hearth: Hearth,
    model: &'a Path,
}

impl Build<'_> {
    /// Tokens per second of each measurement.
    fn measure(&self) -> Outcome<[f64; 3]> {
        let bench = Bench {
            prompt: 512,
            generated: 128,
            repetitions: 3,
            device: "cpu",
            ..Bench::default()
        };
        let speeds = measure::<BenchReport>(&mut self.hearth.bench(self.model, &bench))?.report;
        let speed = |value: Option<f64>| value.ok_or("`hearth bench` measured nothing.");
        let [prefill, decode] = [speed(speeds.prompt_tok_s)?, speed(speeds.gen_tok_s)?];
        let data = paths::root().join("assets/datasets/hearthside.jsonl");
        let out = std::env::temp_dir().join(format!("hearth-pairs-{}", std::process::id()));
        let options = ["--device", "cpu", "--max-steps", "4", "--batch", "2", "--seq", "512"];
        let trained = measure::<TrainReport>(&mut self.hearth.train(self.model, &data, &out, &options));
        // Leftovers in the temporary folder do no harm.
        let _ = fs::remove_dir_all(&out);
        Ok([prefill, decode, trained?.report.tok_s])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let read = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
            Options::read(&arguments).err()
        };
        for (arguments, expected) in [
            (&["one"][..], "two executables"),
            (&["a", "b", "--base", "HEAD"], "two executables"),
            (&["a", "b", "--pairs", "1"], "from 2 on"),
            (&["a", "b", "--fast"], "Unknown option --fast"),
            (&["no-such-file", "b"], "no-such-file does not exist"),
        ] {
            let error = read(arguments).unwrap_or_default();
            assert!(error.contains(expected), "{error}");
        }
    }
}

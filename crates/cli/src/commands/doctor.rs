//! `hearth doctor`: checks the installation and the numerical accuracy. It compares the logits of
//! both precisions of products with quantized weights.

use super::print_json;
use crate::args::{Doctor, LoadOptions};
use crate::failure::Failure;
use crate::model::{ChosenDraft, ChosenModel, load};
use crate::terminal::stdout;
use hearth_app::library::{self, Model};
use hearth_engine::{Engine, hardware};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_formats::{byte_size, hex};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::threads::{self, Threads};
use hearth_llm::{divergence, greedy};
use hearth_protocol::PROTOCOL_VERSION;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// Text whose logits are compared.
const TEXT: &str = "The ship left the harbour in the morning, when the wind had turned to the west. By noon the coast \
    was a thin grey line, and nobody on board spoke of turning back. They had bread for forty days.";

/// Maximum mean divergence, in nats per token. A larger one would be noticeable in answers; the
/// divergence of int8 activations is far smaller.
const MAX_DIVERGENCE: f64 = 0.02;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    protocol: u32,
    system: String,
    instructions: &'static str,
    checks: Vec<Check>,
    distance: Option<Distance>,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Check {
    name: String,
    ok: bool,
    detail: String,
}

/// Distance of the logits with int8 activations from those in f32.
#[derive(Debug, Default, Serialize)]
struct Distance {
    /// Number of compared positions.
    tokens: usize,
    /// The largest absolute difference of two logits.
    max: f64,
    /// The mean absolute difference of two logits.
    mean: f64,
    /// Mean KL divergence of the int8 distribution from the f32 one, in nats per token.
    kl: f64,
    /// Fraction of positions with the same argmax.
    same_first: f64,
}

/// Runs all checks and prints the results.
pub fn run(args: &Doctor) -> Result<(), Failure> {
    if args.gradients {
        return super::gradients::run(args);
    }
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        protocol: PROTOCOL_VERSION,
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        instructions: hardware::instructions(),
        checks: Vec::new(),
        distance: None,
    };
    for device in hardware::devices() {
        // An unusable GPU is not a fault of the installation. Its status has the reason.
        let ok = device.usable || device.id != hardware::CPU;
        report.add(&device.id, ok, format!("{}: {}", device.name, device.status));
    }
    let model = check_library(&mut report, args.model.as_deref());
    match model.map(|model| check_accuracy(&mut report, &model, &args.options)) {
        Some(Ok(())) => {}
        Some(Err(failure)) => report.add("model", false, failure.to_string()),
        None => report.add(
            "model",
            false,
            "there is no model to check; `hearth list` shows available ones",
        ),
    }
    if args.output.json {
        print_json(&report)?;
    } else {
        report.print()?;
    }
    match report.checks.iter().filter(|check| !check.ok).count() {
        0 => Ok(()),
        1 => Err(Failure::new("One check failed.")),
        count => Err(Failure::new(format!("{count} checks failed."))),
    }
}

impl Report {
    /// Adds a check.
    fn add(&mut self, name: impl Into<String>, ok: bool, detail: impl Into<String>) {
        self.checks.push(Check {
            name: name.into(),
            ok,
            detail: detail.into(),
        });
    }

    /// Prints the report as text.
    fn print(&self) -> Result<(), Failure> {
        let mut out = stdout();
        writeln!(
            out,
            "hearth {}, protocol {}, {}, {}",
            self.version, self.protocol, self.system, self.instructions
        )?;
        for Check { name, ok, detail } in &self.checks {
            writeln!(out, "{}  {name}: {detail}", if *ok { "ok    " } else { "FAILED" })?;
        }
        Ok(())
    }
}

/// Checks the store and the files of the library. Returns the model to check, if one is usable.
fn check_library(report: &mut Report, requested: Option<&str>) -> Option<ChosenModel> {
    let folder = library::data_folder().map_or_else(|| "no data folder".to_owned(), |path| path.display().to_string());
    let (library, added) = match library::open() {
        Ok(opened) => opened,
        Err(error) => {
            report.add("store", false, error.to_string());
            return None;
        }
    };
    report.add("store", true, folder);
    let models = library.list(&added);
    for model in &models {
        match check_model(model) {
            Ok(detail) => report.add(&model.id, true, detail),
            Err(failure) => report.add(&model.id, false, failure.to_string()),
        }
    }
    match requested {
        None => library.default(&models).cloned().map(ChosenModel::from),
        Some(name) => match library.resolve(name, &added) {
            Ok(model) => Some(model.into()),
            Err(error) => {
                report.add(name, false, error.to_string());
                None
            }
        },
    }
}

/// Checks that a model's file can be read and matches the catalog.
fn check_model(model: &Model) -> Result<String, Failure> {
    let metadata = model.metadata.as_ref().map_err(Failure::new)?;
    let gguf = Gguf::open(&model.path).map_err(Failure::new)?;
    Tokenizer::from_gguf(&gguf).map_err(Failure::new)?;
    let size = byte_size(metadata.file_size);
    let checksum = model.entry.and_then(|entry| Some((entry, entry.sha256.as_ref()?)));
    let Some((entry, expected)) = checksum else {
        return Ok(format!("{}, {}, {size}", metadata.architecture, metadata.quantization));
    };
    let mut file = std::fs::File::open(&model.path)?;
    let mut digest = Sha256::new();
    io::copy(&mut file, &mut digest)?;
    let actual: String = hex(digest.finalize());
    if actual == *expected {
        return Ok(format!(
            "{}, {}, {size}, as in the catalog",
            metadata.architecture, metadata.quantization
        ));
    }
    let path = model.path.display();
    Err(Failure::new(format!(
        "{path} does not match the catalog. Delete it, then run `hearth pull {}`.",
        entry.id
    )))
}

/// Compares the logits with one thread and with all threads, and the logits of both precisions.
fn check_accuracy(report: &mut Report, model: &ChosenModel, options: &LoadOptions) -> Result<(), Failure> {
    let engine = load(model, options, Some(256), ChosenDraft::NONE)?;
    let vocab = engine.model().config().vocab;
    let ids = engine.tokenizer().encode(TEXT, Special::Text);
    let thread_count = engine.info().threads;
    let int8_logits = logits(&engine, &ids, MatmulPrecision::Int8Activations)?;
    let single_thread = threads::set_until_drop(Threads::Fixed(1));
    let single_thread_logits = logits(&engine, &ids, MatmulPrecision::Int8Activations);
    drop(single_thread);
    let is_identical = single_thread_logits?
        .iter()
        .zip(&int8_logits)
        .all(|(a, b)| a.to_bits() == b.to_bits());
    let detail = if is_identical {
        "identical bits"
    } else {
        "different bits, so answers depend on the number of threads"
    };
    report.add(
        "threads",
        is_identical,
        format!("{detail} with 1 and with {thread_count}"),
    );

    let f32_logits = logits(&engine, &ids, MatmulPrecision::F32)?;
    let distance = Distance::between(&int8_logits, &f32_logits, vocab);
    let detail = format!(
        "logits differ by {:.4} at most and {:.5} on average, distributions by {:.2e} nats per token; the same argmax \
         at {:.0} % of {} positions",
        distance.max,
        distance.mean,
        distance.kl,
        distance.same_first * 100.0,
        distance.tokens,
    );
    report.add("int8 activations and f32", distance.kl <= MAX_DIVERGENCE, detail);
    report.distance = Some(distance);
    Ok(())
}

/// The logits after every token, from an empty context.
fn logits(engine: &Engine, ids: &[u32], precision: MatmulPrecision) -> Result<Vec<f32>, Failure> {
    let session = engine.new_session(ids.len())?;
    session.with_precision(precision).extend(ids).map_err(Failure::new)
}

impl Distance {
    /// Distance between the logits of all positions; each position has `vocab` logits.
    fn between(int8_logits: &[f32], f32_logits: &[f32], vocab: usize) -> Self {
        let mut distance = Self {
            tokens: f32_logits.len() / vocab,
            ..Self::default()
        };
        let rows = distance.tokens.max(1) as f64;
        for (int8_row, f32_row) in int8_logits.chunks_exact(vocab).zip(f32_logits.chunks_exact(vocab)) {
            let differences = int8_row.iter().zip(f32_row).map(|(a, b)| f64::from((a - b).abs()));
            distance.max = differences.clone().fold(distance.max, f64::max);
            distance.mean += differences.sum::<f64>() / (rows * vocab as f64);
            distance.kl += divergence(f32_row, int8_row) / rows;
            distance.same_first += f64::from(u8::from(greedy(int8_row) == greedy(f32_row))) / rows;
        }
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_matches_its_definition() {
        let half = 0.5_f32.ln();
        let distance = Distance::between(&[half, half, 1.0, 0.0], &[0.75_f32.ln(), 0.25_f32.ln(), 1.0, 0.0], 2);
        assert_eq!((distance.tokens, distance.same_first), (2, 1.0));
        let kl = (0.75 * (0.75_f64 / 0.5).ln() + 0.25 * (0.25_f64 / 0.5).ln()) / 2.0;
        assert!((distance.kl - kl).abs() < 1e-6, "{distance:?}");
        assert!((distance.max - 2.0_f64.ln()).abs() < 1e-6, "{distance:?}");
        assert!(
            (distance.mean - (2.0_f64.ln() + 1.5_f64.ln()) / 4.0).abs() < 1e-6,
            "{distance:?}"
        );
    }
}

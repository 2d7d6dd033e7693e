//! `hearth doctor`: checks the installation, and compares the two precisions of a product with a
//! quantized weight.

use super::print_json;
use crate::args::{Doctor, LoadOptions};
use crate::failure::Failure;
use crate::model::{Chosen, ChosenDraft, load};
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

/// Input of the comparison.
const TEXT: &str = "The ship left the harbour in the morning, when the wind had turned to the west. By noon the coast \
    was a thin grey line, and nobody on board spoke of turning back. They had bread for forty days.";

/// A mean divergence above this, in nats per token, would be noticeable in answers; int8
/// activations stay far below it.
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
    /// Positions compared.
    tokens: usize,
    /// The largest difference of two logits.
    max: f64,
    /// The mean of all differences.
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
        // An unusable GPU has its reason, and is not a fault of the installation.
        let ok = device.usable || device.id != hardware::CPU;
        report.note(&device.id, ok, format!("{}: {}", device.name, device.why));
    }
    let model = files(&mut report, args.model.as_deref());
    match model.map(|chosen| measure(&mut report, &chosen, &args.options)) {
        Some(Ok(())) => {}
        Some(Err(failure)) => report.note("model", false, failure.to_string()),
        None => report.note(
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
        n => Err(Failure::new(format!("{n} checks failed."))),
    }
}

impl Report {
    fn note(&mut self, name: impl Into<String>, ok: bool, detail: impl Into<String>) {
        self.checks.push(Check {
            name: name.into(),
            ok,
            detail: detail.into(),
        });
    }

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
fn files(report: &mut Report, requested: Option<&str>) -> Option<Chosen> {
    let folder = library::data_folder().map_or_else(|| "no data folder".to_owned(), |path| path.display().to_string());
    let (library, added) = match library::open() {
        Ok(opened) => opened,
        Err(error) => {
            report.note("store", false, error.to_string());
            return None;
        }
    };
    report.note("store", true, folder);
    let models = library.list(&added);
    for model in &models {
        match check_model(model) {
            Ok(detail) => report.note(&model.id, true, detail),
            Err(failure) => report.note(&model.id, false, failure.to_string()),
        }
    }
    match requested {
        None => library.default(&models).cloned().map(Chosen::from),
        Some(name) => match library.resolve(name, &added) {
            Ok(model) => Some(model.into()),
            Err(error) => {
                report.note(name, false, error.to_string());
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
    let known = model.entry.and_then(|entry| Some((entry, entry.sha256.as_ref()?)));
    let Some((entry, expected)) = known else {
        return Ok(format!("{}, {}, {size}", metadata.architecture, metadata.quantization));
    };
    let mut file = std::fs::File::open(&model.path)?;
    let mut digest = Sha256::new();
    io::copy(&mut file, &mut digest)?;
    let found: String = hex(digest.finalize());
    if found == *expected {
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

/// Runs the model with one thread and with all threads, and in both precisions.
fn measure(report: &mut Report, chosen: &Chosen, options: &LoadOptions) -> Result<(), Failure> {
    let engine = load(chosen, options, Some(256), ChosenDraft::NONE)?;
    let vocab = engine.model().config().vocab;
    let ids = engine.tokenizer().encode(TEXT, Special::Text);
    let team = engine.info().threads;
    let fast = logits(&engine, &ids, MatmulPrecision::Int8Activations)?;
    let one = threads::set_until_drop(Threads::Fixed(1));
    let alone = logits(&engine, &ids, MatmulPrecision::Int8Activations);
    drop(one);
    let same = alone?.iter().zip(&fast).all(|(a, b)| a.to_bits() == b.to_bits());
    let detail = if same {
        "identical bits"
    } else {
        "different bits, so answers depend on the number of threads"
    };
    report.note("threads", same, format!("{detail} with 1 and with {team}"));

    let exact = logits(&engine, &ids, MatmulPrecision::F32)?;
    let distance = Distance::between(&fast, &exact, vocab);
    let detail = format!(
        "logits differ by {:.4} at most and {:.5} on average, distributions by {:.2e} nats per token; the same argmax \
         at {:.0} % of {} positions",
        distance.max,
        distance.mean,
        distance.kl,
        distance.same_first * 100.0,
        distance.tokens,
    );
    report.note("int8 activations and f32", distance.kl <= MAX_DIVERGENCE, detail);
    report.distance = Some(distance);
    Ok(())
}

/// The logits after every token, from an empty context.
fn logits(engine: &Engine, ids: &[u32], precision: MatmulPrecision) -> Result<Vec<f32>, Failure> {
    let session = engine.new_session(ids.len())?;
    session.with_precision(precision).extend(ids).map_err(Failure::new)
}

impl Distance {
    /// Distance between two sets of logits, row by row.
    fn between(fast: &[f32], exact: &[f32], vocab: usize) -> Self {
        let mut distance = Self {
            tokens: exact.len() / vocab,
            ..Self::default()
        };
        let rows = distance.tokens.max(1) as f64;
        for (fast, exact) in fast.chunks_exact(vocab).zip(exact.chunks_exact(vocab)) {
            let differences = fast.iter().zip(exact).map(|(a, b)| f64::from((a - b).abs()));
            distance.max = differences.clone().fold(distance.max, f64::max);
            distance.mean += differences.sum::<f64>() / (rows * vocab as f64);
            distance.kl += divergence(exact, fast) / rows;
            distance.same_first += f64::from(u8::from(greedy(fast) == greedy(exact))) / rows;
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

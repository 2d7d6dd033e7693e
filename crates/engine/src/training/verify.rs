//! Verification of an export: the trained model, the exported one and the base model answer prompts
//! of the validation split; the base model shows how much of the training is retained.

use super::data::Reader;
use super::folder::{RunFile, open_adapter};
use super::run::{PROMPT_TOKENS, PROMPTS};
use crate::problem::{from_gguf, from_load, from_session, problem};
use crate::turns::count;
use hearth_formats::adapter::AdapterFile;
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoadOptions, LoraPart, Model, Session, divergence, greedy};
use hearth_protocol::{ExportFormat, ExportRequest, Problem, ProblemCode, Verification};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Tokens generated per prompt.
const ANSWER: usize = 24;
/// Maximum divergence of an exported adapter, in nats per token.
const MAX_DIVERGENCE: f64 = 1e-5;
/// Minimum fraction of the training to be retained by requantised weights. Weights of few bits are
/// on their grid already, so requantisation removes changes of less than half a step.
const MIN_RETAINED: f64 = 0.9;
/// Divergence of a merged model that is unnoticeable, in nats per token.
const UNNOTICEABLE: f64 = 0.005;

/// Prompts for adapters without a run.
const GENERAL: [&str; 4] = [
    "The capital of France is",
    "To bake a loaf of bread, first",
    "Dear Sir or Madam, I am writing to",
    "In winter many birds",
];

/// Reload an export and compare it with the trained model on prompts and their greedy answers.
///
/// # Errors
/// The export cannot be loaded.
pub fn verify(request: &ExportRequest, reader: &Reader, adapter: &AdapterFile) -> Result<Verification, Problem> {
    let load = |gguf: &Gguf| {
        let progress = &mut |_: f32, _: &str| ControlFlow::Continue(());
        Model::load(gguf, &LoadOptions::default(), progress).map_err(from_load)
    };
    let adapted = |model: &Model, adapter: &AdapterFile| {
        let adapted = model.adapted(&LoraPart::of(adapter, 1.0));
        adapted.map_err(|error| problem(ProblemCode::AdapterInvalid, error.to_string()))
    };
    let base = load(&reader.gguf)?;
    let trained = Arc::new(adapted(&base, adapter)?);
    let written = match &request.format {
        ExportFormat::Peft | ExportFormat::GgufLora => adapted(&base, &open_adapter(&request.out, &reader.gguf)?.0)?,
        ExportFormat::Gguf { .. } => load(&Gguf::open(&request.out).map_err(from_gguf)?)?,
    };
    let (base, written) = (Arc::new(base), Arc::new(written));
    let prompts = prompts(&request.adapter, &reader.tokenizer);
    let vocab = trained.config().vocab;
    let (mut positions, mut distance, mut taught, mut same) = (0, 0.0, 0.0, 0);
    for prompt in &prompts {
        let ids = answered(&trained, prompt)?;
        let [expected, found, untrained] = [&trained, &written, &base].map(|model| logits(model, &ids));
        let (expected, found, untrained) = (expected?, found?, untrained?);
        let rows = expected
            .chunks(vocab)
            .zip(found.chunks(vocab))
            .zip(untrained.chunks(vocab));
        let mut alike = true;
        for (at, ((expected, found), untrained)) in rows.enumerate() {
            positions += 1;
            distance += divergence(expected, found);
            taught += divergence(expected, untrained);
            // The same argmax at every position means that the answers are identical.
            alike &= at + 1 < prompt.len() || greedy(expected) == greedy(found);
        }
        same += usize::from(alike);
    }
    let [distance, taught] = [distance, taught].map(|sum: f64| sum / f64::from(positions.max(1)));
    let merged = matches!(request.format, ExportFormat::Gguf { .. });
    let retained = retained(distance, taught);
    let passed = match merged {
        true => distance <= UNNOTICEABLE || retained >= MIN_RETAINED,
        false => distance <= MAX_DIVERGENCE && same == prompts.len(),
    };
    let summary = format!(
        "{} {:.1} % of the training is retained, and {same} of {} prompts get an identical answer.{}",
        if passed {
            "The export matches the adapter:"
        } else {
            "The export does NOT match the adapter:"
        },
        100.0 * retained,
        prompts.len(),
        match (passed, merged) {
            (true, _) => "",
            (false, true) =>
                " The quantisation is too coarse: choose a finer one such as Q8_0, or export the adapter alone.",
            (false, false) => " Do not use it.",
        }
    );
    Ok(Verification {
        passed,
        prompts: count(prompts.len()),
        divergence: distance,
        taught,
        same_text: count(same),
        summary,
    })
}

/// Fraction of the training that is retained.
fn retained(distance: f64, taught: f64) -> f64 {
    match distance <= MAX_DIVERGENCE {
        true => 1.0,
        false => (1.0 - distance / taught).max(0.0),
    }
}

/// A prompt with the model's greedy answer.
fn answered(model: &Arc<Model>, prompt: &[u32]) -> Result<Vec<u32>, Problem> {
    let mut session = session(model, prompt.len() + ANSWER)?;
    session
        .prefill(prompt, &mut |_, _| ControlFlow::Continue(()))
        .map_err(from_session)?;
    for _ in 0..ANSWER {
        let Some(token) = greedy(session.logits()) else { break };
        session.push(token).map_err(from_session)?;
    }
    Ok(session.tokens().to_vec())
}

/// The logits after each token.
fn logits(model: &Arc<Model>, ids: &[u32]) -> Result<Vec<f32>, Problem> {
    session(model, ids.len())?.extend(ids).map_err(from_session)
}

fn session(model: &Arc<Model>, context: usize) -> Result<Session, Problem> {
    let session = Session::new(model.clone(), context).map_err(from_session)?;
    Ok(session.with_precision(MatmulPrecision::F32))
}

/// The run's validation prompts, or a few general ones for an adapter without a run.
fn prompts(adapter: &Path, tokenizer: &Tokenizer) -> Vec<Vec<u32>> {
    let held_out = RunFile::of_adapter(adapter).map(|run| run.prompts).unwrap_or_default();
    // A run from elsewhere may have any number, of any length and tokens.
    let is_usable = |prompt: &[u32]| {
        let in_vocabulary = |id: &u32| (*id as usize) < tokenizer.vocab_size();
        !prompt.is_empty() && prompt.iter().all(in_vocabulary)
    };
    let held_out: Vec<_> = held_out
        .into_iter()
        .filter(|prompt| is_usable(prompt))
        .map(|mut prompt| prompt.split_off(prompt.len().saturating_sub(PROMPT_TOKENS)))
        .take(PROMPTS)
        .collect();
    match held_out.is_empty() {
        false => held_out,
        true => GENERAL
            .iter()
            .map(|text| tokenizer.encode(text, Special::Text))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retained_fraction_follows_from_the_divergences() {
        assert_eq!(retained(0.0, 0.0), 1.0);
        assert_eq!(retained(0.25, 1.0), 0.75);
        assert_eq!(retained(2.0, 1.0), 0.0);
        assert_eq!(retained(f64::INFINITY, 1.0), 0.0);
        assert_eq!(retained(0.1, 0.0), 0.0);
    }
}

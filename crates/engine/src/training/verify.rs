//! Verification of an export: the trained model, the exported one and the base model answer prompts
//! of the validation split; the base model shows how much of the training is retained.

use super::data::Reader;
use super::folder::{RunFile, open_adapter};
use super::run::{PROMPT_TOKENS, PROMPTS};
use crate::numbers::saturating_u32;
use crate::problem::{from_gguf, from_load, from_session, problem};
use hearth_formats::adapter::AdapterFile;
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoadOptions, LoraPart, Model, Session, divergence, greedy};
use hearth_protocol::{ExportFormat, ExportRequest, Problem, ProblemCode, Verification};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Tokens generated per prompt.
const ANSWER: usize = 24;
/// Maximum divergence of an exported adapter, in nats per token.
const MAX_DIVERGENCE: f64 = 1e-5;
/// Minimum fraction of the training to be retained by requantized weights. Weights of few bits are
/// on their grid already, so requantization removes changes of less than half a step.
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

/// Reloads an export and compares it with the trained model on prompts and their greedy answers.
///
/// # Errors
/// The export cannot be loaded.
pub fn verify(request: &ExportRequest, reader: &Reader, adapter: &AdapterFile) -> Result<Verification, Problem> {
    let load = |gguf: &Gguf| {
        let progress = &mut |_: f32, _: &str| ControlFlow::Continue(());
        Model::load(gguf, &LoadOptions::default(), progress).map_err(from_load)
    };
    let adapted = |model: &Model, adapter: &AdapterFile| {
        let adapted = model.adapted(&LoraPart::from_file(adapter, 1.0));
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
    let comparison = Comparison {
        merged: matches!(request.format, ExportFormat::Gguf { .. }),
        prompts: prompts.len(),
        distance,
        taught,
        same,
    };
    Ok(comparison.verification())
}

/// The trained and the exported model, compared over all prompts.
struct Comparison {
    /// Whether the export is a merged model.
    merged: bool,
    prompts: usize,
    /// Divergence of the export from the trained model, in nats per token.
    distance: f64,
    /// Divergence of the base model from the trained one, in nats per token.
    taught: f64,
    /// Prompts with identical answers.
    same: usize,
}

impl Comparison {
    fn verification(&self) -> Verification {
        Verification {
            passed: self.passed(),
            learned: self.learned(),
            prompts: saturating_u32(self.prompts),
            divergence: self.distance,
            taught: self.taught,
            same_text: saturating_u32(self.same),
            summary: self.summary(),
        }
    }

    fn retained(&self) -> f64 {
        retained(self.distance, self.taught)
    }

    fn passed(&self) -> bool {
        if self.merged {
            self.distance <= UNNOTICEABLE || self.retained() >= MIN_RETAINED
        } else {
            self.distance <= MAX_DIVERGENCE && self.same == self.prompts
        }
    }

    /// Whether the training is large enough for its retained part to mean something.
    fn learned(&self) -> bool {
        let least = if self.retained() >= MIN_RETAINED {
            MAX_DIVERGENCE
        } else {
            // A smaller divergence is lost in unnoticeable rounding.
            UNNOTICEABLE
        };
        // The divergence may be NaN.
        !matches!(self.taught.partial_cmp(&least), Some(Ordering::Less | Ordering::Equal))
    }

    /// The result in sentences.
    fn summary(&self) -> String {
        let passed = self.passed();
        if passed && !self.learned() {
            return "The adapter changes next to nothing: nothing was learned, so there is nothing to compare."
                .to_owned();
        }
        let result = if passed {
            "The export matches the adapter:"
        } else {
            "The export does NOT match the adapter:"
        };
        let retained = if self.learned() {
            format!("{:.1} % of the training is retained", 100.0 * self.retained())
        } else {
            "nothing was learned, but the export differs from the model".to_owned()
        };
        let advice = match (passed, self.merged) {
            (true, _) => "",
            (false, true) => {
                " The quantization is too coarse: choose a finer one such as Q8_0, or export the adapter alone."
            }
            (false, false) => " Do not use it.",
        };
        let (same, prompts) = (self.same, self.prompts);
        format!("{result} {retained}, and {same} of {prompts} prompts get an identical answer.{advice}")
    }
}

/// Fraction of the training that is retained.
fn retained(distance: f64, taught: f64) -> f64 {
    if distance <= MAX_DIVERGENCE {
        1.0
    } else {
        (1.0 - distance / taught).max(0.0)
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
    if held_out.is_empty() {
        GENERAL
            .iter()
            .map(|text| tokenizer.encode(text, Special::Text))
            .collect()
    } else {
        held_out
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

    #[test]
    fn an_adapter_that_changes_nothing_leaves_nothing_to_compare() {
        let nothing = "nothing was learned, so there is nothing to compare";
        for (merged, distance, taught, passed, learned, expected) in [
            (true, 0.25, 4.0, true, true, "matches the adapter: 93.8 % of"),
            (true, 0.0, 0.004, true, true, "matches the adapter: 100.0 % of"),
            (true, 1.0, 2.0, false, true, "NOT match the adapter: 50.0 % of"),
            (true, 0.002, 0.0, true, false, nothing),
            (true, 0.002, 0.001, true, false, nothing),
            (true, 0.0, 0.0, true, false, nothing),
            (
                true,
                0.5,
                0.0,
                false,
                false,
                "NOT match the adapter: nothing was learned, but",
            ),
            (true, f64::NAN, f64::NAN, false, true, "NOT match the adapter: 0.0 % of"),
            (false, 0.0, 0.5, true, true, "matches the adapter: 100.0 % of"),
            (false, 0.0, 0.0, true, false, nothing),
            (
                false,
                0.5,
                0.0,
                false,
                false,
                "NOT match the adapter: nothing was learned, but",
            ),
        ] {
            let comparison = Comparison {
                merged,
                prompts: 4,
                distance,
                taught,
                same: 4,
            };
            let actual = comparison.verification();
            assert_eq!((actual.passed, actual.learned), (passed, learned), "{}", actual.summary);
            assert!(actual.summary.contains(expected), "{}", actual.summary);
        }
    }
}

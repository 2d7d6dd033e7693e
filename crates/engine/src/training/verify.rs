//! Verifies an export: compares the logits of the trained model, the exported model and the base
//! model on prompts of the validation split. The divergence from the base model shows how much of
//! the training is retained.

use super::data::Reader;
use super::folder::{RunFile, open_adapter};
use super::run::{MAX_PROMPT_TOKENS, MAX_PROMPTS};
use crate::numbers::saturating_u32;
use crate::problem::{from_gguf, from_load, from_session};
use hearth_formats::adapter::AdapterFile;
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoadOptions, LoraPart, Model, Session, divergence, greedy};
use hearth_protocol::{ExportFormat, ExportRequest, Problem, ProblemCode, Verification, VerificationResult};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Tokens generated per prompt.
const ANSWER_TOKENS: usize = 24;
/// Maximum divergence of an exported adapter, in nats per token.
const MAX_DIVERGENCE: f64 = 1e-5;
/// Minimum fraction of the training that requantized weights must retain. The base weights are on
/// the grid of their format already, so requantization removes changes of less than half a step.
const MIN_RETAINED: f64 = 0.9;
/// Maximum divergence of a merged model that is unnoticeable, in nats per token.
const MAX_UNNOTICEABLE: f64 = 0.005;

/// Prompts for adapters without a run.
const GENERAL_PROMPTS: [&str; 4] = [
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
    let prompts = prompts(&request.adapter, &reader.tokenizer);
    let longest_prompt = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let options = LoadOptions {
        context: Some(longest_prompt + ANSWER_TOKENS),
        ..LoadOptions::default()
    };
    let load = |gguf: &Gguf| {
        let progress = &mut |_: f32| ControlFlow::Continue(());
        Model::load(gguf, &options, progress).map_err(from_load)
    };
    let with_adapter = |model: &Model, adapter: &AdapterFile| {
        let result = model.adapted(&LoraPart::from_file(adapter, 1.0));
        result.map_err(|error| Problem::detail(ProblemCode::AdapterInvalid, error))
    };
    let base = load(&reader.gguf)?;
    let trained = Arc::new(with_adapter(&base, adapter)?);
    let exported = match &request.format {
        ExportFormat::Peft | ExportFormat::GgufLora => {
            with_adapter(&base, &open_adapter(&request.out, &reader.gguf)?.0)?
        }
        ExportFormat::Gguf { .. } => load(&Gguf::open(&request.out).map_err(from_gguf)?)?,
    };
    let (base, exported) = (Arc::new(base), Arc::new(exported));
    let vocab = trained.config().vocab;
    let (mut positions, mut divergence_sum, mut taught_sum, mut same) = (0, 0.0, 0.0, 0);
    for prompt in &prompts {
        let ids = with_answer(&trained, prompt)?;
        let trained = logits(&trained, &ids)?;
        let exported = logits(&exported, &ids)?;
        let base = logits(&base, &ids)?;
        let rows = trained
            .chunks(vocab)
            .zip(exported.chunks(vocab))
            .zip(base.chunks(vocab));
        let mut same_answer = true;
        for (position, ((trained, exported), base)) in rows.enumerate() {
            positions += 1;
            divergence_sum += divergence(trained, exported);
            taught_sum += divergence(trained, base);
            // The same argmax at every position means that the answers are identical.
            same_answer &= position + 1 < prompt.len() || greedy(trained) == greedy(exported);
        }
        same += usize::from(same_answer);
    }
    let mean = |sum: f64| sum / f64::from(positions.max(1));
    let comparison = Comparison {
        merged: matches!(request.format, ExportFormat::Gguf { .. }),
        prompts: prompts.len(),
        divergence: mean(divergence_sum),
        taught: mean(taught_sum),
        same,
    };
    Ok(comparison.verification())
}

/// Comparison of the trained and the exported model over all prompts.
struct Comparison {
    /// Whether the export is a merged model.
    merged: bool,
    prompts: usize,
    /// Divergence of the export from the trained model, in nats per token.
    divergence: f64,
    /// Divergence of the base model from the trained model, in nats per token.
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
            divergence: self.divergence,
            taught: self.taught,
            same_text: saturating_u32(self.same),
            result: self.result(),
        }
    }

    fn retained(&self) -> f64 {
        retained(self.divergence, self.taught)
    }

    fn passed(&self) -> bool {
        if self.merged {
            self.divergence <= MAX_UNNOTICEABLE || self.retained() >= MIN_RETAINED
        } else {
            self.divergence <= MAX_DIVERGENCE && self.same == self.prompts
        }
    }

    /// Whether the training changed the model enough for the retained fraction to be meaningful.
    fn learned(&self) -> bool {
        let min = if self.retained() >= MIN_RETAINED {
            MAX_DIVERGENCE
        } else {
            // Below it, unnoticeable rounding errors are as large as the training.
            MAX_UNNOTICEABLE
        };
        // The divergence may be NaN.
        !matches!(self.taught.partial_cmp(&min), Some(Ordering::Less | Ordering::Equal))
    }

    fn result(&self) -> VerificationResult {
        let [same, prompts] = [self.same, self.prompts].map(saturating_u32);
        let retained_percent = (100.0 * self.retained()) as u32;
        match (self.passed(), self.learned(), self.merged) {
            (true, false, _) => VerificationResult::NothingLearned,
            (true, true, _) => VerificationResult::Matches {
                retained_percent,
                same,
                prompts,
            },
            (false, true, true) => VerificationResult::TooCoarse {
                retained_percent,
                same,
                prompts,
            },
            (false, false, true) => VerificationResult::NothingLearnedTooCoarse { same, prompts },
            (false, true, false) => VerificationResult::Differs {
                retained_percent,
                same,
                prompts,
            },
            (false, false, false) => VerificationResult::NothingLearnedDiffers { same, prompts },
        }
    }
}

/// Fraction of the training that is retained.
fn retained(divergence: f64, taught: f64) -> f64 {
    if divergence <= MAX_DIVERGENCE {
        1.0
    } else {
        (1.0 - divergence / taught).max(0.0)
    }
}

/// Returns a prompt followed by the model's greedy answer.
fn with_answer(model: &Arc<Model>, prompt: &[u32]) -> Result<Vec<u32>, Problem> {
    let mut session = session(model, prompt.len() + ANSWER_TOKENS)?;
    session
        .prefill(prompt, &mut |_, _| ControlFlow::Continue(()))
        .map_err(from_session)?;
    for _ in 0..ANSWER_TOKENS {
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

/// The prompts of the adapter's run, or a few general ones for an adapter without a run.
fn prompts(adapter: &Path, tokenizer: &Tokenizer) -> Vec<Vec<u32>> {
    let saved = RunFile::from_adapter_path(adapter)
        .map(|run| run.prompts)
        .unwrap_or_default();
    // The run of an adapter from another source may have any number of prompts, of any length and
    // with any ids.
    let is_usable = |prompt: &[u32]| {
        let in_vocabulary = |id: &u32| (*id as usize) < tokenizer.vocab_size();
        !prompt.is_empty() && prompt.iter().all(in_vocabulary)
    };
    let usable: Vec<_> = saved
        .into_iter()
        .filter(|prompt| is_usable(prompt))
        .map(|mut prompt| prompt.split_off(prompt.len().saturating_sub(MAX_PROMPT_TOKENS)))
        .take(MAX_PROMPTS)
        .collect();
    if usable.is_empty() {
        GENERAL_PROMPTS
            .iter()
            .map(|text| tokenizer.encode(text, Special::Text))
            .collect()
    } else {
        usable
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
        /// A comparison of a merged model or an adapter, and its expected verification.
        struct Case {
            merged: bool,
            divergence: f64,
            taught: f64,
            passed: bool,
            learned: bool,
            result: &'static str,
        }
        let case = |merged, divergence, taught, passed, learned, result| Case {
            merged,
            divergence,
            taught,
            passed,
            learned,
            result,
        };
        let nothing = "nothing was learned, so there is nothing to compare";
        let coarse = "NOT match the adapter: nothing was learned, but";
        for case in [
            case(true, 0.25, 4.0, true, true, "matches the adapter: 93 % of"),
            case(true, 0.0, 0.004, true, true, "matches the adapter: 100 % of"),
            case(true, 1.0, 2.0, false, true, "NOT match the adapter: 50 % of"),
            case(true, 0.002, 0.0, true, false, nothing),
            case(true, 0.002, 0.001, true, false, nothing),
            case(true, 0.0, 0.0, true, false, nothing),
            case(true, 0.5, 0.0, false, false, coarse),
            case(true, f64::NAN, f64::NAN, false, true, "NOT match the adapter: 0 % of"),
            case(false, 0.0, 0.5, true, true, "matches the adapter: 100 % of"),
            case(false, 0.0, 0.0, true, false, nothing),
            case(false, 0.5, 0.0, false, false, coarse),
        ] {
            let comparison = Comparison {
                merged: case.merged,
                prompts: 4,
                divergence: case.divergence,
                taught: case.taught,
                same: 4,
            };
            let actual = comparison.verification();
            let result = actual.result.to_string();
            assert_eq!((actual.passed, actual.learned), (case.passed, case.learned), "{result}");
            assert!(result.contains(case.result), "{result}");
        }
    }
}

//! The proof that what was written is what was trained: both answer the prompts that the run held out, and so does the base, to
//! know how much of what was taught is left.

use super::data::Reader;
use super::folder::{RunFile, open_adapter};
use crate::problem::{from_gguf, from_load, from_session, problem};
use crate::turns::count;
use hearth_formats::adapter::AdapterFile;
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::ops::Product;
use hearth_llm::{LoadOptions, LoraPart, Model, Session, divergence, greedy};
use hearth_protocol::{ExportFormat, ExportRequest, Problem, ProblemCode, Verification};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Tokens that each prompt is answered with.
const ANSWER: usize = 24;
/// How far an adapter that was only written anew may be from what was trained, in nats a token.
const SAME: f64 = 1e-5;
/// How much of what was taught must be left in weights that were rounded again. Weights that come from few bits and go back to
/// few lie on their grid already, and rounding takes back whatever was less than half a step.
const KEPT: f64 = 0.9;
/// Rounding that nobody would notice, in nats a token, where hardly anything was taught.
const UNNOTICED: f64 = 0.005;

/// Prompts for adapters of which nothing else is known.
const PROMPTS: [&str; 4] = [
    "The capital of France is",
    "To bake a loaf of bread, first",
    "Dear Sir or Madam, I am writing to",
    "In winter many birds",
];

/// Reloads what was written and compares it with what was trained, over prompts and the greedy answers to them.
///
/// # Errors
/// What was written cannot be loaded.
pub fn verify(request: &ExportRequest, reader: &Reader, adapter: &AdapterFile) -> Result<Verification, Problem> {
    let load = |gguf: &Gguf| {
        let going = &mut |_: f32, _: &str| ControlFlow::Continue(());
        Model::load(gguf, &LoadOptions::default(), going).map_err(from_load)
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
        let [wanted, found, untaught] = [&trained, &written, &base].map(|model| logits(model, &ids));
        let (wanted, found, untaught) = (wanted?, found?, untaught?);
        let rows = wanted
            .chunks(vocab)
            .zip(found.chunks(vocab))
            .zip(untaught.chunks(vocab));
        let mut alike = true;
        for (at, ((wanted, found), untaught)) in rows.enumerate() {
            positions += 1;
            distance += divergence(wanted, found);
            taught += divergence(wanted, untaught);
            // Of the same words the same next word, at every place: so the whole answers are the same.
            alike &= at + 1 < prompt.len() || greedy(wanted) == greedy(found);
        }
        same += usize::from(alike);
    }
    let [distance, taught] = [distance, taught].map(|sum: f64| sum / f64::from(positions.max(1)));
    let merged = matches!(request.format, ExportFormat::Gguf { .. });
    let kept = kept(distance, taught);
    let passed = match merged {
        true => distance <= UNNOTICED || kept >= KEPT,
        false => distance <= SAME && same == prompts.len(),
    };
    let summary = format!(
        "{} {:.1} % of what was taught is in it, and {same} of {} prompts get the same answer, word for word.{}",
        if passed {
            "It says what was trained:"
        } else {
            "It does NOT say what was trained:"
        },
        100.0 * kept,
        prompts.len(),
        match (passed, merged) {
            (true, _) => "",
            (false, true) =>
                " The type of its weights is too coarse: choose a finer one such as Q8_0, or the adapter alone.",
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

/// The share of what was taught that is left.
fn kept(distance: f64, taught: f64) -> f64 {
    match distance <= SAME {
        true => 1.0,
        false => (1.0 - distance / taught).max(0.0),
    }
}

/// A prompt with the model's greedy answer to it.
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
    Ok(session.with_product(Product::Exact))
}

/// Prompts that the run held out, or where it is not Hearth's, a few general ones.
fn prompts(adapter: &Path, tokenizer: &Tokenizer) -> Vec<Vec<u32>> {
    let held_out = RunFile::of_adapter(adapter).map(|run| run.prompts).unwrap_or_default();
    let held_out: Vec<_> = held_out.into_iter().filter(|prompt| !prompt.is_empty()).collect();
    match held_out.is_empty() {
        false => held_out,
        true => PROMPTS
            .iter()
            .map(|text| tokenizer.encode(text, Special::Text))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_share_of_what_was_taught() {
        assert_eq!(kept(0.0, 0.0), 1.0);
        assert_eq!(kept(0.25, 1.0), 0.75);
        assert_eq!(kept(2.0, 1.0), 0.0);
        assert_eq!(kept(f64::INFINITY, 1.0), 0.0);
        assert_eq!(kept(0.1, 0.0), 0.0);
    }
}

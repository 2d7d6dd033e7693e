//! The beginning of a continued answer: its tokens, and the state of its text after them.

use crate::engine::Texts;
use crate::problem::problem;
use crate::text_stream::{TextStream, prompt_end};
use crate::thinking::{Markers, Piece, PromptEnd};
use hearth_formats::chat_template::{TurnPiece, encode_turn};
use hearth_protocol::{Message, Part, Problem, ProblemCode, Role, TextKind, append_text, text_of};
use std::sync::Arc;

/// The beginning of an answer.
pub(crate) struct Beginning {
    /// Its tokens.
    pub ids: Vec<u32>,
    /// The state of its text after them.
    pub speech: TextStream,
    /// Its parts without the text that is held back. `None` means that they are the given ones.
    pub so_far: Option<Vec<Part>>,
}

/// The messages before the answer that is continued, and its parts.
///
/// # Errors
/// The last message is no answer of thoughts and text.
pub(crate) fn split(messages: &[Message]) -> Result<(&[Message], &[Part]), Problem> {
    let refused = |why: &str| Err(problem(ProblemCode::BadRequest, why));
    let Some((last, before)) = messages.split_last().filter(|(last, _)| last.role == Role::Assistant) else {
        return refused("Only an answer of the model can be continued, and the conversation does not end with one.");
    };
    let is_text = |part: &Part| matches!(part, Part::Text { .. } | Part::Thinking { .. });
    if before.is_empty() || !last.parts.iter().all(is_text) {
        refused("This answer has more than text, or no message before it, so it cannot be continued.")
    } else {
        Ok((before, &last.parts))
    }
}

impl Beginning {
    /// The beginning of an answer to `prompt` with these parts, whose tokens are `known` unless
    /// they do not decode to them. `speech` is the state before its first token.
    pub fn new(texts: &Texts, prompt: &[u32], parts: &[Part], known: &[u32], speech: &TextStream) -> Self {
        let parts = merged(parts);
        if !known.is_empty()
            && let Some(replayed) = Self::replay(texts, &parts, known.to_vec(), speech)
        {
            return replayed;
        }
        let ids = encode(texts, prompt, &parts, speech.markers().map(Arc::as_ref));
        let kind = match parts.last() {
            Some(Part::Thinking { .. }) => TextKind::Thinking,
            _ => TextKind::Text,
        };
        // Nothing was said: a thought may still begin.
        if ids.is_empty() {
            let (speech, so_far) = (speech.clone(), None);
            return Self { ids, speech, so_far };
        }
        match Self::replay(texts, &parts, ids.clone(), speech) {
            Some(replayed) => Self {
                speech: replayed.speech.settled(),
                ..replayed
            },
            None => Self {
                ids,
                speech: speech.clone().inside(kind),
                so_far: None,
            },
        }
    }

    /// The state after these tokens. `None` if they do not decode to the parts.
    fn replay(texts: &Texts, parts: &[Part], ids: Vec<u32>, speech: &TextStream) -> Option<Self> {
        let vocabulary = texts.tokenizer.vocab_size();
        let mut speech = speech.clone();
        let mut so_far = Vec::new();
        let add = |parts: &mut Vec<Part>, pieces: &[Piece]| pieces.iter().for_each(|piece| piece.add_to(parts));
        for &id in &ids {
            if id as usize >= vocabulary {
                return None;
            }
            let said = speech.push(texts, id);
            if said.stopped {
                return None;
            }
            add(&mut so_far, &said.pieces);
        }
        let mut whole = so_far.clone();
        let held = speech.clone().finish();
        add(&mut whole, &held.pieces);
        (whole == parts && !held.stopped).then_some(Self {
            ids,
            speech,
            so_far: Some(so_far),
        })
    }
}

/// The parts without empty ones, as [`append_text`] makes them.
fn merged(parts: &[Part]) -> Vec<Part> {
    let mut merged = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } if !text.is_empty() => append_text(&mut merged, TextKind::Text, text),
            Part::Thinking { text } if !text.is_empty() => append_text(&mut merged, TextKind::Thinking, text),
            _ => {}
        }
    }
    merged
}

/// The tokens of parts that follow a prompt. A thought is put between the template's markers, with
/// the line breaks that models learn; without markers it is left out. What parts say is no marker.
fn encode(texts: &Texts, prompt: &[u32], parts: &[Part], markers: Option<&Markers>) -> Vec<u32> {
    let said = text_of(parts);
    let Some(markers) = markers else {
        let pieces: &[TurnPiece] = if said.is_empty() {
            &[]
        } else {
            &[TurnPiece::Text(&said)]
        };
        return encode_turn(&texts.tokenizer, pieces, &[]);
    };
    let opening = format!("{}\n", markers.open.text);
    let closing = format!("\n{}\n\n", markers.close.text);
    let mut is_open = prompt_end(texts, Some(markers), prompt) == PromptEnd::Open;
    let mut pieces = Vec::new();
    for part in parts {
        let (text, is_thought) = match part {
            Part::Thinking { text } => (text, true),
            Part::Text { text } => (text, false),
            _ => continue,
        };
        if is_thought != is_open {
            pieces.push(TurnPiece::Form(if is_thought { &opening } else { &closing }));
        }
        pieces.push(TurnPiece::Text(text));
        is_open = is_thought;
    }
    let letters = [markers.open.text, markers.close.text].map(str::to_owned);
    encode_turn(&texts.tokenizer, &pieces, &letters)
}

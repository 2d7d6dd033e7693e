//! The existing part of a continued answer: its tokens, and the state of its text after them.

use crate::text_stream::{TextPieces, TextStream, prompt_end};
use crate::texts::Texts;
use crate::thinking::{Markers, Piece, PromptEnd};
use hearth_formats::chat_template::{TurnPiece, encode_turn};
use hearth_protocol::{Message, Part, Problem, ProblemCode, RequestReason, Role, TextKind, append_text, text_of};
use std::sync::Arc;

/// The existing part of an answer.
pub(crate) struct ContinuedAnswer {
    pub ids: Vec<u32>,
    /// The state of the text after the tokens.
    pub text: TextStream,
    /// The answer's parts without text that is held back. `None` means that they are the given
    /// parts.
    pub so_far: Option<Vec<Part>>,
}

/// Splits a conversation into the messages before the continued answer, and the parts of the
/// answer.
///
/// # Errors
/// The last message is not an answer that consists of thoughts and text.
pub(crate) fn split(messages: &[Message]) -> Result<(&[Message], &[Part]), Problem> {
    let refused = |reason: RequestReason| Err(Problem::new(ProblemCode::BadRequest, reason));
    let Some((last, before)) = messages.split_last().filter(|(last, _)| last.role == Role::Assistant) else {
        return refused(RequestReason::NoAnswerToContinue);
    };
    let is_text = |part: &Part| matches!(part, Part::Text { .. } | Part::Thinking { .. });
    if before.is_empty() || !last.parts.iter().all(is_text) {
        refused(RequestReason::AnswerNotContinuable)
    } else {
        Ok((before, &last.parts))
    }
}

impl ContinuedAnswer {
    /// The existing part of an answer to `prompt` with these parts. Its tokens are `ids` if they
    /// decode to the parts; otherwise the parts are encoded. `text` is the state before the first
    /// token.
    pub fn new(texts: &Texts, prompt: &[u32], parts: &[Part], ids: &[u32], text: &TextStream) -> Self {
        let parts = merged(parts);
        if !ids.is_empty()
            && let Some(replayed) = Self::replay(texts, &parts, ids.to_vec(), text)
        {
            return replayed;
        }
        let ids = encode(texts, prompt, &parts, text.markers().map(Arc::as_ref));
        let kind = match parts.last() {
            Some(Part::Thinking { .. }) => TextKind::Thinking,
            _ => TextKind::Text,
        };
        // The answer is empty, so a thought may still begin.
        if ids.is_empty() {
            let (text, so_far) = (text.clone(), None);
            return Self { ids, text, so_far };
        }
        match Self::replay(texts, &parts, ids.clone(), text) {
            Some(replayed) => Self {
                text: replayed.text.settled(),
                ..replayed
            },
            None => Self {
                ids,
                text: text.clone().inside(kind),
                so_far: None,
            },
        }
    }

    /// The state after these tokens. `None` if they do not decode to the parts.
    fn replay(texts: &Texts, parts: &[Part], ids: Vec<u32>, text: &TextStream) -> Option<Self> {
        let vocab = texts.tokenizer.vocab_size();
        let mut text = text.clone();
        let mut so_far = Vec::new();
        let add = |parts: &mut Vec<Part>, pieces: &[Piece]| pieces.iter().for_each(|piece| piece.add_to(parts));
        for &id in &ids {
            if id as usize >= vocab {
                return None;
            }
            let TextPieces { pieces, stopped } = text.push(texts, id);
            if stopped {
                return None;
            }
            add(&mut so_far, &pieces);
        }
        let mut all = so_far.clone();
        let held = text.clone().finish();
        add(&mut all, &held.pieces);
        (all == parts && !held.stopped).then_some(Self {
            ids,
            text,
            so_far: Some(so_far),
        })
    }
}

/// The parts without empty ones, merged as by [`append_text`].
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

/// Encodes the parts of an answer to a prompt. A thought is put between the template's markers,
/// with the line breaks that models are trained on. Without markers, thoughts are omitted. The
/// letters of markers in the parts are encoded as ordinary text.
fn encode(texts: &Texts, prompt: &[u32], parts: &[Part], markers: Option<&Markers>) -> Vec<u32> {
    let Some(markers) = markers else {
        let text = text_of(parts);
        let pieces: &[TurnPiece] = if text.is_empty() {
            &[]
        } else {
            &[TurnPiece::Text(&text)]
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

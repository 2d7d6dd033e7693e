//! The beginning of an answer, as tokens that follow the opened turn.

use super::quotes::quoted;
use crate::tokenizer::{Markers, Tokenizer};

/// A piece of an answer's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnPiece<'a> {
    /// Text of the template's form, such as a marker: parsed for control tokens.
    Form(&'a str),
    /// Text of the answer: never a control token.
    Text(&'a str),
}

/// Tokenizes an answer's beginning. In its texts, `letters` are ordinary text, also where a token
/// of the vocabulary has them.
pub fn encode_turn(tokenizer: &Tokenizer, pieces: &[TurnPiece<'_>], letters: &[String]) -> Vec<u32> {
    let contains = |character: char| {
        pieces.iter().any(|piece| match piece {
            TurnPiece::Form(text) | TurnPiece::Text(text) => text.contains(character),
        })
    };
    let markers = Markers::unused(&contains);
    let text: String = pieces
        .iter()
        .map(|piece| match piece {
            TurnPiece::Form(text) => (*text).to_owned(),
            TurnPiece::Text(text) => {
                let text = quoted(&markers.removed_from(text), letters, markers.letters);
                tokenizer.mark_controls(&text, markers.control)
            }
        })
        .collect();
    tokenizer.encode_marked(&text, markers)
}

//! The tokens of an answer's beginning, which follow the opened turn.

use super::quotes::quoted;
use crate::tokenizer::{Markers, Tokenizer};

/// A piece of an answer's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnPiece<'a> {
    /// Markup of the template, such as the marker of a thought. Parsed for control tokens.
    Form(&'a str),
    /// Text of the answer. Never becomes a control token.
    Text(&'a str),
}

/// Tokenizes an answer's beginning. In [`TurnPiece::Text`] these literals are ordinary text, even
/// if they are tokens of the vocabulary.
pub fn encode_turn(tokenizer: &Tokenizer, pieces: &[TurnPiece<'_>], literals: &[String]) -> Vec<u32> {
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
                let text = quoted(&markers.removed_from(text), literals, markers.literal);
                tokenizer.mark_controls(&text, markers.control)
            }
        })
        .collect();
    tokenizer.encode_marked(&text, markers)
}

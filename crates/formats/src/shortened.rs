//! Texts of files in messages.

use crate::characters::{is_hidden, is_joiner};

/// Truncates a text of a file for a message to `most` characters, without characters that are not
/// seen or that reorder others.
pub fn shortened(text: &str, most: usize) -> String {
    let mut plain = text.chars().filter(|c| !is_hidden(*c) || is_joiner(*c));
    let mut shown: String = plain.by_ref().take(most).collect();
    if plain.next().is_some() {
        shown.push_str("...");
    }
    shown
}

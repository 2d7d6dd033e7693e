//! Text from files in messages.

use crate::characters::{is_hidden, is_joiner};

/// Prepares a text from a file for a message: removes hidden characters except joiners, and
/// truncates the text to `max_characters` characters.
pub fn shortened(text: &str, max_characters: usize) -> String {
    let mut visible = text.chars().filter(|c| !is_hidden(*c) || is_joiner(*c));
    let mut shortened: String = visible.by_ref().take(max_characters).collect();
    if visible.next().is_some() {
        shortened.push_str("...");
    }
    shortened
}

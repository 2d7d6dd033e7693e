//! Texts of files in messages.

/// Truncates a text of a file for a message to `most` characters, without control characters.
pub fn shortened(text: &str, most: usize) -> String {
    let mut plain = text.chars().filter(|c| !c.is_control());
    let mut shown: String = plain.by_ref().take(most).collect();
    if plain.next().is_some() {
        shown.push_str("...");
    }
    shown
}

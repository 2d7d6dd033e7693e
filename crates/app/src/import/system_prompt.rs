//! The system prompt of an imported conversation: its system texts, each once.

use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// Most bytes of a system prompt; a longer one is truncated. Prompts of real exports have a few
/// kilobytes, while a hostile export may have a system text in each of its messages.
const MAX_BYTES: usize = 256 << 10;

/// System texts, with blank lines between them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SystemPrompt {
    text: String,
    /// Digests of the texts in it.
    seen: HashSet<[u8; 32]>,
}

impl SystemPrompt {
    /// A prompt whose text is used unchanged.
    pub fn whole(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            seen: HashSet::new(),
        }
    }

    /// Adds a text, unless it was added before. Linear in the text.
    pub fn add(&mut self, text: &str) {
        let separator = if self.text.is_empty() { "" } else { "\n\n" };
        let max_len = MAX_BYTES.saturating_sub(self.text.len() + separator.len());
        let text = text.trim();
        let text = &text[..text.floor_char_boundary(max_len)];
        if !text.is_empty() && self.seen.insert(Sha256::digest(text).into()) {
            self.text.push_str(separator);
            self.text.push_str(text);
        }
    }

    /// The text. `None` if there is none.
    pub fn text(&self) -> Option<&str> {
        (!self.text.is_empty()).then_some(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_in_it_once_up_to_the_limit() {
        let mut prompt = SystemPrompt::default();
        assert_eq!(prompt.text(), None);
        for text in ["Be brief.", " \n", "Use grams.\n", "Be brief.", " Use grams."] {
            prompt.add(text);
        }
        assert_eq!(prompt.text(), Some("Be brief.\n\nUse grams."));
        prompt.add(&"\u{e9}".repeat(MAX_BYTES));
        prompt.add("more");
        let length = prompt.text().map_or(0, str::len);
        assert!((MAX_BYTES - 1..=MAX_BYTES).contains(&length), "{length}");
    }
}

//! Counts the message that is being written: one token per character of its text and files, and of
//! the messages before it.

use hearth_protocol::{CountUnsent, Message, Part, UnsentTokens};

/// The message that was counted last.
#[derive(Default)]
pub struct Unsent {
    conversation: u64,
    conversation_tokens: u32,
    text: Vec<u16>,
    revision: Option<u32>,
    file_tokens: u32,
}

impl Unsent {
    /// Applies a change and counts the tokens. `None` means that the text is not known.
    pub fn count(&mut self, request: CountUnsent) -> Option<UnsentTokens> {
        let change = request.text;
        if change.base.is_none() {
            *self = Self::default();
        } else if self.revision != change.base {
            return None;
        }
        match request.before {
            Some(before) => {
                self.conversation = request.conversation;
                self.conversation_tokens = before.messages.iter().map(|Message { parts, .. }| tokens(parts)).sum();
            }
            None if self.conversation != request.conversation || change.base.is_none() => return None,
            None => {}
        }
        let start = change.start as usize;
        self.text
            .splice(start..start + change.removed as usize, change.inserted.encode_utf16());
        self.revision = Some(change.revision);
        if let Some(files) = request.files {
            self.file_tokens = tokens(&files);
        }
        let text = u32::try_from(self.text.len()).expect("a short text");
        Some(UnsentTokens {
            conversation: self.conversation_tokens,
            total: self.conversation_tokens + self.file_tokens + text,
        })
    }
}

fn tokens(parts: &[Part]) -> u32 {
    let characters = |part: &Part| match part {
        Part::Text { text } | Part::File { text, .. } => text.chars().count(),
        _ => 0,
    };
    let total: usize = parts.iter().map(characters).sum();
    u32::try_from(total).expect("a short text")
}

//! Counts the tokens of a message that is being written. After a change, only the changed pieces of
//! the text are tokenized again.

use crate::chat::file_text;
use crate::numbers::saturating_u32;
use crate::problem::{from_template, interrupted};
use crate::texts::Texts;
use hearth_formats::chat_template::{Frame, GenerationPrompt, PLACEHOLDER, UnsentText};
use hearth_formats::interrupt::Interrupt;
use hearth_protocol::{
    ConversationBefore, CountUnsent, MAX_UNSENT_BYTES, Message, Part, Problem, Role, TextChange, UnsentTokens,
};
use std::sync::{Arc, Mutex, PoisonError};

/// The separator of files and text, see [`crate::chat`].
const SEPARATOR: &str = "\n\n";

/// The message that is being written; at most one per model.
#[derive(Default)]
pub(crate) struct UnsentState(Mutex<Option<Unsent>>);

/// A message that is being written. The default is an empty one in an empty conversation.
#[derive(Default)]
struct Unsent {
    /// Revision of its text.
    revision: u32,
    /// The files as text and the separator, then the text.
    content: UnsentText,
    /// Bytes of the files and the separator.
    head: usize,
    files: Vec<Part>,
    /// See [`CountUnsent::conversation`].
    conversation: u64,
    before: ConversationBefore,
    /// Tokens of the conversation. `None` until they are counted.
    tokens: Option<u32>,
    /// The frame in which the content was counted last. `None` means that the prompt has to be
    /// encoded in full.
    frame: Option<Frame>,
}

/// A count of an unsent message, which may run on any thread. Counts must run in order.
pub(crate) struct UnsentCount {
    texts: Arc<Texts>,
    state: Arc<UnsentState>,
    request: CountUnsent,
}

impl UnsentCount {
    /// The count of a change of the message.
    pub fn new(texts: Arc<Texts>, state: Arc<UnsentState>, request: CountUnsent) -> Self {
        Self { texts, state, request }
    }

    /// Applies the change and counts the tokens, until `interrupt` stops it. `None` means that the
    /// text or the conversation that the request refers to is not known.
    ///
    /// # Errors
    /// The template fails, or the count was interrupted. The change is applied anyway.
    pub fn run(self, interrupt: &Interrupt) -> Result<Option<UnsentTokens>, Problem> {
        let mut state = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out, so that a panic leaves no incomplete message behind.
        let Some(mut unsent) = Unsent::changed(state.take(), self.request) else {
            return Ok(None);
        };
        let counted = interrupt.run(|| unsent.count(&self.texts));
        *state = Some(unsent);
        counted.unwrap_or_else(|_| Err(interrupted())).map(Some)
    }
}

impl Unsent {
    /// The message after a change. `None` if the change refers to another text or conversation, or
    /// the message is too long.
    fn changed(previous: Option<Self>, request: CountUnsent) -> Option<Self> {
        let CountUnsent {
            conversation,
            before,
            text,
            files,
        } = request;
        let mut unsent = match (text.base, previous) {
            (None, _) => Self::default(),
            (Some(base), Some(previous)) if base == previous.revision => previous,
            (Some(_), _) => return None,
        };
        match before {
            Some(before) => (unsent.before, unsent.tokens) = (before, None),
            None if text.base.is_some() && unsent.conversation == conversation => {}
            None => return None,
        }
        let added = text.inserted.len() + bytes_of(files.as_deref().unwrap_or_default());
        if unsent.content.text().len() + added > MAX_UNSENT_BYTES {
            return None;
        }
        unsent.conversation = conversation;
        unsent.change_text(&text)?;
        unsent.set_files(files);
        // Fences may be as long as the texts in them.
        (unsent.content.text().len() <= MAX_UNSENT_BYTES).then_some(unsent)
    }

    /// Returns `None` if the change is not within the text.
    fn change_text(&mut self, change: &TextChange) -> Option<()> {
        let start = self.content.byte_offset(self.head, change.start as usize)?;
        let end = self.content.byte_offset(start, change.removed as usize)?;
        self.content.replace(start..end, &change.inserted);
        self.revision = change.revision;
        Some(())
    }

    /// Sets the files, if they have changed, and the separator.
    fn set_files(&mut self, files: Option<Vec<Part>>) {
        let has_changed = files.is_some();
        if let Some(files) = files {
            self.files = files;
        }
        let has_text = self.content.text().len() > self.head;
        let has_separator = self.content.text()[..self.head].ends_with(SEPARATOR);
        // The text of a file ends with its fence.
        if !has_changed && (self.files.is_empty() || has_text == has_separator) {
            return;
        }
        let texts = self.files.iter().filter_map(|part| match part {
            Part::File { name, text, .. } => Some(file_text(name, text)),
            _ => None,
        });
        let mut head = texts.collect::<Vec<_>>().join(SEPARATOR);
        if has_text && !head.is_empty() {
            head.push_str(SEPARATOR);
        }
        self.content.replace(0..self.head, &head);
        self.head = head.len();
    }

    /// Counts the tokens of the conversation, and of the prompt with the message.
    fn count(&mut self, texts: &Texts) -> Result<UnsentTokens, Problem> {
        let conversation = match self.tokens {
            Some(tokens) => tokens,
            None => self.count_conversation(texts)?,
        };
        let total = match self.frame.as_ref().filter(|frame| self.is_in_frame(frame)) {
            _ if self.content.text().is_empty() => conversation,
            Some(frame) => {
                let counted = self.content.count(&texts.template, &texts.tokenizer, frame);
                saturating_u32(counted.map_err(from_template)?)
            }
            None => {
                let text = &self.content.text()[self.head..];
                let parts = self.files.iter().cloned().chain(text_part(text)).collect();
                let messages = with_draft(&self.before.messages, parts);
                saturating_u32(texts.encode(&messages, self.before.thinking)?.len())
            }
        };
        tracing::debug!(
            total,
            tokenized = self.content.tokenized(),
            "an unsent message is counted"
        );
        Ok(UnsentTokens { conversation, total })
    }

    /// Whether the content is in one piece in the prompt, and the frame is the one of the content.
    fn is_in_frame(&self, frame: &Frame) -> bool {
        // In joined messages, the files precede the text of the earlier message.
        let is_joined = self.before.messages.last().is_some_and(|last| last.role == Role::User);
        (self.files.is_empty() || !is_joined) && frame.suits(self.content.text())
    }

    /// Counts the tokens of the conversation, and prepares the count of the content.
    fn count_conversation(&mut self, texts: &Texts) -> Result<u32, Problem> {
        let ConversationBefore { messages, thinking } = &self.before;
        let draft = with_draft(messages, text_part(PLACEHOLDER).into_iter().collect());
        let frame = texts.template.frame(&texts.tokenizer, &texts.chat(&draft, *thinking)?);
        let frame = frame.map_err(from_template)?;
        if let Some(frame) = &frame {
            self.content.reframe(self.frame.as_ref(), frame);
        }
        self.frame = frame;
        let tokens = match &**messages {
            [] => 0,
            messages => saturating_u32(texts.encode_up_to(messages, *thinking, GenerationPrompt::Omit)?.len()),
        };
        self.tokens = Some(tokens);
        Ok(tokens)
    }
}

/// Bytes of the texts of files.
fn bytes_of(files: &[Part]) -> usize {
    let bytes = |part: &Part| match part {
        Part::File { name, text, .. } => name.len() + text.len(),
        _ => 0,
    };
    files.iter().map(bytes).sum()
}

fn text_part(text: &str) -> Option<Part> {
    let text = text.to_owned();
    (!text.is_empty()).then_some(Part::Text { text })
}

/// The conversation with the message, which is joined to the last one if that is the user's.
fn with_draft(messages: &[Message], parts: Vec<Part>) -> Vec<Message> {
    let mut messages = messages.to_vec();
    match messages.last_mut() {
        Some(last) if last.role == Role::User => last.parts.extend(parts),
        _ => messages.push(Message {
            role: Role::User,
            parts,
        }),
    }
    messages
}

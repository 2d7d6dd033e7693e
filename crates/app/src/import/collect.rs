//! Collects conversations from the elements of documents. Most conversations are one element each.
//! A conversation of Jan or of a list of messages has several.

use super::{
    chatgpt, claude,
    elements::{Content, Elements, MAX_ELEMENT},
    hearth, jan,
    json::{Json, ParseError},
    llama_cpp, lm_studio, open_webui, openai, sharegpt,
    source::{self, Document},
    tree::{ImportedConversation, MAX_MESSAGES},
};
use crate::wire::{ImportFormat, Problem, ProblemCode, SkipReason};
use hearth_protocol::DataReason;
use std::path::Path;

/// Most elements of an export.
const MAX_ELEMENTS: usize = 2_000_000;

/// Most bytes of the messages of one conversation, if each message is a separate element.
const MAX_PENDING: usize = MAX_ELEMENT;

/// A conversation of an export, or the reason for skipping it, with its title if known.
pub(super) enum ImportItem {
    Conversation(ImportFormat, Box<ImportedConversation>),
    Skipped(SkipReason, Option<String>),
    /// It exceeds this limit of bytes or values.
    Exceeding(SkipReason, usize, Option<String>),
}

/// Receives an item.
pub(super) type Take<'a> = &'a mut dyn FnMut(ImportItem) -> Result<(), Problem>;

/// Collects conversations of one export.
pub(super) struct Collector<'a> {
    /// The data folder.
    data: &'a Path,
    pending: Option<Pending>,
    elements: usize,
    /// Whether a format was recognized.
    pub recognized: bool,
}

/// Messages of one conversation.
struct Pending {
    source: Source,
    thread: Json,
    messages: Vec<Json>,
    bytes: usize,
}

#[derive(PartialEq, Eq)]
enum Source {
    /// A thread of Jan in a folder.
    Jan(String),
    /// A list of messages: its number in its document. Messages of JSON Lines are one list.
    List(Option<usize>),
}

impl<'a> Collector<'a> {
    pub fn new(data: &'a Path) -> Self {
        Self {
            data,
            pending: None,
            elements: 0,
            recognized: false,
        }
    }

    /// Reads a document. If there are several, a document is ignored if its first element is not
    /// recognized, because exports contain other files.
    pub fn document(&mut self, document: Document<'_>, take: Take<'_>) -> Result<(), Problem> {
        let mut elements = Elements::new(document.stream);
        let mut is_first = true;
        // The last object that was split, and the last one that was skipped.
        let (mut split, mut skipped) = (0, 0);
        while let Some(element) = elements.next().map_err(|error| source::failed(&error))? {
            self.elements += 1;
            if self.elements > MAX_ELEMENTS {
                return Err(too_many());
            }
            if element.in_object && element.group == skipped {
                continue;
            }
            let mut bytes = match element.content {
                Content::Bytes(bytes) => bytes,
                Content::TooLarge(limit) => {
                    take(ImportItem::Exceeding(SkipReason::TooLarge, limit, None))?;
                    continue;
                }
                Content::Broken if is_first && element.group == 0 => break,
                Content::Broken => {
                    take(ImportItem::Skipped(SkipReason::Malformed, None))?;
                    continue;
                }
            };
            let value = match Json::parse(&mut bytes) {
                Ok(value) => value,
                Err(error) => {
                    take(match error {
                        ParseError::Malformed => ImportItem::Skipped(SkipReason::Malformed, None),
                        ParseError::TooManyValues(limit) => {
                            ImportItem::Exceeding(SkipReason::TooManyValues, limit, None)
                        }
                    })?;
                    continue;
                }
            };
            let group = element.in_list.then_some(element.group);
            let size = bytes.len();
            // Not needed any more: the value has copies of its texts.
            drop(bytes);
            if element.in_object {
                is_first = false;
                match conversation(&value, document.name, self.data) {
                    Some(item) => {
                        split = element.group;
                        self.recognized = true;
                        take(item)?;
                    }
                    None if element.group == split => take(ImportItem::Skipped(SkipReason::UnknownFormat, None))?,
                    // The list belongs to a single conversation.
                    None => {
                        skipped = element.group;
                        take(ImportItem::Exceeding(SkipReason::TooLarge, MAX_ELEMENT, None))?;
                    }
                }
                continue;
            }
            let is_recognized = self.element(value, size, group, document.name, document.folder, take)?;
            self.recognized |= is_recognized;
            if !is_recognized && is_first && document.is_one_of_many {
                break;
            }
            if !is_recognized {
                take(ImportItem::Skipped(SkipReason::UnknownFormat, None))?;
            }
            is_first = false;
        }
        match &self.pending {
            Some(Pending {
                source: Source::List(_),
                ..
            }) => self.flush(take),
            _ => Ok(()),
        }
    }

    /// Takes one element. Returns whether it was recognized.
    fn element(
        &mut self,
        value: Json,
        bytes: usize,
        group: Option<usize>,
        name: &str,
        folder: &str,
        take: Take<'_>,
    ) -> Result<bool, Problem> {
        let is_thread = jan::is_thread(&value);
        let pending = match () {
            () if is_thread || jan::is_message(&value) => Some(Source::Jan(folder.to_owned())),
            () if openai::is_message(&value) => Some(Source::List(group)),
            () => None,
        };
        let Some(source) = pending else {
            if let Some(item) = conversation(&value, name, self.data) {
                drop(value);
                take(item)?;
                return Ok(true);
            }
            return self.wrapped(&value, name, take);
        };
        if self.pending.as_ref().is_some_and(|pending| pending.source != source) {
            self.flush(take)?;
        }
        let pending = self.pending.get_or_insert(Pending {
            source,
            thread: Json::Null,
            messages: Vec::new(),
            bytes: 0,
        });
        pending.bytes += bytes;
        // Messages beyond the limits are counted, so that the conversation is skipped as too large.
        let is_too_large = pending.bytes > MAX_PENDING || pending.messages.len() > MAX_MESSAGES;
        if is_thread {
            pending.thread = value;
        } else if !is_too_large {
            pending.messages.push(value);
        }
        Ok(true)
    }

    /// Takes the conversations of a list inside an object.
    fn wrapped(&mut self, value: &Json, name: &str, take: Take<'_>) -> Result<bool, Problem> {
        let lists = value.entries().iter().map(|(_, value)| value.items());
        for list in lists {
            if list
                .first()
                .is_some_and(|item| conversation(item, name, self.data).is_some())
            {
                for item in list {
                    take(
                        conversation(item, name, self.data)
                            .unwrap_or(ImportItem::Skipped(SkipReason::UnknownFormat, None)),
                    )?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends the conversation whose messages were collected.
    pub fn flush(&mut self, take: Take<'_>) -> Result<(), Problem> {
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        if pending.bytes > MAX_PENDING {
            return take(ImportItem::Exceeding(
                SkipReason::TooLarge,
                MAX_PENDING,
                pending.thread.text("title").map(str::to_owned),
            ));
        }
        let (format, conversation) = match pending.source {
            Source::Jan(_) => (ImportFormat::Jan, jan::read(&pending.thread, &pending.messages)),
            Source::List(_) => (ImportFormat::OpenAi, openai::read_list(&pending.messages)),
        };
        take(ImportItem::Conversation(format, Box::new(conversation)))
    }
}

/// Reads an element that is a whole conversation. `None` means that its format is unknown.
fn conversation(value: &Json, name: &str, data: &Path) -> Option<ImportItem> {
    let (format, conversation) = match () {
        () if hearth::is(value) => match hearth::read(value, data) {
            Some(conversation) => (ImportFormat::Hearth, conversation),
            None => {
                return Some(ImportItem::Skipped(
                    SkipReason::Malformed,
                    value.text("title").map(str::to_owned),
                ));
            }
        },
        () if chatgpt::is(value) => (ImportFormat::ChatGpt, chatgpt::read(value)),
        () if claude::is(value) => (ImportFormat::Claude, claude::read(value)),
        () if llama_cpp::is(value) => (ImportFormat::LlamaCpp, llama_cpp::read(value)),
        () if open_webui::is(value) => (ImportFormat::OpenWebUi, open_webui::read(value)),
        () if lm_studio::is(value) => (ImportFormat::LmStudio, lm_studio::read(value, name)),
        () if openai::is(value) => (ImportFormat::OpenAi, openai::read(value)),
        () if openai::is_list(value) => (ImportFormat::OpenAi, openai::read_list(value.items())),
        () if sharegpt::is(value) => (ImportFormat::ShareGpt, sharegpt::read(value)),
        () => return None,
    };
    Some(ImportItem::Conversation(format, Box::new(conversation)))
}

fn too_many() -> Problem {
    let limit = MAX_ELEMENTS as u64;
    Problem::new(ProblemCode::DataInvalid, DataReason::ImportTooManyEntries { limit })
}

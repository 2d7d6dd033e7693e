//! Conversations as templates see them: messages and tools as values of JSON.

use super::jinja::budget::NODE;
use super::jinja::list::List;
use super::{Message, Role, TemplateError};
use minijinja::Value;
use minijinja::value::ValueKind;
use serde::Deserialize;

/// Messages that a file may hold. A template runs out of steps long before.
const MOST_MESSAGES: usize = 100_000;

/// A conversation with all that a template may read: messages with any fields (`content` as a text or as parts, `tool_calls`,
/// `reasoning_content`) and the tools that the model may call.
#[derive(Debug, Clone)]
pub struct Chat {
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
}

impl Chat {
    /// Reads a JSON list of messages, and one of tools where there are any, as Hugging Face's `apply_chat_template` takes them.
    /// The order of keys is kept.
    ///
    /// # Errors
    /// Where either is no JSON, no list, or a message is no object with a `role`.
    pub fn from_json(messages: &str, tools: Option<&str>) -> Result<Self, TemplateError> {
        let bad = |what: &str, why: String| TemplateError::Conversation(format!("{what}: {why}"));
        let messages = list(messages).map_err(|why| bad("the messages", why))?;
        if messages.len() > MOST_MESSAGES {
            let why = format!("there are {}, and {MOST_MESSAGES} are the most", messages.len());
            return Err(bad("the messages", why));
        }
        for (place, message) in messages.iter().enumerate() {
            let what = || format!("message {}", place + 1);
            if message.kind() != ValueKind::Map {
                return Err(bad(&what(), "it is no object".to_owned()));
            }
            if role(message).is_none() {
                return Err(bad(&what(), "it has no \"role\" that is a text".to_owned()));
            }
        }
        let tools = match tools {
            Some(tools) => {
                let tools = list(tools).map_err(|why| bad("the tools", why))?;
                if let Some(place) = tools.iter().position(|tool| tool.kind() != ValueKind::Map) {
                    return Err(bad(&format!("tool {}", place + 1), "it is no object".to_owned()));
                }
                Some(tools)
            }
            None => None,
        };
        Ok(Self { messages, tools })
    }

    /// The messages, for a template.
    pub(super) fn messages(&self) -> Value {
        List::of_input(self.messages.clone())
    }

    /// The bytes of all that is in the conversation.
    pub(super) fn bytes(&self) -> u64 {
        let values = self.messages.iter().chain(self.tools.iter().flatten());
        values.map(bytes).sum()
    }

    /// The tools, for a template: none where there are none, since templates ask for that and not whether they are defined.
    pub(super) fn tools(&self) -> Value {
        self.tools.clone().map_or(Value::from(()), List::of_input)
    }

    /// The text of the system prompt, if there is one.
    pub(super) fn system(&self) -> Option<String> {
        self.messages
            .iter()
            .find(|message| is(message, "system"))
            .and_then(content)
    }

    /// The conversation with another system prompt in place of the first one.
    pub(super) fn with_system(&self, text: &str) -> Self {
        let mut chat = self.clone();
        if let Some(system) = chat.messages.iter_mut().find(|message| is(message, "system")) {
            *system = with_content(system, text);
        }
        chat
    }

    /// The conversation with its system prompts put before the first message of the person.
    pub(super) fn without_system(&self) -> Self {
        let (system, mut rest): (Vec<Value>, Vec<Value>) = self
            .messages
            .iter()
            .cloned()
            .partition(|message| is(message, "system") && content(message).is_some());
        let system: Vec<String> = system.iter().filter_map(content).collect();
        let system = system.join("\n\n");
        let first = rest
            .iter_mut()
            .find(|message| is(message, "user") && content(message).is_some());
        match first {
            Some(first) => {
                let content = content(first).unwrap_or_default();
                *first = with_content(first, &format!("{system}\n\n{content}"));
            }
            None => rest.insert(0, message("user", &system)),
        }
        Self {
            messages: rest,
            tools: self.tools.clone(),
        }
    }

    /// Whether any text of the conversation holds this character.
    pub(super) fn contains(&self, character: char) -> bool {
        let values = self.messages.iter().chain(self.tools.iter().flatten());
        values
            .into_iter()
            .any(|value| any_text(value, &|text| text.contains(character)))
    }

    /// The conversation with `change` done to every text in it, the names of fields included, but for the words by which
    /// templates find their way: usual roles and types, and names of fields that `reads` says the template reads.
    pub(super) fn map_texts(&self, reads: &impl Fn(&str) -> bool, change: &impl Fn(&str) -> String) -> Self {
        let map = |values: &[Value]| values.iter().map(|value| mapped(value, reads, change)).collect();
        Self {
            messages: map(&self.messages),
            tools: self.tools.as_deref().map(map),
        }
    }
}

impl From<&[Message]> for Chat {
    fn from(messages: &[Message]) -> Self {
        let name = |role| match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        Self {
            messages: messages.iter().map(|m| message(name(m.role), &m.content)).collect(),
            tools: None,
        }
    }
}

/// A JSON list. The reader refuses what is nested more than 128 deep.
fn list(text: &str) -> Result<Vec<Value>, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Value::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    let value = value.map_err(|error| format!("they are no JSON ({error})"))?;
    if value.kind() != ValueKind::Seq {
        return Err("they are no list".to_owned());
    }
    value
        .try_iter()
        .map(Iterator::collect)
        .map_err(|error| error.to_string())
}

fn message(role: &str, content: &str) -> Value {
    Value::from_pairs([("role", role), ("content", content)])
}

/// A message with another content, its other fields as they were.
fn with_content(message: &Value, text: &str) -> Value {
    let pairs = pairs(message).map(|(key, value)| match key.as_str() {
        Some("content") => (key, Value::from(text)),
        _ => (key, value),
    });
    Value::from_pairs(pairs)
}

fn is(message: &Value, wanted: &str) -> bool {
    role(message).as_deref() == Some(wanted)
}

fn role(message: &Value) -> Option<String> {
    text_of(message, "role")
}

fn content(message: &Value) -> Option<String> {
    text_of(message, "content")
}

fn text_of(message: &Value, field: &str) -> Option<String> {
    message.get_attr(field).ok()?.as_str().map(str::to_owned)
}

/// The fields of an object, in order; of anything else none.
fn pairs(value: &Value) -> impl Iterator<Item = (Value, Value)> {
    let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    object.and_then(|object| object.try_iter_pairs()).into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = Value> {
    value.try_iter().into_iter().flatten()
}

fn bytes(value: &Value) -> u64 {
    let inside: u64 = match value.kind() {
        ValueKind::String => value.as_str().map_or(0, |text| text.len() as u64),
        ValueKind::Seq => items(value).map(|item| bytes(&item)).sum(),
        ValueKind::Map => pairs(value).map(|(key, value)| bytes(&key) + bytes(&value)).sum(),
        _ => 0,
    };
    NODE + inside
}

fn any_text(value: &Value, test: &impl Fn(&str) -> bool) -> bool {
    match value.kind() {
        ValueKind::String => value.as_str().is_some_and(test),
        ValueKind::Seq => items(value).any(|item| any_text(&item, test)),
        ValueKind::Map => pairs(value).any(|(key, value)| any_text(&key, test) || any_text(&value, test)),
        _ => false,
    }
}

fn mapped(value: &Value, reads: &impl Fn(&str) -> bool, change: &impl Fn(&str) -> String) -> Value {
    match value.kind() {
        ValueKind::String => value
            .as_str()
            .map_or_else(|| value.clone(), |text| Value::from(change(text))),
        ValueKind::Seq => items(value).map(|item| mapped(&item, reads, change)).collect(),
        ValueKind::Map => Value::from_pairs(pairs(value).map(|(key, value)| {
            let leads = matches!(key.as_str(), Some("role" | "type")) && is_role_or_type(&value);
            let value = if leads { value } else { mapped(&value, reads, change) };
            let known = key.as_str().is_some_and(|key| is_word(key) && reads(key));
            let key = if known { key } else { mapped(&key, reads, change) };
            (key, value)
        })),
        _ => value.clone(),
    }
}

/// Whether this is a role of a message or a type of a part, a tool or an argument that templates compare with.
fn is_role_or_type(value: &Value) -> bool {
    const KNOWN: [&str; 30] = [
        "system",
        "user",
        "assistant",
        "model",
        "tool",
        "tools",
        "tool_call",
        "tool_calls",
        "tool_response",
        "function",
        "developer",
        "ipython",
        "observation",
        "text",
        "image",
        "image_url",
        "audio",
        "video",
        "file",
        "json",
        "object",
        "string",
        "number",
        "integer",
        "float",
        "boolean",
        "array",
        "null",
        "thinking",
        "reasoning",
    ];
    value.as_str().is_some_and(|word| KNOWN.contains(&word))
}

/// Whether this is a word such as the names of fields are.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_part_of_word)
}

/// Whether words have this character.
pub(super) fn is_part_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

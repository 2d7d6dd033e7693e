//! The conversation passed to a template: messages and tools as JSON values.

use super::jinja::budget::VALUE_BYTES;
use super::jinja::build::input_list;
use super::{Message, Role, TemplateError, Thinking};
use minijinja::Value;
use minijinja::value::ValueKind;
use serde::Deserialize;

/// Maximum messages of a conversation. Far fewer exceed a template's work limit.
const MAX_MESSAGES: usize = 100_000;

/// A conversation as input of a template: messages with arbitrary fields (`content` as a string or
/// as parts, `tool_calls`, `reasoning_content`) and the tools that the model may call.
#[derive(Debug, Clone)]
pub struct Chat {
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
    thinking: Thinking,
    /// See [`Chat::with_quoted`].
    literals: Vec<String>,
}

impl Chat {
    /// Parses a JSON list of messages and an optional JSON list of tools, in the format of Hugging
    /// Face's `apply_chat_template`. Preserves the order of keys.
    ///
    /// # Errors
    /// If either is not a JSON list, a message is not an object with a `role`, or there are too
    /// many messages.
    pub fn from_json(messages: &str, tools: Option<&str>) -> Result<Self, TemplateError> {
        let invalid = |what: &str, why: String| TemplateError::Conversation(format!("{what}: {why}"));
        let messages = parse_list(messages).map_err(|why| invalid("the messages", why))?;
        if messages.len() > MAX_MESSAGES {
            let why = format!("{} messages exceed the limit of {MAX_MESSAGES}", messages.len());
            return Err(invalid("the messages", why));
        }
        for (index, message) in messages.iter().enumerate() {
            let name = || format!("message {}", index + 1);
            if message.kind() != ValueKind::Map {
                return Err(invalid(&name(), "it is not an object".to_owned()));
            }
            if role(message).is_none() {
                return Err(invalid(&name(), "it has no string \"role\"".to_owned()));
            }
        }
        let tools = match tools {
            Some(tools) => {
                let tools = parse_list(tools).map_err(|why| invalid("the tools", why))?;
                if let Some(index) = tools.iter().position(|tool| tool.kind() != ValueKind::Map) {
                    return Err(invalid(
                        &format!("tool {}", index + 1),
                        "it is not an object".to_owned(),
                    ));
                }
                Some(tools)
            }
            None => None,
        };
        Ok(Self {
            messages,
            tools,
            thinking: Thinking::default(),
            literals: Vec::new(),
        })
    }

    /// Sets the strings that are literal text in messages of users, tools and the model: neither a
    /// template nor a tokenizer treats them as markup. If thoughts are in separate fields of the
    /// conversation, these are the markers of thoughts.
    #[must_use]
    pub fn with_quoted(mut self, literals: &[&str]) -> Self {
        self.literals = literals.iter().map(|literal| (*literal).to_owned()).collect();
        self
    }

    /// See [`Chat::with_quoted`].
    pub(super) fn literals(&self) -> &[String] {
        &self.literals
    }

    /// Sets the choice of thinking.
    #[must_use]
    pub fn with_thinking(mut self, thinking: Thinking) -> Self {
        self.thinking = thinking;
        self
    }

    /// The choice of thinking.
    pub(super) fn thinking(&self) -> Thinking {
        self.thinking
    }

    /// The messages as a template value.
    pub(super) fn messages(&self) -> Value {
        input_list(self.messages.clone())
    }

    /// The messages as a template value, each content as a list of parts.
    pub(super) fn messages_with_content_parts(&self) -> Value {
        input_list(self.messages.iter().map(with_content_parts).collect())
    }

    /// Whether a message's content is null.
    pub(super) fn has_null_content(&self) -> bool {
        self.messages.iter().any(is_content_null)
    }

    /// The conversation with an empty string for each content that is null.
    pub(super) fn without_null_contents(&self) -> Self {
        let without_null = |message: &Value| {
            if is_content_null(message) {
                with_content(message, "")
            } else {
                message.clone()
            }
        };
        Self {
            messages: self.messages.iter().map(without_null).collect(),
            ..self.clone()
        }
    }

    /// Total bytes of the conversation, as the budget counts them.
    pub(super) fn bytes(&self) -> u64 {
        self.values().map(bytes).sum()
    }

    /// The messages and tools.
    fn values(&self) -> impl Iterator<Item = &Value> {
        self.messages.iter().chain(self.tools.iter().flatten())
    }

    /// The tools as a template value. Without tools this is `none` rather than undefined, since
    /// templates test for `none`.
    pub(super) fn tools(&self) -> Value {
        self.tools.clone().map_or(Value::from(()), input_list)
    }

    /// The text of the first system message. `None` if there is none, or its content is not a
    /// string.
    pub(super) fn system(&self) -> Option<String> {
        self.messages
            .iter()
            .find(|message| has_role(message, "system"))
            .and_then(content)
    }

    /// The conversation with another text in its first system message.
    pub(super) fn with_system(&self, text: &str) -> Self {
        let mut chat = self.clone();
        if let Some(system) = chat.messages.iter_mut().find(|message| has_role(message, "system")) {
            *system = with_content(system, text);
        }
        chat
    }

    /// The conversation with its system prompts prepended to the first user message.
    pub(super) fn without_system(&self) -> Self {
        let (system_messages, mut messages): (Vec<Value>, Vec<Value>) = self
            .messages
            .iter()
            .cloned()
            .partition(|message| has_role(message, "system") && content(message).is_some());
        let system: Vec<String> = system_messages.iter().filter_map(content).collect();
        let system = system.join("\n\n");
        let first_user_message = messages
            .iter_mut()
            .find(|message| has_role(message, "user") && content(message).is_some());
        match first_user_message {
            Some(first) => {
                let content = content(first).unwrap_or_default();
                *first = with_content(first, &format!("{system}\n\n{content}"));
            }
            None => messages.insert(0, message("user", &system)),
        }
        Self {
            messages,
            ..self.clone()
        }
    }

    /// Whether any string of the conversation contains this character.
    pub(super) fn contains(&self, character: char) -> bool {
        self.values()
            .any(|value| any_string(value, &|text| text.contains(character)))
    }

    /// Applies `change` to every string of the conversation and its author, including field names.
    /// Known roles and types, and field names for which `is_read` returns `true`, stay as they are,
    /// since templates depend on them.
    pub(super) fn map_strings(
        &self,
        is_read: &impl Fn(&str) -> bool,
        change: &impl Fn(&str, Author) -> String,
    ) -> Self {
        let map = |value: &Value, author| map_value(value, is_read, &|text: &str| change(text, author));
        let map_message = |message: &Value| map(message, Author::from_role(role(message).as_deref()));
        let tools = self.tools.as_deref();
        Self {
            messages: self.messages.iter().map(map_message).collect(),
            tools: tools.map(|tools| tools.iter().map(|tool| map(tool, Author::Instructions)).collect()),
            thinking: self.thinking,
            literals: self.literals.clone(),
        }
    }
}

/// The author of a text in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The system prompt and the tools, which may describe the model's own format.
    Instructions,
    /// The model.
    Model,
    /// The user, a file or a tool, whose text is ordinary text.
    Other,
}

impl Author {
    /// The author of a message with this role.
    fn from_role(role: Option<&str>) -> Self {
        match role {
            Some("system" | "developer") => Self::Instructions,
            Some("assistant" | "model") => Self::Model,
            _ => Self::Other,
        }
    }
}

impl From<Role> for Author {
    fn from(role: Role) -> Self {
        match role {
            Role::System => Self::Instructions,
            Role::User => Self::Other,
            Role::Assistant => Self::Model,
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
            messages: messages
                .iter()
                .map(|Message { role, content }| message(name(*role), content))
                .collect(),
            tools: None,
            thinking: Thinking::default(),
            literals: Vec::new(),
        }
    }
}

/// Parses a JSON list. serde_json refuses more than 128 levels of nesting.
fn parse_list(text: &str) -> Result<Vec<Value>, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Value::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    let value = value.map_err(|error| format!("they are not valid JSON ({error})"))?;
    if value.kind() != ValueKind::Seq {
        return Err("they are not a list".to_owned());
    }
    value
        .try_iter()
        .map(Iterator::collect)
        .map_err(|error| error.to_string())
}

fn message(role: &str, content: &str) -> Value {
    Value::from_pairs([("role", role), ("content", content)])
}

/// A copy of a message with another `content`.
fn with_content(message: &Value, text: &str) -> Value {
    let pairs = pairs(message).map(|(key, value)| match key.as_str() {
        Some("content") => (key, Value::from(text)),
        _ => (key, value),
    });
    Value::from_pairs(pairs)
}

/// A copy of a message whose `content`, if a string, is a list of one part.
fn with_content_parts(message: &Value) -> Value {
    let pairs = pairs(message).map(|(key, value)| match (key.as_str(), value.as_str()) {
        (Some("content"), Some(text)) => {
            let part = Value::from_pairs([("type", "text"), ("text", text)]);
            (key, input_list(vec![part]))
        }
        _ => (key, value),
    });
    Value::from_pairs(pairs)
}

fn has_role(message: &Value, name: &str) -> bool {
    role(message).as_deref() == Some(name)
}

fn role(message: &Value) -> Option<String> {
    string_field(message, "role")
}

fn is_content_null(message: &Value) -> bool {
    message.get_attr("content").is_ok_and(|content| content.is_none())
}

fn content(message: &Value) -> Option<String> {
    string_field(message, "content")
}

fn string_field(message: &Value, field: &str) -> Option<String> {
    message.get_attr(field).ok()?.as_str().map(str::to_owned)
}

/// The fields of an object, in order. Empty for any other value.
fn pairs(value: &Value) -> impl Iterator<Item = (Value, Value)> {
    let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    object.and_then(|object| object.try_iter_pairs()).into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = Value> {
    value.try_iter().into_iter().flatten()
}

fn bytes(value: &Value) -> u64 {
    let content_bytes: u64 = match value.kind() {
        ValueKind::String => value.as_str().map_or(0, |text| text.len() as u64),
        ValueKind::Seq => items(value).map(|item| bytes(&item)).sum(),
        ValueKind::Map => pairs(value).map(|(key, value)| bytes(&key) + bytes(&value)).sum(),
        _ => 0,
    };
    VALUE_BYTES + content_bytes
}

fn any_string(value: &Value, test: &impl Fn(&str) -> bool) -> bool {
    match value.kind() {
        ValueKind::String => value.as_str().is_some_and(test),
        ValueKind::Seq => items(value).any(|item| any_string(&item, test)),
        ValueKind::Map => pairs(value).any(|(key, value)| any_string(&key, test) || any_string(&value, test)),
        _ => false,
    }
}

/// See [`Chat::map_strings`].
fn map_value(value: &Value, is_read: &impl Fn(&str) -> bool, change: &impl Fn(&str) -> String) -> Value {
    match value.kind() {
        ValueKind::String => value
            .as_str()
            .map_or_else(|| value.clone(), |text| Value::from(change(text))),
        ValueKind::Seq => items(value).map(|item| map_value(&item, is_read, change)).collect(),
        ValueKind::Map => Value::from_pairs(pairs(value).map(|(key, value)| {
            let keeps_value = matches!(key.as_str(), Some("role" | "type")) && is_role_or_type(&value);
            let value = if keeps_value {
                value
            } else {
                map_value(&value, is_read, change)
            };
            let keeps_key = key.as_str().is_some_and(|key| is_word(key) && is_read(key));
            let key = if keeps_key {
                key
            } else {
                map_value(&key, is_read, change)
            };
            (key, value)
        })),
        _ => value.clone(),
    }
}

/// Whether a value is a known role of a message, or type of a part, a tool or an argument.
/// Templates compare with these.
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

/// Whether a string has the form of a field name.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_part_of_word)
}

/// Whether field names may contain a character.
pub(super) fn is_part_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

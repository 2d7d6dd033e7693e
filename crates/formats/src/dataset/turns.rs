//! Conversations in the OpenAI format (`{role, content}`) and the ShareGPT format
//! (`{from, value}`).

use super::broken_line::BrokenReason;
use super::json_value::{self, Budget};
use super::shortened;
use crate::chat_template::{Message, Role};
use serde_json::Value;

/// Whether an object is a turn of a conversation. `has_key` reports whether it has a key.
pub(super) fn is_turn(has_key: impl Fn(&str) -> bool) -> bool {
    (has_key("role") && has_key("content")) || (has_key("from") && has_key("value"))
}

/// Whether a value is a conversation.
pub(super) fn is_conversation(value: &Value) -> bool {
    let Value::Array(turns) = value else {
        return false;
    };
    matches!(turns.first(), Some(Value::Object(turn)) if is_turn(|key| turn.contains_key(key)))
}

/// Whether a conversation is in ShareGPT format.
pub(super) fn is_share_gpt(value: &Value) -> bool {
    value.get(0).is_some_and(|turn| turn.get("from").is_some())
}

/// Whether a conversation has an answer with the model's thoughts beside its text.
pub(super) fn has_thoughts(conversation: &Value) -> bool {
    let has_thought = |turn: &Value| {
        ["reasoning_content", "reasoning", "thinking"]
            .iter()
            .filter_map(|key| turn.get(key)?.as_str())
            .any(|thought| !thought.trim().is_empty())
    };
    conversation
        .as_array()
        .is_some_and(|turns| turns.iter().any(has_thought))
}

/// Converts a conversation to messages.
///
/// # Errors
/// The reason that its line cannot be read.
pub(super) fn conversation(value: Value) -> Result<Vec<Message>, BrokenReason> {
    let turns = match value {
        Value::Array(turns) => turns,
        // Tables contain conversations as JSON text.
        Value::String(text) => match json_value::parse(&text, &Budget::new()) {
            Some(Value::Array(turns)) => turns,
            _ => return Err(BrokenReason::ConversationIsText),
        },
        _ => return Err(BrokenReason::NotConversation),
    };
    turns
        .into_iter()
        .zip(1..)
        .map(|(turn, number)| message(turn, number))
        .collect()
}

fn message(value: Value, turn: u32) -> Result<Message, BrokenReason> {
    let Value::Object(mut fields) = value else {
        return Err(BrokenReason::TurnNotObject { turn });
    };
    let speaker = fields.remove("role").or_else(|| fields.remove("from"));
    let Some(Value::String(speaker)) = speaker else {
        return Err(BrokenReason::TurnWithoutRole { turn });
    };
    let role = role(&speaker).ok_or_else(|| unsupported_role(turn, &speaker))?;
    let calls_tools = ["tool_calls", "function_call"]
        .iter()
        .any(|key| fields.get(*key).is_some_and(|calls| !is_empty(calls)));
    if calls_tools {
        return Err(BrokenReason::ToolCall { turn });
    }
    let content = match fields.remove("content").or_else(|| fields.remove("value")) {
        Some(Value::String(text)) => text,
        Some(Value::Null) => String::new(),
        Some(Value::Array(parts)) => text_of_parts(&parts).ok_or(BrokenReason::TurnNotText { turn })?,
        _ => return Err(BrokenReason::TurnWithoutText { turn }),
    };
    Ok(Message { role, content })
}

/// The reason for refusing a turn of this speaker.
fn unsupported_role(turn: u32, speaker: &str) -> BrokenReason {
    let role = shortened(speaker).into_owned();
    match speaker.to_ascii_lowercase().as_str() {
        "tool" | "function" | "function_call" | "function_response" | "observation" | "ipython" | "tool_call"
        | "tool_response" => BrokenReason::ToolRole { turn, role },
        _ => BrokenReason::UnknownRole { turn, role },
    }
}

/// Whether a value is null or empty: many exports write `"tool_calls": []` into each turn.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The role of a speaker, by its common names.
fn role(name: &str) -> Option<Role> {
    Some(match name.trim().to_ascii_lowercase().as_str() {
        "system" | "developer" => Role::System,
        "user" | "human" | "person" | "prompter" | "customer" => Role::User,
        "assistant" | "gpt" | "bot" | "model" | "ai" | "chatgpt" | "chatbot" | "bard" | "bing" => Role::Assistant,
        _ => return None,
    })
}

/// The text of content parts; `None` if a part is not text.
fn text_of_parts(parts: &[Value]) -> Option<String> {
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part.get("text")?.as_str()).collect();
    texts.map(|texts| texts.join("\n"))
}

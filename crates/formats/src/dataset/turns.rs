//! Conversations in the OpenAI format (`{role, content}`) and the ShareGPT format
//! (`{from, value}`).

use super::json_value::{self, Budget};
use super::shortened;
use crate::chat_template::{Message, Role};
use serde_json::Value;

/// Whether an object with these keys is a turn of a conversation.
pub(super) fn is_turn(has: impl Fn(&str) -> bool) -> bool {
    (has("role") && has("content")) || (has("from") && has("value"))
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
    let thinks = |turn: &Value| {
        ["reasoning_content", "reasoning", "thinking"]
            .iter()
            .filter_map(|key| turn.get(key)?.as_str())
            .any(|thought| !thought.trim().is_empty())
    };
    conversation.as_array().is_some_and(|turns| turns.iter().any(thinks))
}

/// Converts a conversation to messages.
///
/// # Errors
/// The reason, as part of a sentence about its line.
pub(super) fn conversation(value: Value) -> Result<Vec<Message>, String> {
    let turns = match value {
        Value::Array(turns) => turns,
        // Tables contain conversations as JSON text.
        Value::String(text) => match json_value::parse(&text, &Budget::new()) {
            Some(Value::Array(turns)) => turns,
            _ => return Err("its conversation is a text, not a list of turns.".to_owned()),
        },
        _ => return Err("its conversation is not a list of turns.".to_owned()),
    };
    turns
        .into_iter()
        .zip(1..)
        .map(|(turn, number)| message(turn, number))
        .collect()
}

fn message(turn: Value, number: usize) -> Result<Message, String> {
    let Value::Object(mut turn) = turn else {
        return Err(format!("its turn {number} is not an object with 'role' and 'content'."));
    };
    let speaker = turn.remove("role").or_else(|| turn.remove("from"));
    let Some(Value::String(speaker)) = speaker else {
        return Err(format!("its turn {number} has no role: 'role' is missing."));
    };
    let role = role(&speaker).ok_or_else(|| match speaker.to_ascii_lowercase().as_str() {
        "tool" | "function" | "function_call" | "function_response" | "observation" | "ipython" | "tool_call"
        | "tool_response" => {
            format!(
                "its turn {number} has the role '{}', but Hearth does not support training on tool calls yet.",
                shortened(&speaker)
            )
        }
        _ => format!(
            "its turn {number} has the role '{}' instead of system, user or assistant.",
            shortened(&speaker)
        ),
    })?;
    let calls_tools = ["tool_calls", "function_call"]
        .iter()
        .any(|key| turn.get(*key).is_some_and(|calls| !is_empty(calls)));
    if calls_tools {
        return Err(format!(
            "its turn {number} calls a tool, but Hearth does not support training on tool calls yet."
        ));
    }
    let content = match turn.remove("content").or_else(|| turn.remove("value")) {
        Some(Value::String(text)) => text,
        Some(Value::Null) => String::new(),
        Some(Value::Array(parts)) => text_of_parts(&parts)
            .ok_or_else(|| format!("its turn {number} contains something other than text, such as an image."))?,
        _ => {
            return Err(format!(
                "its turn {number} has no text: 'content' is missing or not a text."
            ));
        }
    };
    Ok(Message { role, content })
}

/// Whether a value stands for nothing: many exports write `"tool_calls": []` into each turn.
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

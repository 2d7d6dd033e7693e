//! `messages` of OpenAI's API: objects with a list of `{ "role": …, "content": … }`, or the list
//! alone.

use super::{
    json::Json,
    text::{placeholder, text, thinking},
    time::time,
    tree::ImportedConversation,
};
use hearth_protocol::{Part, Role};
use std::borrow::Borrow;

pub(super) fn is(value: &Json) -> bool {
    is_list(value.get("messages"))
}

/// Whether a value is a list of messages.
pub(super) fn is_list(value: &Json) -> bool {
    value.items().first().is_some_and(is_message)
}

/// Whether a value is a single message, as in a list that is one conversation.
pub(super) fn is_message(value: &Json) -> bool {
    let has_role = matches!(
        value.text("role"),
        Some("system" | "developer" | "user" | "assistant" | "tool" | "function")
    );
    has_role
        && value
            .entries()
            .iter()
            .any(|(key, _)| key == "content" || key == "tool_calls")
}

pub(super) fn read(value: &Json) -> ImportedConversation {
    let mut conversation = read_list(value.list("messages"));
    conversation.id = value.id("id").unwrap_or_default().into_owned();
    conversation.title = value.text("title").or(value.text("name")).map(str::to_owned);
    conversation.model = value.text("model").map(str::to_owned);
    conversation.created_at = time(value.get("created")).or_else(|| time(value.get("created_at")));
    conversation.updated_at = time(value.get("updated_at"));
    conversation
}

pub(super) fn read_list(messages: &[impl Borrow<Json>]) -> ImportedConversation {
    let mut conversation = ImportedConversation::default();
    for message in messages {
        let message = message.borrow();
        let role = match message.text("role") {
            Some("assistant") => Role::Assistant,
            Some("system" | "developer") => Role::System,
            _ => Role::User,
        };
        let parts = match message.text("role") {
            Some("tool" | "function") => tool_result(message),
            _ => parts(message),
        };
        let added = conversation.push(role, parts);
        added.created_at = time(message.get("created_at")).or_else(|| time(message.get("timestamp")));
        added.model = message
            .text("model")
            .filter(|_| role == Role::Assistant)
            .map(str::to_owned);
    }
    conversation
}

fn parts(message: &Json) -> Vec<Part> {
    let thought = message.text("reasoning_content").or(message.text("reasoning"));
    let mut parts: Vec<Part> = thought.and_then(thinking).into_iter().collect();
    parts.extend(content_parts(message.get("content")));
    for call in message.list("tool_calls") {
        let function = call.get("function");
        let arguments = function.get("arguments");
        let parsed = arguments.as_text().and_then(|text| serde_json::from_str(text).ok());
        parts.push(Part::ToolCall {
            id: call.text("id").unwrap_or_default().to_owned(),
            name: function.text("name").unwrap_or("tool").to_owned(),
            arguments: parsed.unwrap_or_else(|| arguments.to_value()),
        });
    }
    parts
}

fn content_parts(content: &Json) -> Vec<Part> {
    match content {
        Json::Text(content) => text(content).into_iter().collect(),
        content => content.items().iter().filter_map(item).collect(),
    }
}

fn item(item: &Json) -> Option<Part> {
    match (item.text("type").unwrap_or("text"), item.text("text")) {
        (_, Some(content)) => text(content),
        ("image_url" | "image" | "input_image", None) => {
            let url = item.get("image_url");
            Some(placeholder(
                "Image",
                url.as_text().or(url.text("url")).unwrap_or_default(),
            ))
        }
        (kind, None) => Some(placeholder(kind, "")),
    }
}

fn tool_result(message: &Json) -> Vec<Part> {
    let text = hearth_protocol::text_of(&content_parts(message.get("content")));
    vec![Part::ToolResult {
        id: message.text("tool_call_id").unwrap_or_default().to_owned(),
        name: message.text("name").unwrap_or("tool").to_owned(),
        text,
    }]
}

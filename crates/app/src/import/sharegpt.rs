//! ShareGPT: objects with `conversations` (or `items`), a list of `{ "from": …, "value": … }`.

use super::{
    json::Json,
    text::{placeholder, text, thinking},
    tree::ImportedConversation,
};
use hearth_protocol::{Part, Role};

pub(super) fn is(value: &Json) -> bool {
    turns(value).first().is_some_and(|turn| turn.text("from").is_some())
        || (value.get("conversations").is_list() && value.list("conversations").is_empty())
}

fn turns(value: &Json) -> &[Json] {
    match value.list("conversations") {
        [] => value.list("items"),
        turns => turns,
    }
}

pub(super) fn read(value: &Json) -> ImportedConversation {
    let mut conversation = ImportedConversation {
        id: value.id("id").unwrap_or_default().into_owned(),
        title: value.text("title").map(str::to_owned),
        model: value.text("model").map(str::to_owned),
        ..ImportedConversation::default()
    };
    conversation.system.add(value.text("system").unwrap_or_default());
    for turn in turns(value) {
        let value = turn.text("value").or(turn.text("text")).unwrap_or_default();
        let (role, part) = match turn.text("from").unwrap_or_default() {
            "human" | "user" => (Role::User, text(value)),
            "system" => (Role::System, text(value)),
            "function_call" => (Role::Assistant, tool_call(value)),
            "observation" | "tool" => (Role::User, tool_result(value)),
            _ => (Role::Assistant, text(value)),
        };
        let thought = turn.text("reasoning").and_then(thinking);
        let mut parts: Vec<Part> = thought.into_iter().chain(part).collect();
        if turn.get("image").as_text().is_some() {
            parts.push(placeholder("Image", turn.text("image").unwrap_or_default()));
        }
        conversation.push(role, parts);
    }
    conversation
}

fn tool_call(text: &str) -> Option<Part> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(Part::ToolCall {
        id: String::new(),
        name: value["name"].as_str().unwrap_or("tool").to_owned(),
        arguments: value.get("arguments").cloned().unwrap_or(value),
    })
}

fn tool_result(text: &str) -> Option<Part> {
    (!text.trim().is_empty()).then(|| Part::ToolResult {
        id: String::new(),
        name: "tool".to_owned(),
        text: text.to_owned(),
    })
}

//! LM Studio: a `*.conversation.json` per conversation; every message has versions, of which one is
//! selected.

use super::{
    json::Json,
    text::{placeholder, text, thinking},
    time::time,
    tree::{ImportedConversation, ImportedMessage},
};
use hearth_protocol::{Part, Role};

pub(super) fn is(value: &Json) -> bool {
    let messages = value.get("messages");
    messages.is_list()
        && match messages.items().first() {
            Some(message) => message.get("versions").is_list(),
            // An empty conversation.
            None => value
                .entries()
                .iter()
                .any(|(key, _)| key == "usePerChatPredictionConfig" || key == "clientInput"),
        }
}

/// Reads a conversation. `name` is the file name, whose number identifies the conversation.
pub(super) fn read(value: &Json, name: &str) -> ImportedConversation {
    let mut conversation = ImportedConversation {
        id: name.trim_end_matches(".conversation.json").to_owned(),
        title: value.text("name").map(str::to_owned),
        created_at: time(value.get("createdAt")),
        updated_at: time(value.get("assistantLastMessagedAt")).or_else(|| time(value.get("userLastMessagedAt"))),
        model: value.get("lastUsedModel").text("identifier").map(str::to_owned),
        ..ImportedConversation::default()
    };
    conversation.system.add(value.text("systemPrompt").unwrap_or_default());
    for field in value.get("perChatPredictionConfig").list("fields") {
        if field.text("key") == Some("llm.prediction.systemPrompt") {
            conversation.system.add(field.text("value").unwrap_or_default());
        }
    }
    let mut parent: Option<String> = None;
    for (index, message) in value.list("messages").iter().enumerate() {
        let selected = message.get("currentlySelected").as_number().unwrap_or(0.0) as usize;
        let mut next = None;
        for (number, version) in message.list("versions").iter().enumerate() {
            let id = format!("{index}.{number}");
            if number == selected || next.is_none() {
                next = Some(id.clone());
            }
            conversation.messages.push(read_version(version, id, parent.clone()));
        }
        parent = next.or(parent);
    }
    conversation.current = parent;
    conversation
}

fn read_version(version: &Json, id: String, parent: Option<String>) -> ImportedMessage {
    let role = match version.text("role") {
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::User,
    };
    let mut parts: Vec<Part> = version.list("content").iter().filter_map(part).collect();
    for step in version.list("steps") {
        let step_items = step.list("content").iter();
        match step.get("style").text("type") {
            Some("thinking") => {
                parts.extend(step_items.filter_map(|item| item.text("text")).filter_map(thinking));
            }
            _ => parts.extend(step_items.filter_map(part)),
        }
    }
    ImportedMessage {
        model: version.get("senderInfo").text("senderName").map(str::to_owned),
        ..ImportedMessage::new(id, parent, role, parts)
    }
}

fn part(item: &Json) -> Option<Part> {
    let name = || item.text("name").or(item.text("fileIdentifier")).unwrap_or_default();
    match item.text("type")? {
        "text" => text(item.text("text")?),
        "file" if item.text("fileType") == Some("image") => Some(placeholder("Image", name())),
        "file" => Some(placeholder("File", name())),
        "toolCallRequest" => Some(Part::ToolCall {
            id: item.id("callId").unwrap_or_default().into_owned(),
            name: item.text("name").unwrap_or("tool").to_owned(),
            arguments: item.get("parameters").to_value(),
        }),
        "toolCallResult" => Some(Part::ToolResult {
            id: item
                .id("toolCallId")
                .or(item.id("callId"))
                .unwrap_or_default()
                .into_owned(),
            name: item.text("name").unwrap_or("tool").to_owned(),
            text: item.text("content").unwrap_or_default().to_owned(),
        }),
        _ => item.text("text").and_then(text),
    }
}

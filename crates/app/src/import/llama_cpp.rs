//! llama.cpp's UI: one or more of `{ "conv": …, "messages": [ … ] }`, a tree of messages.

use super::{
    json::Json,
    text::{placeholder, text, thinking},
    time::time,
    tree::{ImportedConversation, ImportedMessage},
};
use hearth_protocol::{Part, Role};

pub(super) fn is(value: &Json) -> bool {
    value.get("conv").is_object() && value.get("messages").is_list()
}

pub(super) fn read(value: &Json) -> ImportedConversation {
    let metadata = value.get("conv");
    let mut conversation = ImportedConversation {
        id: metadata.id("id").unwrap_or_default().into_owned(),
        title: metadata.text("name").map(str::to_owned),
        updated_at: time(metadata.get("lastModified")),
        current: metadata.id("currNode").map(|id| id.into_owned()),
        ..ImportedConversation::default()
    };
    for message in value.list("messages") {
        let role = match message.text("role") {
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            _ => Role::User,
        };
        let id = message.id("id").unwrap_or_default();
        let parent = message
            .id("parent")
            .filter(|parent| *parent != "-1")
            .map(|id| id.into_owned());
        conversation.messages.push(ImportedMessage {
            created_at: time(message.get("timestamp")),
            model: message
                .text("model")
                .filter(|_| role == Role::Assistant)
                .map(str::to_owned),
            ..ImportedMessage::new(id, parent, role, parts(message))
        });
    }
    conversation
}

fn parts(message: &Json) -> Vec<Part> {
    let mut parts: Vec<Part> = message.list("extra").iter().map(extra).collect();
    let thought = message.text("reasoningContent").or(message.text("thinking"));
    parts.extend(thought.and_then(thinking));
    parts.extend(message.text("content").and_then(text));
    parts
}

fn extra(extra: &Json) -> Part {
    let name = extra.text("name").unwrap_or_default();
    let kind = extra.text("type").unwrap_or_default().to_ascii_lowercase();
    match (extra.text("content"), kind.as_str()) {
        (Some(text), _) => Part::File {
            name: name.to_owned(),
            media_type: "text/plain".to_owned(),
            text: text.to_owned(),
        },
        (None, kind) if kind.starts_with("image") => placeholder("Image", name),
        _ => placeholder("File", name),
    }
}

//! Jan: a folder per thread with `thread.json` and `messages.jsonl`.

use super::{
    json::Json,
    text::{placeholder, text, thinking},
    time::time,
    tree::ImportedConversation,
};
use crate::title;
use hearth_protocol::{Part, Role};

pub(super) fn is_thread(value: &Json) -> bool {
    value.text("object") == Some("thread") || (value.get("assistants").is_list() && value.text("id").is_some())
}

pub(super) fn is_message(value: &Json) -> bool {
    value.text("object") == Some("thread.message")
        || (value.text("thread_id").is_some() && value.get("content").is_list() && value.text("role").is_some())
}

/// Reads a thread and its messages. `thread` is [`Json::Null`] if the export has only messages.
pub(super) fn read(thread: &Json, messages: &[Json]) -> ImportedConversation {
    let assistant = thread.list("assistants").first().unwrap_or(&Json::Null);
    let id = thread
        .text("id")
        .or_else(|| messages.iter().find_map(|message| message.text("thread_id")));
    let mut conversation = ImportedConversation {
        id: id.unwrap_or_default().to_owned(),
        title: thread
            .text("title")
            .or(thread.get("metadata").text("title"))
            .map(str::to_owned),
        created_at: time(thread.get("created")).or_else(|| time(thread.get("created_at"))),
        updated_at: time(thread.get("updated")).or_else(|| time(thread.get("updated_at"))),
        model: assistant
            .get("model")
            .text("id")
            .or(thread.get("model").text("id"))
            // Shortened, because every message gets a copy.
            .and_then(title::normalized),
        ..ImportedConversation::default()
    };
    conversation
        .system
        .add(assistant.text("instructions").unwrap_or_default());
    for message in messages {
        let role = match message.text("role") {
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            _ => Role::User,
        };
        let model = message.get("metadata").text("modelId").or(message.text("model"));
        let model = model.map(str::to_owned).or_else(|| conversation.model.clone());
        let added = conversation.push(role, message.list("content").iter().filter_map(part).collect());
        added.created_at = time(message.get("created_at"));
        added.model = model.filter(|_| role == Role::Assistant);
    }
    conversation
}

fn part(item: &Json) -> Option<Part> {
    let value = item.get("text");
    let content = value.as_text().or(value.text("value"));
    match item.text("type").unwrap_or("text") {
        "reasoning" => thinking(content?),
        "image_url" => Some(placeholder(
            "Image",
            item.get("image_url").text("url").unwrap_or_default(),
        )),
        _ => text(content?),
    }
}

//! The format of Open WebUI: a list of chats, each with a tree of messages in `chat.history`.

use super::{
    json::Json,
    text::{placeholder, text, thinking},
    time::time,
    tree::{ImportedConversation, ImportedMessage},
};
use crate::wire::Thumb;
use hearth_protocol::{Part, Role};

pub(super) fn is(value: &Json) -> bool {
    let chat = chat(value);
    chat.get("history").get("messages").is_object()
}

/// The chat object of an export, with or without the database row around it.
fn chat(value: &Json) -> &Json {
    match value.get("chat") {
        chat if chat.is_object() => chat,
        _ => value,
    }
}

pub(super) fn read(value: &Json) -> ImportedConversation {
    let chat = chat(value);
    let history = chat.get("history");
    let model = chat.list("models").first().and_then(Json::as_text);
    let mut conversation = ImportedConversation {
        id: value.text("id").or(chat.text("id")).unwrap_or_default().to_owned(),
        title: value.text("title").or(chat.text("title")).map(str::to_owned),
        created_at: time(value.get("created_at")).or_else(|| time(chat.get("timestamp"))),
        updated_at: time(value.get("updated_at")),
        model: model.map(str::to_owned),
        current: history.text("currentId").map(str::to_owned),
        ..ImportedConversation::default()
    };
    conversation.system.add(
        chat.get("params")
            .text("system")
            .or(chat.text("system"))
            .unwrap_or_default(),
    );
    for (id, message) in history.get("messages").entries() {
        conversation.messages.push(read_message(id, message));
    }
    conversation
}

fn read_message(id: &str, message: &Json) -> ImportedMessage {
    let role = match message.text("role") {
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::User,
    };
    let mut parts: Vec<Part> = message.list("files").iter().map(file).collect();
    parts.extend(message.text("reasoning_content").and_then(thinking));
    match message.get("content") {
        Json::Text(content) => parts.extend(text(content)),
        content => parts.extend(content.items().iter().filter_map(|item| text(item.text("text")?))),
    }
    let model = message.text("modelName").or(message.text("model"));
    let rating = message.get("annotation").get("rating").as_number();
    ImportedMessage {
        created_at: time(message.get("timestamp")),
        model: model.filter(|_| role == Role::Assistant).map(str::to_owned),
        thumb: rating.filter(|_| role == Role::Assistant).and_then(thumb),
        ..ImportedMessage::new(id, message.text("parentId").map(str::to_owned), role, parts)
    }
}

fn thumb(rating: f64) -> Option<Thumb> {
    match rating {
        1.0 => Some(Thumb::Up),
        -1.0 => Some(Thumb::Down),
        _ => None,
    }
}

fn file(file: &Json) -> Part {
    let stored = file.get("file");
    let name = file.text("name").or(stored.text("filename")).unwrap_or_default();
    let content = stored.get("data").text("content").or(file.text("content"));
    match (file.text("type"), content) {
        (Some("image"), _) => placeholder("Image", name),
        (_, Some(text)) => Part::File {
            name: name.to_owned(),
            media_type: "text/plain".to_owned(),
            text: text.to_owned(),
        },
        _ => placeholder("File", name),
    }
}

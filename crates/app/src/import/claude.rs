//! Claude: `conversations.json` of a data export, a list of conversations with `chat_messages`.

use super::{
    json::Json,
    text::{placeholder, text, thinking},
    time::time,
    tree::{ImportedConversation, ImportedMessage},
};
use hearth_protocol::{Part, Role};

/// The parent of first messages.
const ROOT: &str = "00000000-0000-4000-8000-000000000000";

pub(super) fn is(value: &Json) -> bool {
    value.get("chat_messages").is_list()
}

pub(super) fn read(value: &Json) -> ImportedConversation {
    let messages = value.list("chat_messages");
    let mut conversation = ImportedConversation {
        id: value.text("uuid").unwrap_or_default().to_owned(),
        title: value.text("name").map(str::to_owned),
        created_at: time(value.get("created_at")),
        updated_at: time(value.get("updated_at")),
        model: value.text("model").map(str::to_owned),
        current: value.text("current_leaf_message_uuid").map(str::to_owned),
        ..ImportedConversation::default()
    };
    // Older exports have no parents: a list.
    let is_tree = messages
        .iter()
        .any(|message| message.text("parent_message_uuid").is_some());
    for message in messages {
        let role = match message.text("sender") {
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        let added = conversation.push(role, parts(message));
        added.created_at = time(message.get("created_at"));
        if is_tree {
            added.id = message.text("uuid").unwrap_or_default().to_owned();
            let parent = message.text("parent_message_uuid").filter(|parent| *parent != ROOT);
            added.parent = parent.map(str::to_owned);
        }
    }
    conversation.current = conversation
        .current
        .filter(|_| is_tree)
        .or_else(|| newest(&conversation.messages));
    conversation
}

/// Id of the newest message. Its branch is selected if the export selects none.
fn newest(messages: &[ImportedMessage]) -> Option<String> {
    let newest = messages
        .iter()
        .enumerate()
        .max_by_key(|(at, message)| (message.created_at, *at));
    newest.map(|(_, message)| message.id.clone())
}

fn parts(message: &Json) -> Vec<Part> {
    let mut parts: Vec<Part> = attachments(message).collect();
    let content = message.list("content");
    let before = parts.len();
    parts.extend(content.iter().filter_map(part));
    // Older exports have no content, or an empty one.
    if parts.len() == before {
        parts.extend(message.text("text").and_then(text));
    }
    parts
}

fn attachments(message: &Json) -> impl Iterator<Item = Part> {
    let pasted = message.list("attachments").iter().map(|file| {
        let name = file.text("file_name").unwrap_or("pasted.txt");
        match file.text("extracted_content") {
            Some(text) => Part::File {
                name: name.to_owned(),
                media_type: "text/plain".to_owned(),
                text: text.to_owned(),
            },
            None => placeholder("File", name),
        }
    });
    let files = message.list("files").iter();
    pasted.chain(files.map(|file| placeholder("File", file.text("file_name").unwrap_or_default())))
}

fn part(block: &Json) -> Option<Part> {
    let owned = |key: &str| block.text(key).unwrap_or_default().to_owned();
    match block.text("type")? {
        "text" => text(block.text("text")?),
        "thinking" => thinking(block.text("thinking")?),
        "tool_use" => Some(Part::ToolCall {
            id: owned("id"),
            name: owned("name"),
            arguments: block.get("input").to_value(),
        }),
        "tool_result" => Some(Part::ToolResult {
            id: owned("tool_use_id"),
            name: owned("name"),
            text: result(block.get("content")),
        }),
        "image" => Some(placeholder("Image", block.text("file_name").unwrap_or_default())),
        // Signs of a limit and the like.
        _ => block.text("text").and_then(text),
    }
}

fn result(content: &Json) -> String {
    match content {
        Json::Text(text) => text.clone(),
        content => {
            let texts: Vec<&str> = content.items().iter().filter_map(|item| item.text("text")).collect();
            texts.join("\n\n")
        }
    }
}

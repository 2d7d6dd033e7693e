//! ChatGPT: `conversations.json` of a data export, a list of conversations with a `mapping` of
//! nodes.

use super::{
    json::Json,
    text::{placeholder, text, thinking},
    time::time,
    tree::{ImportedConversation, ImportedMessage},
};
use hearth_formats::fence;
use hearth_protocol::{Part, Role};

pub(super) fn is(value: &Json) -> bool {
    value.get("mapping").is_object()
}

pub(super) fn read(value: &Json) -> ImportedConversation {
    let id = value.text("conversation_id").or(value.text("id")).unwrap_or_default();
    let mut conversation = ImportedConversation {
        id: id.to_owned(),
        title: value.text("title").map(str::to_owned),
        created_at: time(value.get("create_time")),
        updated_at: time(value.get("update_time")),
        model: value.text("default_model_slug").map(str::to_owned),
        current: value.text("current_node").map(str::to_owned),
        ..ImportedConversation::default()
    };
    for (id, node) in value.get("mapping").entries() {
        let message = node.get("message");
        let parent = node.text("parent").map(str::to_owned);
        if let Some(instructions) = instructions(message) {
            conversation.system.add(&instructions);
        }
        let (role, parts) = contents(message);
        conversation.messages.push(ImportedMessage {
            created_at: time(message.get("create_time")),
            model: message.get("metadata").text("model_slug").map(str::to_owned),
            ..ImportedMessage::new(id, parent, role, parts)
        });
    }
    conversation
}

/// The user's custom instructions, which are a hidden message.
fn instructions(message: &Json) -> Option<String> {
    let content = message.get("content");
    (content.text("content_type") == Some("user_editable_context")).then(|| {
        let texts = ["user_profile", "user_instructions"].map(|key| content.text(key).unwrap_or_default().trim());
        texts.join("\n\n").trim().to_owned()
    })
}

/// The role and parts of a message. A hidden message has no parts.
fn contents(message: &Json) -> (Role, Vec<Part>) {
    let metadata = message.get("metadata");
    let content = message.get("content");
    let author = message.get("author");
    let kind = content.text("content_type").unwrap_or("text");
    if metadata.get("is_visually_hidden_from_conversation").is_true()
        || matches!(
            kind,
            "user_editable_context" | "model_editable_context" | "reasoning_recap"
        )
    {
        return (Role::System, Vec::new());
    }
    let tool = author.text("name").unwrap_or("tool");
    match author.text("role") {
        Some("user") => (Role::User, with_attachments(metadata, content_parts(content))),
        Some("assistant") => {
            let recipient = message.text("recipient").filter(|recipient| *recipient != "all");
            let parts = match recipient {
                Some(name) => vec![tool_call(message, name, content)],
                None => content_parts(content),
            };
            (Role::Assistant, parts)
        }
        Some("tool") => {
            let parts = content_parts(content);
            let result = Part::ToolResult {
                id: message.text("id").unwrap_or_default().to_owned(),
                name: tool.to_owned(),
                text: hearth_protocol::text_of(&parts),
            };
            (Role::User, if parts.is_empty() { parts } else { vec![result] })
        }
        _ => (Role::System, content_parts(content)),
    }
}

fn tool_call(message: &Json, name: &str, content: &Json) -> Part {
    let text = hearth_protocol::text_of(&content_parts(content));
    Part::ToolCall {
        id: message.text("id").unwrap_or_default().to_owned(),
        name: name.to_owned(),
        arguments: serde_json::from_str(&text).unwrap_or_else(|_| serde_json::json!({ "text": text })),
    }
}

fn content_parts(content: &Json) -> Vec<Part> {
    match content.text("content_type") {
        Some("thoughts") => {
            let thoughts = content.list("thoughts").iter();
            let texts: Vec<String> = thoughts
                .map(|thought| {
                    let pieces = [thought.text("summary"), thought.text("content")];
                    pieces.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
                })
                .collect();
            return thinking(&texts.join("\n\n")).into_iter().collect();
        }
        Some("code") => {
            let language = content.text("language").filter(|language| *language != "unknown");
            return content
                .text("text")
                .and_then(|code| text(&fenced(language, code)))
                .into_iter()
                .collect();
        }
        _ => {}
    }
    let mut parts: Vec<Part> = content.list("parts").iter().filter_map(part).collect();
    for key in ["text", "result"] {
        parts.extend(content.text(key).and_then(text));
    }
    parts
}

fn part(part: &Json) -> Option<Part> {
    match part {
        Json::Text(content) => text(content),
        part => match (part.text("content_type"), part.text("text")) {
            (_, Some(content)) => text(content),
            (Some("image_asset_pointer"), _) => {
                Some(placeholder("Image", part.text("asset_pointer").unwrap_or_default()))
            }
            (Some(kind), _) => Some(placeholder(kind, part.text("asset_pointer").unwrap_or_default())),
            (None, None) => None,
        },
    }
}

fn with_attachments(metadata: &Json, mut parts: Vec<Part>) -> Vec<Part> {
    let is_image = |file: &&Json| {
        let kind = file.text("mimeType").or(file.text("mime_type"));
        kind.is_some_and(|kind| kind.starts_with("image/"))
    };
    // Images are also in the message's parts.
    for file in metadata.list("attachments").iter().filter(|file| !is_image(file)) {
        parts.extend(file.text("name").map(|name| placeholder("File", name)));
    }
    parts
}

/// Fences code, with a fence that is longer than any in the code. Code without a language, and
/// JSON, are a tool call and stay unchanged.
fn fenced(language: Option<&str>, code: &str) -> String {
    match language {
        Some(language) if serde_json::from_str::<serde::de::IgnoredAny>(code).is_err() => {
            let fence = fence::around(code);
            format!("{fence}{language}\n{code}\n{fence}")
        }
        _ => code.to_owned(),
    }
}

//! Hearth's own export, see [`crate::export`].

use super::{
    json::Json,
    system_prompt::SystemPrompt,
    text::placeholder,
    time::time,
    tree::{ImportedConversation, ImportedMessage},
};
use crate::wire;
use hearth_protocol::{Part, Role};
use std::path::{Component, Path};

/// The key that marks a conversation. Its value is the version of the format.
pub(crate) const MARK: &str = "hearthConversation";

/// The first bytes of a conversation in the export. They identify one before it is parsed.
pub(super) const BEGIN: &[u8] = b"{\"hearthConversation\":";

/// The version of the format that the export writes.
pub(crate) const VERSION: u32 = 1;

pub(super) fn is(value: &Json) -> bool {
    value.get(MARK).as_number().is_some()
}

/// Reads a conversation. `data` is the data folder. `None` means that the version is newer, or a
/// message is malformed.
pub(super) fn read(value: &Json, data: &Path) -> Option<ImportedConversation> {
    if value.get(MARK).as_number()? > f64::from(VERSION) {
        return None;
    }
    let mut conversation = ImportedConversation {
        id: value.text("id").unwrap_or_default().to_owned(),
        title: value.text("title").map(str::to_owned),
        created_at: time(value.get("createdAt")),
        updated_at: time(value.get("updatedAt")),
        model: value.text("model").map(str::to_owned),
        system: value.text("systemPrompt").map(SystemPrompt::whole).unwrap_or_default(),
        settings: settings(value.get("settings")),
        current: value.id("leaf").map(|id| id.into_owned()),
        ..ImportedConversation::default()
    };
    for message in value.list("messages") {
        let mut whole = read_message(message)?;
        // Parts may be large, so they are moved.
        let parts = std::mem::take(&mut whole.parts);
        let parts = parts.into_iter().map(|part| without_path(part, data)).collect();
        let imported = ImportedMessage {
            created_at: time(message.get("createdAt")),
            model: whole.model.clone(),
            ..ImportedMessage::new(
                whole.id.to_string(),
                whole.parent.map(|id| id.to_string()),
                whole.role,
                parts,
            )
        };
        conversation.messages.push(ImportedMessage {
            whole: Some(Box::new(whole)),
            ..imported
        });
    }
    Some(conversation)
}

/// The settings of new answers; the defaults if there are none, or one is out of range.
fn settings(value: &Json) -> wire::ConversationSettings {
    let settings: Option<wire::ConversationSettings> = serde_json::from_value(value.to_value()).ok();
    settings.filter(|settings| settings.check().is_ok()).unwrap_or_default()
}

/// Reads a message. Fields that an older Hearth did not write have their defaults.
fn read_message(message: &Json) -> Option<wire::Message> {
    let default = wire::Message {
        id: 0,
        conversation: 0,
        parent: None,
        role: Role::User,
        parts: Vec::new(),
        state: wire::MessageState::Complete,
        created_at: 0,
        model: None,
        stats: None,
        dropped: None,
        adapters: Vec::new(),
        comparison: None,
        better: false,
        rating: None,
        settings: None,
        edited: false,
        overrides: None,
    };
    let mut fields = serde_json::to_value(default).ok()?;
    for (key, value) in message.entries().iter().rev() {
        fields[current_name(key)] = value.to_value();
    }
    serde_json::from_value(fields).ok()
}

/// The current name of a field that an older Hearth wrote under another name.
fn current_name(key: &str) -> &str {
    match key {
        "leftOut" => "dropped",
        "own" => "overrides",
        key => key,
    }
}

/// Replaces an image by a placeholder unless its file is in the data folder: an imported file must
/// not select which files are read.
fn without_path(part: Part, data: &Path) -> Part {
    match part {
        Part::Image { name, path, .. } if !is_inside(&path, data) => placeholder("Image", &name),
        part => part,
    }
}

fn is_inside(path: &Path, data: &Path) -> bool {
    let mut components = path.components();
    path.starts_with(data) && !components.any(|component| component == Component::ParentDir)
}

//! The selected branch of a conversation, and the labels of its messages.

use crate::wire::{Conversation, ExportLabels, Message};
use hearth_protocol::Role;
use jiff::Timestamp;
use std::collections::HashMap;

/// The messages from the first to the selected leaf.
pub(super) fn branch(conversation: &Conversation) -> Vec<&Message> {
    let by_id: HashMap<i64, &Message> = conversation
        .messages
        .iter()
        .map(|message| (message.id, message))
        .collect();
    let last_id = conversation.messages.last().map(|message| message.id);
    let mut next_id = conversation.leaf.or(last_id);
    let mut branch = Vec::new();
    while let Some(message) = next_id.and_then(|id| by_id.get(&id)) {
        branch.push(*message);
        // A parent has a smaller id than its children; a cycle would never end.
        next_id = message.parent.filter(|parent| *parent < message.id);
    }
    branch.reverse();
    branch
}

/// The author of a message.
pub(super) fn author<'a>(message: &'a Message, labels: &'a ExportLabels) -> &'a str {
    match message.role {
        Role::User => &labels.user,
        Role::System => &labels.system,
        Role::Assistant => message.model.as_deref().unwrap_or(&labels.assistant),
    }
}

/// Formats a time in UTC. Empty if it is out of range.
pub(super) fn format_time(milliseconds: i64) -> String {
    Timestamp::from_millisecond(milliseconds).map_or_else(
        |_| String::new(),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

//! The selected branch of a conversation, and the labels of its messages.

use crate::wire::{Conversation, Message};
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
    let last = conversation.messages.last().map(|message| message.id);
    let mut at = conversation.leaf.or(last);
    let mut branch = Vec::new();
    while let Some(message) = at.and_then(|id| by_id.get(&id)) {
        branch.push(*message);
        // A parent is older than its children, so that this ends.
        at = message.parent.filter(|parent| *parent < message.id);
    }
    branch.reverse();
    branch
}

/// The author of a message.
pub(super) fn author(message: &Message) -> &str {
    match message.role {
        Role::User => "You",
        Role::System => "System",
        Role::Assistant => message.model.as_deref().unwrap_or("Assistant"),
    }
}

/// A time in readable form, in UTC.
pub(super) fn time(milliseconds: i64) -> String {
    Timestamp::from_millisecond(milliseconds).map_or_else(
        |_| String::new(),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

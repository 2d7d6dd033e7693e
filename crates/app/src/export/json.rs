//! JSON: a list with an object for each conversation, one per line.
//!
//! `hearthConversation` is the version, `id` identifies the conversation in every import, `leaf` is
//! the id of the last message of the selected branch, `settings` are the settings of new answers
//! ([`ConversationSettings`]). `messages` are all nodes of the tree, parents before children, as
//! the window gets them ([`Message`]): `id`, `parent` (an id or `null`), `role`, `parts`, `state`,
//! `createdAt` (milliseconds since 1970), `model`, `stats`, `dropped`, `adapters`, `comparison`
//! (the id of the next answer of its comparison, in a ring), `better`, `rating`,
//! `overrides` (the model and preset that were not the conversation's).

use crate::{
    import::hearth::VERSION,
    wire::{Conversation, ConversationSettings, Message},
};
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversationJson<'a> {
    hearth_conversation: u32,
    id: &'a str,
    title: &'a str,
    created_at: i64,
    updated_at: i64,
    model: Option<&'a str>,
    system_prompt: Option<&'a str>,
    settings: &'a ConversationSettings,
    leaf: Option<i64>,
    messages: &'a [Message],
}

pub(super) fn begin(out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"[\n")
}

pub(super) fn write(out: &mut impl Write, origin: &str, conversation: &Conversation, is_first: bool) -> io::Result<()> {
    if !is_first {
        out.write_all(b",\n")?;
    }
    let json = ConversationJson {
        hearth_conversation: VERSION,
        id: origin,
        title: &conversation.title,
        created_at: conversation.created_at,
        updated_at: conversation.updated_at,
        model: conversation.model.as_deref(),
        system_prompt: conversation.system_prompt.as_deref(),
        settings: &conversation.settings,
        leaf: conversation.leaf,
        messages: &conversation.messages,
    };
    Ok(serde_json::to_writer(&mut *out, &json)?)
}

pub(super) fn end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"\n]\n")
}

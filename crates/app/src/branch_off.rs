//! Copies a branch into a new conversation.

use crate::{
    App,
    conversations::{busy, no_message},
    shared::Shared,
    store::{
        answer_tokens, conversation, folder,
        message::{self, Message, State},
        now,
        title_source::TitleSource,
    },
    title,
    wire::{self, ConversationSummary, Problem},
};
use rusqlite::Transaction;
use std::collections::HashMap;

impl App {
    /// Copies the messages from the first one to this one into a new conversation with the same
    /// folder, tags, system prompt, settings and adapters. Ratings and votes are not copied, so
    /// that no answer counts twice.
    pub async fn branch_off(&self, message: i64, title: String) -> Result<ConversationSummary, Problem> {
        let title = title::normalized(&title).ok_or_else(title::empty_name)?;
        self.shared
            .blocking(move |shared| branch_off(shared, message, &title))
            .await
    }
}

fn branch_off(shared: &Shared, message: i64, title: &str) -> Result<ConversationSummary, Problem> {
    shared.save_deferred();
    let live = shared.live();
    let id = shared.store.write(|t| copy(t, message, title, &live))??;
    let row = shared.store.read(|t| conversation::get(t, id))?;
    shared.announce_conversation(id)?;
    row.as_ref().map(Into::into).ok_or_else(no_message)
}

/// Copies the branch, and returns the id of the new conversation.
fn copy(
    t: &Transaction<'_>,
    message: i64,
    title: &str,
    live: &HashMap<i64, wire::Message>,
) -> rusqlite::Result<Result<i64, Problem>> {
    let rows = message::branch(t, message)?;
    let source = match rows.last() {
        Some(last) => conversation::get(t, last.conversation)?,
        None => None,
    };
    let Some(source) = source else {
        return Ok(Err(no_message()));
    };
    // The live message is newer than the row if the disk was full.
    let rows: Vec<Message> = rows
        .into_iter()
        .map(|row| live.get(&row.id).map_or(row, Message::from))
        .collect();
    if rows.iter().any(|row| row.state == State::Unfinished) {
        return Ok(Err(busy()));
    }
    let now = now();
    let id = conversation::create(t, title, TitleSource::User, now)?;
    conversation::set_system_prompt(t, id, source.system_prompt.as_deref())?;
    conversation::set_adapters(t, id, source.adapters.as_deref())?;
    conversation::set_settings(t, id, source.settings.as_deref())?;
    folder::put(t, id, source.folder)?;
    folder::set_tags(t, id, &source.tags)?;
    let model = rows.iter().rev().find_map(|row| row.model.clone()).or(source.model);
    let mut parent = None;
    for row in rows {
        let tokens = answer_tokens::get(t, row.id)?;
        let new = Message {
            conversation: id,
            parent,
            comparison: None,
            better: false,
            rating: None,
            ..row
        };
        let new = message::import(t, &new)?;
        if !tokens.is_empty() {
            answer_tokens::set(t, new, &tokens)?;
        }
        parent = Some(new);
    }
    conversation::set_leaf(t, id, parent)?;
    conversation::touch(t, id, model.as_deref(), now)?;
    Ok(Ok(id))
}

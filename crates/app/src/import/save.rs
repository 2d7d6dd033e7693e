//! Saves an imported conversation: a new one, or the new messages of a known one.

use super::{
    identity::{Identity, Key, KnownMessages, key},
    tree::{ImportedConversation, Node, Tree},
};
use crate::{
    conversations::settings_column,
    convert::to_json,
    store::{
        conversation::{self, Imported},
        message::{self, Message, State},
        now,
    },
    title,
    wire::{ComparedAnswer, Rating},
};
use hearth_protocol::{Role, text_of};
use rusqlite::Connection;
use std::{collections::HashMap, iter, mem};

/// The id of a message that is not added. No message has it.
const NOT_ADDED: i64 = 0;

/// The result of importing a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    /// A new conversation.
    New { messages: usize },
    /// New messages of a known conversation.
    Extended { messages: usize },
    /// No new messages.
    Known,
}

/// Saves a conversation from a program (`format`). Must be called in one transaction. Takes the
/// parts of the new messages out of the tree.
pub(super) fn save(
    t: &Connection,
    format: &str,
    conversation: &ImportedConversation,
    tree: &mut Tree,
    messages: &mut KnownMessages,
) -> rusqlite::Result<Saved> {
    messages.begin(t);
    let saved = save_or_extend(t, format, conversation, tree, messages)?;
    messages.end(t);
    Ok(saved)
}

fn save_or_extend(
    t: &Connection,
    format: &str,
    conversation: &ImportedConversation,
    tree: &mut Tree,
    messages: &mut KnownMessages,
) -> rusqlite::Result<Saved> {
    let keys: Vec<Key> = tree
        .nodes
        .iter()
        .map(|node| key(node.message.role, &node.message.parts))
        .collect();
    let Identity { origin, known } = Identity::find(t, format, &conversation.id, tree, &keys, messages)?;
    let id = match &known {
        Some(known) => known.id,
        None => create(t, &origin, conversation, tree)?,
    };
    let mut ids: Vec<i64> = Vec::with_capacity(tree.nodes.len());
    let mut added = Vec::new();
    let existing = messages.existing(t, id)?;
    // For each parent and digest, the number of messages that are matched with nodes of this tree.
    let mut matched: HashMap<(Option<i64>, Key), usize> = HashMap::new();
    for (node, key) in tree.nodes.iter_mut().zip(keys) {
        let parent = node.parent.map(|at| ids[at]);
        let count = matched.entry((parent, key)).or_default();
        let message_id = existing
            .by_place
            .get(&(parent, key))
            .and_then(|equal| equal.get(*count))
            .copied();
        *count += 1;
        // Neither a deleted conversation nor a deleted message gets new messages.
        let is_deleted = known.as_ref().is_some_and(|known| known.deleted)
            || parent.is_some_and(|parent| parent == NOT_ADDED || existing.deleted.contains(&parent));
        let message_id = message_id.or_else(|| is_deleted.then_some(NOT_ADDED));
        ids.push(match message_id {
            Some(message_id) => message_id,
            None => {
                let new = message::import(t, &row(id, parent, node, conversation))?;
                added.push(new);
                existing.by_place.entry((parent, key)).or_default().push(new);
                new
            }
        });
    }
    messages.added(added.len());
    link_comparisons(t, tree, &ids, &added)?;
    select(t, id, known.as_ref().and_then(|known| known.leaf), tree, &ids, &added)?;
    if known.is_some()
        && !added.is_empty()
        && let Some(last) = last_time(conversation, tree)
    {
        conversation::touch_imported(t, id, last)?;
    }
    Ok(match (known, added.len()) {
        (None, messages) => Saved::New { messages },
        (Some(_), 0) => Saved::Known,
        (Some(_), messages) => Saved::Extended { messages },
    })
}

fn create(t: &Connection, origin: &str, conversation: &ImportedConversation, tree: &Tree) -> rusqlite::Result<i64> {
    let first_time = tree.nodes.iter().filter_map(|node| node.message.created_at).min();
    let last_time = last_time(conversation, tree);
    let created_at = conversation.created_at.or(first_time).or(last_time).unwrap_or_else(now);
    let updated_at = last_time.unwrap_or(created_at).max(created_at);
    let first_message = tree.nodes.iter().find(|node| node.message.role == Role::User);
    let imported_title = conversation.title.as_deref().and_then(title::normalized);
    let title = imported_title.unwrap_or_else(|| {
        title::from_text(&first_message.map_or_else(String::new, |node| text_of(&node.message.parts)))
    });
    let last_model = tree.nodes.iter().rev().find_map(|node| node.message.model.as_deref());
    conversation::import(
        t,
        &Imported {
            title: &title,
            created_at,
            updated_at,
            model: conversation.model.as_deref().or(last_model),
            system_prompt: conversation.system.text(),
            settings: settings_column(&conversation.settings).as_deref(),
            origin,
        },
    )
}

/// The time of the last message.
fn last_time(conversation: &ImportedConversation, tree: &Tree) -> Option<i64> {
    let newest = tree.nodes.iter().filter_map(|node| node.message.created_at).max();
    conversation.updated_at.or(newest)
}

/// The row of a message, with its parts.
fn row(conversation: i64, parent: Option<i64>, node: &mut Node, imported: &ImportedConversation) -> Message {
    let parts = mem::take(&mut node.message.parts);
    let message = &node.message;
    let created_at = message.created_at.or(imported.created_at).or(imported.updated_at);
    let created_at = created_at.unwrap_or_else(now);
    if let Some(whole) = &message.whole {
        let row = Message::from(&**whole);
        return Message {
            id: 0,
            conversation,
            parent,
            parts,
            created_at,
            comparison: None,
            better: false,
            overrides: whole
                .overrides
                .as_ref()
                .filter(|overrides| overrides.check().is_ok())
                .map(to_json),
            state: match row.state {
                State::Unfinished => State::Stopped,
                state => state,
            },
            ..row
        };
    }
    let rating = message.thumb.map(|thumb| Rating {
        thumb,
        correction: None,
    });
    Message {
        id: 0,
        conversation,
        parent,
        role: message.role,
        parts,
        state: State::Complete,
        created_at,
        model: message.model.clone(),
        stats: None,
        dropped: None,
        adapters: None,
        comparison: None,
        better: false,
        rating: rating.map(|rating| to_json(&rating)),
        settings: None,
        edited: false,
        overrides: None,
    }
}

/// Links the new answers of a Hearth export that were compared.
fn link_comparisons(t: &Connection, tree: &Tree, ids: &[i64], added: &[i64]) -> rusqlite::Result<()> {
    let whole = |at: usize| tree.nodes[at].message.whole.as_deref();
    let by_id: HashMap<i64, usize> = (0..ids.len()).filter_map(|at| Some((whole(at)?.id, at))).collect();
    for at in by_id.values() {
        let next = |at: &usize| by_id.get(&whole(*at)?.comparison?).copied();
        let ring: Vec<usize> = iter::successors(Some(*at), |at| next(at).filter(|next| next > at))
            .take(ComparedAnswer::MAX + 1)
            .collect();
        let parent = tree.nodes[*at].parent;
        let is_new = |at: &usize| {
            let node = &tree.nodes[*at];
            let is_answer = node.parent == parent && node.message.role == Role::Assistant;
            is_answer && added.binary_search(&ids[*at]).is_ok()
        };
        // Each ring is linked once, from its first answer.
        let is_closed = ring.last().and_then(next) == Some(*at);
        if (2..=ComparedAnswer::MAX).contains(&ring.len()) && is_closed && ring.iter().all(is_new) {
            let better = ring.iter().find(|at| whole(**at).is_some_and(|message| message.better));
            let better = better.map(|at| ids[*at]);
            let ring: Vec<i64> = ring.iter().map(|at| ids[*at]).collect();
            message::set_compared(t, &ring)?;
            if let Some(better) = better {
                message::vote(t, &ring, better, true)?;
            }
        }
    }
    Ok(())
}

/// Selects the branch. A new conversation gets the branch that the export selects, else the newest.
/// A known one gets the branch that the export selects if it continues the selected branch. If the
/// export selects none, the selected branch is continued.
fn select(t: &Connection, id: i64, leaf: Option<i64>, tree: &Tree, ids: &[i64], added: &[i64]) -> rusqlite::Result<()> {
    if let (Some(leaf), None) = (leaf, tree.current) {
        let leaf = message::newest_leaf(t, leaf)?;
        conversation::set_leaf(t, id, Some(leaf))?;
        return Ok(());
    }
    let Some(at) = tree.current.or(ids.len().checked_sub(1)) else {
        return Ok(());
    };
    if added.binary_search(&ids[at]).is_err() {
        return Ok(());
    }
    let mut branch = iter::successors(Some(at), |at| tree.nodes[*at].parent);
    if leaf.is_none_or(|leaf| branch.any(|at| ids[at] == leaf)) {
        let leaf = message::newest_leaf(t, ids[at])?;
        conversation::set_leaf(t, id, Some(leaf))?;
    }
    Ok(())
}

//! Deleted messages: rows moved out of the table `message`, so that no query of messages and no
//! search sees them. They are restored or purged later, and are removed with their conversation.
//! A backup includes them, as it includes deleted conversations.

use super::{
    changed, conversation,
    message::{self, Message},
};
use hearth_protocol::{Part, Role};
use rusqlite::{Connection, OptionalExtension, params};

// A parent may be in either table, so it has no foreign key.
pub(super) const MIGRATION: &str = "
CREATE TABLE deleted_message (
    id INTEGER PRIMARY KEY,
    deletion INTEGER NOT NULL,
    deleted_at INTEGER NOT NULL,
    selected INTEGER NOT NULL,
    conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    parent INTEGER,
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
    content TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('complete', 'stopped', 'cut', 'failed')),
    detail TEXT,
    created_at INTEGER NOT NULL,
    model TEXT,
    stats TEXT,
    left_out TEXT,
    adapters TEXT,
    comparison INTEGER,
    better INTEGER NOT NULL,
    rating TEXT,
    parts TEXT,
    settings TEXT,
    tokens BLOB,
    edited INTEGER NOT NULL,
    own TEXT
) STRICT;
CREATE INDEX deleted_message_of_deletion ON deleted_message (deletion);
CREATE INDEX deleted_message_of_conversation ON deleted_message (conversation);
CREATE INDEX deleted_message_by_time ON deleted_message (deleted_at);
";

/// The columns of the table `message`. A test compares them.
const COLUMNS: &str = "id, conversation, parent, role, content, state, detail, created_at, model, stats, left_out, \
    adapters, comparison, better, rating, parts, settings, tokens, edited, own";

/// Deletes a message and all messages below it. No answer among them may be unfinished. If the
/// selected branch ends among them, selects the nearest older version of the message, else the
/// nearest newer one, else its parent. Returns their number. The id of the message identifies the
/// deletion.
pub fn delete(connection: &Connection, root: &Message, now: i64) -> rusqlite::Result<usize> {
    let leaf: Option<i64> = connection
        .prepare_cached("SELECT leaf FROM conversation WHERE id = ?1")?
        .query_row(params![root.conversation], |row| row.get(0))?;
    let compared = message::compared(connection, root.id)?;
    let count = connection
        .prepare_cached(&format!(
            "INSERT INTO deleted_message (deletion, deleted_at, selected, {COLUMNS})
             SELECT ?1, ?2, id IS ?3, {COLUMNS} FROM message WHERE id IN ({})",
            message::SUBTREE
        ))?
        .execute(params![root.id, now, leaf])?;
    // One statement, because SQLite checks the foreign keys of parents at its end.
    connection
        .prepare_cached("DELETE FROM message WHERE id IN (SELECT id FROM deleted_message WHERE deletion = ?1)")?
        .execute(params![root.id])?;
    let others: Vec<i64> = compared.into_iter().filter(|id| *id != root.id).collect();
    link(connection, &others)?;
    if selected_leaf(connection, root.id)?.is_some() {
        let leaf = match nearest_version(connection, root)? {
            Some(version) => Some(message::newest_leaf(connection, version)?),
            None => root.parent,
        };
        conversation::set_leaf(connection, root.conversation, leaf)?;
    }
    // The list of conversations shows the time and the model of the last message.
    let newest = newest_time(connection, root.id)?;
    connection
        .prepare_cached(
            "UPDATE conversation SET updated_at = min(updated_at, coalesce(
                (SELECT max(m.created_at) FROM message m WHERE m.conversation = ?1), created_at
             )) WHERE id = ?1 AND ?2 > coalesce(
                (SELECT max(m.created_at) FROM message m WHERE m.conversation = ?1), ?2 - 1
             )",
        )?
        .execute(params![root.conversation, newest])?;
    update_model(connection, root.conversation)?;
    Ok(count)
}

/// The outcome of a restoration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restoration {
    /// The messages of this conversation are back.
    Done {
        /// Its id.
        conversation: i64,
    },
    /// The message that they follow is deleted, too.
    ParentDeleted,
    /// There is no such deletion.
    Missing,
}

/// Restores the messages of a deletion and selects the branch that it ended. Messages that were
/// deleted before it stay deleted.
pub fn restore(connection: &Connection, deletion: i64) -> rusqlite::Result<Restoration> {
    let root = connection
        .prepare_cached("SELECT conversation, parent, comparison FROM deleted_message WHERE id = ?1 AND deletion = ?1")?
        .query_row(params![deletion], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((conversation, parent, next)): Option<(i64, Option<i64>, Option<i64>)> = root else {
        return Ok(Restoration::Missing);
    };
    if conversation::get(connection, conversation)?.is_none() {
        return Ok(Restoration::Missing);
    }
    if let Some(parent) = parent
        && message::get(connection, parent)?.is_none()
    {
        return Ok(Restoration::ParentDeleted);
    }
    let (leaf, newest) = (selected_leaf(connection, deletion)?, newest_time(connection, deletion)?);
    connection
        .prepare_cached(&format!(
            "INSERT INTO message ({COLUMNS}) SELECT {COLUMNS} FROM deleted_message WHERE deletion = ?1 ORDER BY id"
        ))?
        .execute(params![deletion])?;
    connection
        .prepare_cached("DELETE FROM deleted_message WHERE deletion = ?1")?
        .execute(params![deletion])?;
    if let Some(next) = next {
        rejoin(connection, deletion, next)?;
    }
    if let Some(leaf) = leaf {
        conversation::set_leaf(connection, conversation, Some(leaf))?;
    }
    connection
        .prepare_cached("UPDATE conversation SET updated_at = max(updated_at, ?2) WHERE id = ?1")?
        .execute(params![conversation, newest])?;
    update_model(connection, conversation)?;
    Ok(Restoration::Done { conversation })
}

/// Messages that were deleted together, until they are purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// Id of the first message: the others are below it.
    pub id: i64,
    /// Id of the conversation.
    pub conversation: i64,
    /// Title of the conversation.
    pub title: String,
    /// First words of the first message.
    pub first_words: String,
    /// Number of messages.
    pub count: u32,
    /// Time of the deletion.
    pub deleted_at: i64,
}

/// The deletions in conversations that are not deleted, last deleted first. `first_words` reads
/// them from the parts of a message, of which no more than one is in memory.
pub fn deletions(connection: &Connection, first_words: impl Fn(&[Part]) -> String) -> rusqlite::Result<Vec<Deletion>> {
    connection
        .prepare_cached(
            "SELECT m.id, m.conversation, c.title, m.content, m.parts,
                (SELECT count(*) FROM deleted_message below WHERE below.deletion = m.deletion), m.deleted_at
             FROM deleted_message m JOIN conversation c ON c.id = m.conversation
             WHERE m.id = m.deletion AND c.deleted_at IS NULL
             ORDER BY m.deleted_at DESC, m.id DESC",
        )?
        .query_map([], |row| {
            Ok(Deletion {
                id: row.get(0)?,
                conversation: row.get(1)?,
                title: row.get(2)?,
                first_words: first_words(&super::message_parts::read(row.get(3)?, row.get(4)?)),
                count: row.get(5)?,
                deleted_at: row.get(6)?,
            })
        })?
        .collect()
}

/// Whether a message is deleted.
pub fn exists(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM deleted_message WHERE id = ?1)")?
        .query_row(params![id], |row| row.get(0))
}

/// A deleted message, as far as imports compare it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletedMessage {
    /// Id.
    pub id: i64,
    /// The message that it follows.
    pub parent: Option<i64>,
    /// Author.
    pub role: Role,
    /// Content.
    pub parts: Vec<Part>,
}

/// The deleted messages of a conversation, oldest first.
pub fn of_conversation(connection: &Connection, conversation: i64) -> rusqlite::Result<Vec<DeletedMessage>> {
    connection
        .prepare_cached(
            "SELECT id, parent, role, content, parts FROM deleted_message WHERE conversation = ?1 ORDER BY id",
        )?
        .query_map(params![conversation], |row| {
            Ok(DeletedMessage {
                id: row.get(0)?,
                parent: row.get(1)?,
                role: message::role(row.get_ref(2)?.as_str()?),
                parts: super::message_parts::read(row.get(3)?, row.get(4)?),
            })
        })?
        .collect()
}

/// Removes messages deleted before a time. Returns the ids of their conversations, each once.
pub fn purge(connection: &Connection, before: i64) -> rusqlite::Result<Vec<i64>> {
    let conversations = connection
        .prepare_cached("SELECT DISTINCT conversation FROM deleted_message WHERE deleted_at < ?1")?
        .query_map(params![before], |row| row.get(0))?
        .collect();
    connection
        .prepare_cached("DELETE FROM deleted_message WHERE deleted_at < ?1")?
        .execute(params![before])?;
    conversations
}

/// Removes the messages of a deletion. Returns the id of their conversation. `None` means that
/// there is no such deletion.
pub fn remove(connection: &Connection, deletion: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("DELETE FROM deleted_message WHERE deletion = ?1 RETURNING conversation")?
        .query_map(params![deletion], |row| row.get(0))?
        .last()
        .transpose()
}

/// The leaf of the selected branch, if the deletion includes it.
fn selected_leaf(connection: &Connection, deletion: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM deleted_message WHERE deletion = ?1 AND selected LIMIT 1")?
        .query_row(params![deletion], |row| row.get(0))
        .optional()
}

/// The time of the newest message of a deletion.
fn newest_time(connection: &Connection, deletion: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(created_at), 0) FROM deleted_message WHERE deletion = ?1")?
        .query_row(params![deletion], |row| row.get(0))
}

/// The version of a deleted message that is nearest to it.
fn nearest_version(connection: &Connection, root: &Message) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT coalesce(
                (SELECT max(id) FROM message WHERE conversation = ?1 AND parent IS ?2 AND id < ?3),
                (SELECT min(id) FROM message WHERE conversation = ?1 AND parent IS ?2 AND id > ?3)
             )",
        )?
        .query_row(params![root.conversation, root.parent, root.id], |row| row.get(0))
}

/// Sets a conversation's model to the model of its last answer, if it has one.
fn update_model(connection: &Connection, conversation: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE conversation SET model = coalesce(
                (SELECT m.model FROM message m WHERE m.conversation = ?1 AND m.model IS NOT NULL
                 ORDER BY m.id DESC LIMIT 1), model
             ) WHERE id = ?1",
        )?
        .execute(params![conversation])?;
    Ok(())
}

/// Links the answers that remain in a comparison. A single answer is not a comparison.
fn link(connection: &Connection, answers: &[i64]) -> rusqlite::Result<()> {
    match answers {
        [] => Ok(()),
        [only] => changed(
            connection,
            "UPDATE message SET comparison = NULL WHERE id = ?1",
            params![only],
        )
        .map(drop),
        answers => message::set_compared(connection, answers),
    }
}

/// Adds a restored answer to the comparison from which it was deleted. `next` was the next answer
/// in that comparison, which may be deleted, too.
fn rejoin(connection: &Connection, answer: i64, next: i64) -> rusqlite::Result<()> {
    /// Most deleted answers before one that is not. A hostile store may have a ring of them.
    const MAX_STEPS: usize = 16;
    let mut at = next;
    for _ in 0..MAX_STEPS {
        if message::get(connection, at)?.is_some_and(|row| row.id != answer) {
            let mut answers = message::compared(connection, at)?;
            answers.extend([at, answer]);
            answers.sort_unstable();
            answers.dedup();
            return link(connection, &answers);
        }
        let after: Option<Option<i64>> = connection
            .prepare_cached("SELECT comparison FROM deleted_message WHERE id = ?1")?
            .query_row(params![at], |row| row.get(0))
            .optional()?;
        match after {
            Some(Some(after)) if after != answer => at = after,
            Some(_) => {
                // The last answer of the comparison: it joins this one once it is restored.
                connection
                    .prepare_cached("UPDATE deleted_message SET comparison = ?2 WHERE id = ?1")?
                    .execute(params![at, answer])?;
                break;
            }
            None => break,
        }
    }
    link(connection, &[answer])
}

#[cfg(test)]
mod tests {
    use super::COLUMNS;
    use crate::store::Store;
    use std::collections::BTreeSet;

    /// A column that is added to `message` later needs one here, or a restored message lacks it.
    #[test]
    fn a_deleted_message_keeps_every_column() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("a store");
        let columns = |table: &str| -> BTreeSet<String> {
            let read = |t: &rusqlite::Transaction<'_>| {
                t.prepare("SELECT name FROM pragma_table_info(?1)")?
                    .query_map([table], |row| row.get(0))?
                    .collect()
            };
            store.read(read).expect("columns")
        };
        let moved: BTreeSet<String> = COLUMNS.split(", ").map(str::to_owned).collect();
        assert_eq!(moved, columns("message"));
        assert!(columns("deleted_message").is_superset(&moved));
    }
}

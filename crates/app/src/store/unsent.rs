//! Unsent texts and files of a conversation, or of the new conversation, which has no row yet.

use rusqlite::{Connection, params};

// The new conversation is NULL, which the index does not keep unique; `set` does.
pub(super) const MIGRATION: &str = "
CREATE TABLE unsent (
    id INTEGER PRIMARY KEY,
    conversation INTEGER REFERENCES conversation (id) ON DELETE CASCADE,
    part TEXT NOT NULL CHECK (part IN ('text', 'files', 'queue')),
    value TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX unsent_of_conversation ON unsent (conversation, part);
";

/// A part of an unsent message. Each part is a row, so that typing does not write the files again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsentPart {
    /// The text of the draft.
    Text,
    /// The files of the draft, as the caller's JSON.
    Files,
    /// The queued messages, as the caller's JSON.
    Queue,
}

impl UnsentPart {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Files => "files",
            Self::Queue => "queue",
        }
    }
}

/// Returns a part. Without a `conversation`, it is a part of the new conversation.
pub fn get(connection: &Connection, conversation: Option<i64>, part: UnsentPart) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM unsent WHERE conversation IS ?1 AND part = ?2")?
        .query_map(params![conversation, part.name()], |row| row.get(0))?
        .next()
        .transpose()
}

/// Replaces a part; `None` removes it. Returns `false` if the conversation does not exist; a
/// deleted one does, until it is purged.
pub fn set(
    connection: &Connection,
    conversation: Option<i64>,
    part: UnsentPart,
    value: Option<&str>,
) -> rusqlite::Result<bool> {
    let exists = "SELECT ?1 IS NULL OR EXISTS (SELECT 1 FROM conversation WHERE id = ?1)";
    if !connection
        .prepare_cached(exists)?
        .query_row(params![conversation], |row| row.get(0))?
    {
        return Ok(false);
    }
    connection
        .prepare_cached("DELETE FROM unsent WHERE conversation IS ?1 AND part = ?2")?
        .execute(params![conversation, part.name()])?;
    if value.is_some() {
        connection
            .prepare_cached("INSERT INTO unsent (conversation, part, value) VALUES (?1, ?2, ?3)")?
            .execute(params![conversation, part.name(), value])?;
    }
    Ok(true)
}

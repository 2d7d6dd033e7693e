//! Messages: nodes of trees by their parents' ids.

use super::{changed, message_parts};
use hearth_protocol::{DraftStats, DroppedTurns, Part, Role, text_of};
use rusqlite::{Connection, OptionalExtension, Row, params, types::Type};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use ts_rs::TS;

// No action on deleting a parent: a chain of ten thousand exceeds SQLite's recursion limit.
// A message is only deleted together with all messages below it, or with its conversation.
pub(super) const MIGRATION: &str = "
CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    parent INTEGER REFERENCES message (id),
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
    content TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('complete', 'unfinished', 'stopped', 'cut', 'failed')),
    detail TEXT,
    created_at INTEGER NOT NULL,
    model TEXT,
    stats TEXT,
    left_out TEXT
) STRICT;
CREATE INDEX message_of_conversation ON message (conversation, id);
CREATE INDEX message_by_parent ON message (parent);
CREATE INDEX message_unfinished ON message (state) WHERE state = 'unfinished';
";

pub(super) const ADAPTERS: &str = "
ALTER TABLE message ADD COLUMN adapters TEXT;
ALTER TABLE message ADD COLUMN comparison INTEGER;
ALTER TABLE message ADD COLUMN better INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN rating TEXT;
CREATE INDEX message_better ON message (comparison) WHERE better;
CREATE INDEX message_rated ON message (id) WHERE rating IS NOT NULL;
";

pub(super) const OWN: &str = "
ALTER TABLE message ADD COLUMN own TEXT;
";

pub(super) const PARTS: &str = "
ALTER TABLE message ADD COLUMN parts TEXT;
";

/// State of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Complete.
    Complete,
    /// Being generated; becomes stopped after a crash.
    Unfinished,
    /// Stopped.
    Stopped,
    /// Truncated; the reason as a word of the caller.
    Truncated(String),
    /// Failed; the problem as the caller's JSON.
    Failed(String),
}

impl State {
    fn columns(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Complete => ("complete", None),
            Self::Unfinished => ("unfinished", None),
            Self::Stopped => ("stopped", None),
            Self::Truncated(reason) => ("cut", Some(reason)),
            Self::Failed(problem) => ("failed", Some(problem)),
        }
    }
}

/// Speed and token counts of an answer. The aliases are the names in rows of earlier versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Tokens of the prompt.
    #[serde(alias = "prompt_tokens")]
    pub prompt_tokens: u32,
    /// Tokens of the prompt that were in the KV cache.
    #[serde(alias = "cached_tokens")]
    pub cached_tokens: u32,
    /// Generated tokens.
    pub tokens: u32,
    /// The decode speed in tokens per second.
    #[serde(alias = "tokens_per_second")]
    pub tokens_per_second: f64,
    /// Prefill speed in tokens per second, cached tokens excluded.
    #[serde(alias = "prompt_tokens_per_second")]
    pub prompt_tokens_per_second: f64,
    /// Time to first token in seconds.
    #[serde(alias = "first_token_seconds")]
    pub first_token_seconds: f64,
    /// Context in use after the answer, in tokens.
    #[serde(alias = "context_used")]
    pub context_used: u32,
    /// Context length in tokens.
    pub context: u32,
    /// Statistics of the draft of speculative decoding. `None` means that there was none, or that
    /// the row was written by a version without drafts.
    #[serde(default)]
    pub draft: Option<DraftStats>,
    /// Time from the first thinking token to the first text token, in seconds. `None` means that
    /// there was no thinking, or that the row was written by a version that did not measure it.
    #[serde(default)]
    pub thinking_seconds: Option<f64>,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Id.
    pub id: i64,
    /// Id of the conversation.
    pub conversation: i64,
    /// Id of the previous message.
    pub parent: Option<i64>,
    /// Role.
    pub role: Role,
    /// Parts.
    pub parts: Vec<Part>,
    /// State.
    pub state: State,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Name of the model that answered.
    pub model: Option<String>,
    /// Speed and token counts.
    pub stats: Option<Stats>,
    /// Turns dropped from the prompt.
    pub dropped: Option<DroppedTurns>,
    /// Applied adapters, as the caller's JSON.
    pub adapters: Option<String>,
    /// Id of the next answer of its comparison. The last answer has the id of the first one.
    pub comparison: Option<i64>,
    /// Whether the user preferred it to the other answers.
    pub better: bool,
    /// The user's rating, as the caller's JSON.
    pub rating: Option<String>,
    /// The settings that made it, as the caller's JSON.
    pub settings: Option<String>,
    /// Whether the user wrote it, or its beginning.
    pub edited: bool,
    /// The model and settings that are not its conversation's, as the caller's JSON.
    pub overrides: Option<String>,
}

impl Message {
    /// Its text.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

const COLUMNS: &str = "id, conversation, parent, role, content, state, detail, created_at, model, stats, left_out, \
    adapters, comparison, better, rating, parts, settings, edited, own";

fn row(row: &Row<'_>) -> rusqlite::Result<Message> {
    let detail: Option<String> = row.get(6)?;
    let detail = detail.unwrap_or_default();
    Ok(Message {
        id: row.get(0)?,
        conversation: row.get(1)?,
        parent: row.get(2)?,
        role: role(row.get_ref(3)?.as_str()?),
        parts: message_parts::read(row.get(4)?, row.get(15)?),
        state: match row.get_ref(5)?.as_str()? {
            "complete" => State::Complete,
            "unfinished" => State::Unfinished,
            "cut" => State::Truncated(detail),
            "failed" => State::Failed(detail),
            _ => State::Stopped,
        },
        created_at: row.get(7)?,
        model: row.get(8)?,
        stats: json(row, 9)?,
        dropped: json(row, 10)?,
        adapters: row.get(11)?,
        comparison: row.get(12)?,
        better: row.get(13)?,
        rating: row.get(14)?,
        settings: row.get(16)?,
        edited: row.get(17)?,
        overrides: row.get(18)?,
    })
}

/// The role with a name.
pub(super) fn role(name: &str) -> Role {
    match name {
        "system" => Role::System,
        "user" => Role::User,
        _ => Role::Assistant,
    }
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

fn to_json<T: Serialize>(value: Option<&T>) -> rusqlite::Result<Option<String>> {
    value
        .map(serde_json::to_string)
        .transpose()
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// All messages of a conversation, in order of creation.
pub fn of_conversation(connection: &Connection, conversation: i64) -> rusqlite::Result<Vec<Message>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM message WHERE conversation = ?1 ORDER BY id"
        ))?
        .query_map(params![conversation], row)?
        .collect()
}

/// One message.
pub fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Message>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM message WHERE id = ?1"))?
        .query_row(params![id], row)
        .optional()
}

/// The branch from the first message to a leaf, in order.
pub fn branch(connection: &Connection, leaf: i64) -> rusqlite::Result<Vec<Message>> {
    connection
        .prepare_cached(&format!(
            "WITH RECURSIVE up (id, parent, depth) AS (
                SELECT id, parent, 0 FROM message WHERE id = ?1
                UNION ALL SELECT m.id, m.parent, up.depth + 1 FROM message m
                JOIN up ON m.id = up.parent AND m.id < up.id
            )
            SELECT {} FROM message m JOIN up ON m.id = up.id ORDER BY up.depth DESC",
            COLUMNS
                .split(", ")
                .map(|column| format!("m.{column}"))
                .collect::<Vec<_>>()
                .join(", ")
        ))?
        .query_map(params![leaf], row)?
        .collect()
}

/// The leaf that is reached from a message by its newest child, the child's newest child and so on.
pub fn newest_leaf(connection: &Connection, message: i64) -> rusqlite::Result<i64> {
    let mut newest_child = connection.prepare_cached("SELECT max(id) FROM message WHERE parent = ?1 AND id > ?1")?;
    let mut leaf = message;
    while let Some(child) = newest_child.query_row(params![leaf], |row| row.get::<_, Option<i64>>(0))? {
        leaf = child;
    }
    Ok(leaf)
}

/// A query of the ids of a message (parameter 1) and of all messages below it.
pub(super) const SUBTREE: &str = "WITH RECURSIVE below (id) AS (
        SELECT id FROM message WHERE id = ?1
        UNION ALL SELECT m.id FROM message m JOIN below ON m.parent = below.id AND m.id > below.id
    )
    SELECT id FROM below";

/// The ids of a message and of all messages below it. Empty if it does not exist.
pub fn subtree(connection: &Connection, id: i64) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached(SUBTREE)?
        .query_map(params![id], |row| row.get(0))?
        .collect()
}

/// A new message.
#[derive(Debug, Clone, PartialEq)]
pub struct New<'a> {
    /// Id of the conversation.
    pub conversation: i64,
    /// Id of the previous message.
    pub parent: Option<i64>,
    /// Role.
    pub role: Role,
    /// Parts.
    pub parts: Vec<Part>,
    /// State.
    pub state: State,
    /// Applied adapters, as the caller's JSON.
    pub adapters: Option<&'a str>,
    /// Name of the model that answered.
    pub model: Option<&'a str>,
    /// Whether the user wrote it, although it is an answer.
    pub edited: bool,
    /// The model and settings that are not its conversation's, as the caller's JSON.
    pub overrides: Option<&'a str>,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

/// Adds a message.
pub fn create(connection: &Connection, new: New<'_>) -> rusqlite::Result<Message> {
    let (state, detail) = new.state.columns();
    connection
        .prepare_cached(
            "INSERT INTO message (conversation, parent, role, content, state, detail, adapters, created_at, parts,
                model, edited, own)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            new.conversation,
            new.parent,
            new.role.name(),
            message_parts::content(&new.parts),
            state,
            detail,
            new.adapters,
            new.created_at,
            message_parts::column(&new.parts),
            new.model,
            new.edited,
            new.overrides
        ])?;
    Ok(Message {
        id: connection.last_insert_rowid(),
        conversation: new.conversation,
        parent: new.parent,
        role: new.role,
        parts: new.parts,
        state: new.state,
        created_at: new.created_at,
        model: new.model.map(str::to_owned),
        stats: None,
        dropped: None,
        adapters: new.adapters.map(str::to_owned),
        comparison: None,
        better: false,
        rating: None,
        settings: None,
        edited: new.edited,
        overrides: new.overrides.map(str::to_owned),
    })
}

/// Adds a complete message; its id is ignored, and so is its comparison. Returns its id.
pub fn import(connection: &Connection, message: &Message) -> rusqlite::Result<i64> {
    let (state, detail) = message.state.columns();
    connection
        .prepare_cached(
            "INSERT INTO message (conversation, parent, role, content, state, detail, created_at, model, stats,
                left_out, adapters, better, rating, parts, settings, edited, own)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        )?
        .execute(params![
            message.conversation,
            message.parent,
            message.role.name(),
            message_parts::content(&message.parts),
            state,
            detail,
            message.created_at,
            message.model,
            to_json(message.stats.as_ref())?,
            to_json(message.dropped.as_ref())?,
            message.adapters,
            message.better,
            message.rating,
            message_parts::column(&message.parts),
            message.settings,
            message.edited,
            message.overrides
        ])?;
    Ok(connection.last_insert_rowid())
}

/// Whether a message has replies.
pub fn has_replies(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM message WHERE parent = ?1)")?
        .query_row(params![id], |row| row.get(0))
}

/// Saves a message's parts, state, model, stats, dropped turns and settings.
pub fn save(connection: &Connection, message: &Message) -> rusqlite::Result<()> {
    let (state, detail) = message.state.columns();
    connection
        .prepare_cached(
            "UPDATE message SET content = ?2, state = ?3, detail = ?4, model = ?5, stats = ?6, left_out = ?7, parts = ?8,
                settings = ?9
             WHERE id = ?1",
        )?
        .execute(params![
            message.id,
            message_parts::content(&message.parts),
            state,
            detail,
            message.model,
            to_json(message.stats.as_ref())?,
            to_json(message.dropped.as_ref())?,
            message_parts::column(&message.parts),
            message.settings
        ])?;
    Ok(())
}

/// Links answers as a comparison: each to the next one, the last one to the first one.
pub fn set_compared(connection: &Connection, ids: &[i64]) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached("UPDATE message SET comparison = ?2 WHERE id = ?1")?;
    for (id, next) in ids.iter().zip(ids.iter().cycle().skip(1)) {
        update.execute(params![id, next])?;
    }
    Ok(())
}

/// The answers of a comparison, by their ids, this one included. Empty if it is in none.
pub fn compared(connection: &Connection, id: i64) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached(
            "WITH RECURSIVE ring (id, next) AS (
                SELECT id, comparison FROM message WHERE id = ?1 AND comparison IS NOT NULL
                UNION SELECT m.id, m.comparison FROM message m JOIN ring ON m.id = ring.next
                WHERE m.comparison IS NOT NULL
            )
            SELECT id FROM ring ORDER BY id",
        )?
        .query_map(params![id], |row| row.get(0))?
        .collect()
}

/// Votes for one of the compared answers, or withdraws the vote.
pub fn vote(connection: &Connection, compared: &[i64], id: i64, better: bool) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached("UPDATE message SET better = ?2 WHERE id = ?1")?;
    for answer in compared {
        update.execute(params![answer, better && *answer == id])?;
    }
    Ok(())
}

/// For every comparison with a vote, the adapters of the better answer and of each other answer
/// with the same model and settings, as the caller's JSON.
pub fn votes(connection: &Connection) -> rusqlite::Result<Vec<(Option<String>, Option<String>)>> {
    connection
        .prepare_cached(
            "WITH RECURSIVE ring (better, next) AS (
                SELECT m.id, m.comparison FROM message m JOIN conversation c ON c.id = m.conversation
                WHERE m.better AND m.comparison IS NOT NULL AND c.deleted_at IS NULL
                UNION SELECT ring.better, m.comparison FROM message m JOIN ring ON m.id = ring.next
                WHERE m.comparison IS NOT NULL
            )
            SELECT a.adapters, b.adapters FROM ring JOIN message a ON a.id = ring.better
            JOIN message b ON b.id = ring.next WHERE b.id != a.id AND b.own IS a.own",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// The message after which a branch continues: its last one. If that is an empty answer of a
/// comparison, the first answer with content.
pub fn end_of_branch(connection: &Connection, leaf: i64) -> rusqlite::Result<i64> {
    let mut has_content = connection.prepare_cached("SELECT content != '' FROM message WHERE id = ?1")?;
    for id in std::iter::once(leaf).chain(compared(connection, leaf)?) {
        if has_content.query_row(params![id], |row| row.get(0)).optional()? == Some(true) {
            return Ok(id);
        }
    }
    Ok(leaf)
}

/// Saves a message's rating, as the caller's JSON. Returns `false` if it does not exist.
pub fn rate(connection: &Connection, id: i64, rating: Option<&str>) -> rusqlite::Result<bool> {
    changed(
        connection,
        "UPDATE message SET rating = ?2 WHERE id = ?1",
        params![id, rating],
    )
}

/// The rated messages, in creation order.
pub fn rated(connection: &Connection) -> rusqlite::Result<Vec<Message>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM message WHERE rating IS NOT NULL
             AND conversation IN (SELECT id FROM conversation WHERE deleted_at IS NULL) ORDER BY id"
        ))?
        .query_map([], row)?
        .collect()
}

/// Marks messages that a crash left unfinished as stopped. Returns their number.
pub(super) fn stop_unfinished(connection: &Connection) -> rusqlite::Result<usize> {
    connection.execute("UPDATE message SET state = 'stopped' WHERE state = 'unfinished'", [])
}

//! Messages: nodes of trees by their parents' ids.

use super::changed;
use rusqlite::{Connection, OptionalExtension, Row, params, types::Type};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

// A parent has no action on delete: a chain of ten thousand would be deeper than SQLite recurses. Messages only ever go
// together, with their conversation.
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

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// How far a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is whole.
    Complete,
    /// It is being answered; after a crash it becomes stopped.
    Unfinished,
    /// It was stopped.
    Stopped,
    /// It was cut; why, in a word of the caller's.
    Cut(String),
    /// It failed; why, in JSON of the caller's.
    Failed(String),
}

impl State {
    fn columns(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Complete => ("complete", None),
            Self::Unfinished => ("unfinished", None),
            Self::Stopped => ("stopped", None),
            Self::Cut(why) => ("cut", Some(why)),
            Self::Failed(why) => ("failed", Some(why)),
        }
    }
}

/// How fast an answer was; see the wire's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Stats {
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    pub tokens: u32,
    pub tokens_per_second: f64,
    pub prompt_tokens_per_second: f64,
    pub first_token_seconds: f64,
    pub context_used: u32,
    pub context: u32,
}

/// What did not fit the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct LeftOut {
    pub messages: u32,
    pub tokens: u32,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Names it.
    pub id: i64,
    /// Whose it is.
    pub conversation: i64,
    /// What it follows.
    pub parent: Option<i64>,
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// How far it is.
    pub state: State,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Name of the model that answered.
    pub model: Option<String>,
    /// How fast it was.
    pub stats: Option<Stats>,
    /// What the model could not see.
    pub left_out: Option<LeftOut>,
    /// The adapters it is made with, in JSON of the caller's.
    pub adapters: Option<String>,
    /// The other answer of two that are compared.
    pub comparison: Option<i64>,
    /// Whether a person preferred it to that one.
    pub better: bool,
    /// What a person thinks of it, in JSON of the caller's.
    pub rating: Option<String>,
}

const COLUMNS: &str = "id, conversation, parent, role, content, state, detail, created_at, model, stats, left_out, adapters, \
                       comparison, better, rating";

fn row(row: &Row<'_>) -> rusqlite::Result<Message> {
    let detail: Option<String> = row.get(6)?;
    let detail = detail.unwrap_or_default();
    Ok(Message {
        id: row.get(0)?,
        conversation: row.get(1)?,
        parent: row.get(2)?,
        role: match row.get_ref(3)?.as_str()? {
            "system" => Role::System,
            "user" => Role::User,
            _ => Role::Assistant,
        },
        content: row.get(4)?,
        state: match row.get_ref(5)?.as_str()? {
            "complete" => State::Complete,
            "unfinished" => State::Unfinished,
            "cut" => State::Cut(detail),
            "failed" => State::Failed(detail),
            _ => State::Stopped,
        },
        created_at: row.get(7)?,
        model: row.get(8)?,
        stats: json(row, 9)?,
        left_out: json(row, 10)?,
        adapters: row.get(11)?,
        comparison: row.get(12)?,
        better: row.get(13)?,
        rating: row.get(14)?,
    })
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

/// The messages from the first down to one, in order.
pub fn branch(connection: &Connection, leaf: i64) -> rusqlite::Result<Vec<Message>> {
    connection
        .prepare_cached(&format!(
            "WITH RECURSIVE up (id, parent, depth) AS (
                SELECT id, parent, 0 FROM message WHERE id = ?1
                UNION ALL SELECT m.id, m.parent, up.depth + 1 FROM message m JOIN up ON m.id = up.parent
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

/// The end of the newest branch through a message: its newest child, that one's newest child and so on.
pub fn newest_leaf(connection: &Connection, message: i64) -> rusqlite::Result<i64> {
    let mut newest_child = connection.prepare_cached("SELECT max(id) FROM message WHERE parent = ?1")?;
    let mut leaf = message;
    while let Some(child) = newest_child.query_row(params![leaf], |row| row.get::<_, Option<i64>>(0))? {
        leaf = child;
    }
    Ok(leaf)
}

/// What a new message needs.
#[derive(Debug, Clone, PartialEq)]
pub struct New<'a> {
    /// Whose it is.
    pub conversation: i64,
    /// What it follows.
    pub parent: Option<i64>,
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: &'a str,
    /// How far it is.
    pub state: State,
    /// The adapters it is made with, in JSON of the caller's.
    pub adapters: Option<&'a str>,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

/// Adds a message.
pub fn create(connection: &Connection, new: New<'_>) -> rusqlite::Result<Message> {
    let (state, detail) = new.state.columns();
    connection
        .prepare_cached(
            "INSERT INTO message (conversation, parent, role, content, state, detail, adapters, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            new.conversation,
            new.parent,
            new.role.name(),
            new.content,
            state,
            detail,
            new.adapters,
            new.created_at
        ])?;
    Ok(Message {
        id: connection.last_insert_rowid(),
        conversation: new.conversation,
        parent: new.parent,
        role: new.role,
        content: new.content.to_owned(),
        state: new.state,
        created_at: new.created_at,
        model: None,
        stats: None,
        left_out: None,
        adapters: new.adapters.map(str::to_owned),
        comparison: None,
        better: false,
        rating: None,
    })
}

/// Saves what has become of a message: its content, state, model, stats and what was left out.
pub fn save(connection: &Connection, message: &Message) -> rusqlite::Result<()> {
    let (state, detail) = message.state.columns();
    connection
        .prepare_cached(
            "UPDATE message SET content = ?2, state = ?3, detail = ?4, model = ?5, stats = ?6, left_out = ?7 WHERE id = ?1",
        )?
        .execute(params![
            message.id,
            message.content,
            state,
            detail,
            message.model,
            to_json(message.stats.as_ref())?,
            to_json(message.left_out.as_ref())?
        ])?;
    Ok(())
}

/// Says that two answers are compared with each other.
pub fn set_compared(connection: &Connection, one: i64, other: i64) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached("UPDATE message SET comparison = ?2 WHERE id = ?1")?;
    update.execute(params![one, other])?;
    update.execute(params![other, one])?;
    Ok(())
}

/// Says that of two answers that are compared this one is better, or no longer that any is.
pub fn vote(connection: &Connection, id: i64, better: bool) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE message SET better = (id = ?1 AND ?2) WHERE id = ?1 OR comparison = ?1")?
        .execute(params![id, better])?;
    Ok(())
}

/// Of every pair of answers that was voted on, the adapters of the better one and those of the other.
pub fn votes(connection: &Connection) -> rusqlite::Result<Vec<(Option<String>, Option<String>)>> {
    connection
        .prepare_cached(
            "SELECT a.adapters, b.adapters FROM message a JOIN message b ON b.id = a.comparison
             JOIN conversation c ON c.id = a.conversation WHERE a.better AND c.deleted_at IS NULL",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Keeps what a person thinks of a message, in JSON of the caller's; whether it is there.
pub fn rate(connection: &Connection, id: i64, rating: Option<&str>) -> rusqlite::Result<bool> {
    changed(
        connection,
        "UPDATE message SET rating = ?2 WHERE id = ?1",
        params![id, rating],
    )
}

/// The messages that a person said something of, in order of creation.
pub fn rated(connection: &Connection) -> rusqlite::Result<Vec<Message>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM message WHERE rating IS NOT NULL
             AND conversation IN (SELECT id FROM conversation WHERE deleted_at IS NULL) ORDER BY id"
        ))?
        .query_map([], row)?
        .collect()
}

/// Turns what a crash left unfinished into stopped messages; how many.
pub(super) fn stop_unfinished(connection: &Connection) -> rusqlite::Result<usize> {
    connection.execute("UPDATE message SET state = 'stopped' WHERE state = 'unfinished'", [])
}

//! Conversations. Deleting one only marks it, so that it can be restored; it is purged later.

use super::{changed, title_source::TitleSource};
use rusqlite::{Connection, OptionalExtension, Row, params};

pub(super) const MIGRATION: &str = "
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    model TEXT,
    system_prompt TEXT,
    leaf INTEGER REFERENCES message (id) ON DELETE SET NULL,
    deleted_at INTEGER
) STRICT;
CREATE INDEX conversation_by_time ON conversation (updated_at DESC) WHERE deleted_at IS NULL;
CREATE INDEX conversation_leaf ON conversation (leaf);
";

pub(super) const ADAPTERS: &str = "
ALTER TABLE conversation ADD COLUMN adapters TEXT;
";

pub(super) const ORIGIN: &str = "
ALTER TABLE conversation ADD COLUMN origin TEXT;
CREATE INDEX conversation_by_origin ON conversation (origin) WHERE origin IS NOT NULL;
";

pub(super) const PINNED: &str = "
ALTER TABLE conversation ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
";

/// Columns for the settings of a conversation, and of an answer: the settings that made it, its
/// tokens, and whether the user wrote it or its beginning.
pub(super) const SETTINGS: &str = "
ALTER TABLE conversation ADD COLUMN settings TEXT;
ALTER TABLE message ADD COLUMN settings TEXT;
ALTER TABLE message ADD COLUMN tokens BLOB;
ALTER TABLE message ADD COLUMN edited INTEGER NOT NULL DEFAULT 0;
";

/// One conversation, without its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Id.
    pub id: i64,
    /// Display name.
    pub title: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970.
    pub updated_at: i64,
    /// Name of the last model that answered.
    pub model: Option<String>,
    /// System prompt. `None` means the model's default.
    pub system_prompt: Option<String>,
    /// Id of the last message of the selected branch.
    pub leaf: Option<i64>,
    /// Adapters for new answers, as the caller's JSON.
    pub adapters: Option<String>,
    /// Whether it is at the top of the list.
    pub pinned: bool,
    /// Settings for new answers, as the caller's JSON.
    pub settings: Option<String>,
    /// Id of its folder.
    pub folder: Option<i64>,
    /// Tags, sorted.
    pub tags: Vec<String>,
}

/// The columns of [`Conversation`]. A deleted folder counts as no folder.
const COLUMNS: &str = "id, title, created_at, updated_at, model, system_prompt, leaf, adapters, pinned, settings,
    (SELECT f.id FROM folder f WHERE f.id = conversation.folder AND f.deleted_at IS NULL),
    (SELECT group_concat(tag.name, char(10)) FROM tag WHERE tag.conversation = conversation.id)";

fn row(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    Ok(Conversation {
        id: row.get(0)?,
        title: row.get(1)?,
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
        model: row.get(4)?,
        system_prompt: row.get(5)?,
        leaf: row.get(6)?,
        adapters: row.get(7)?,
        pinned: row.get(8)?,
        settings: row.get(9)?,
        folder: row.get(10)?,
        tags: tags(row.get(11)?),
    })
}

/// Splits joined tags, which contain no line breaks.
fn tags(joined: Option<String>) -> Vec<String> {
    let mut tags: Vec<String> = joined
        .iter()
        .flat_map(|joined| joined.lines())
        .map(str::to_owned)
        .collect();
    tags.sort_unstable();
    tags
}

/// All rows that are not deleted, newest first.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<Conversation>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM conversation WHERE deleted_at IS NULL ORDER BY updated_at DESC, id DESC"
        ))?
        .query_map([], row)?
        .collect()
}

/// Returns one that is not deleted.
pub fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Conversation>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM conversation WHERE id = ?1 AND deleted_at IS NULL"
        ))?
        .query_row(params![id], row)
        .optional()
}

/// Creates a conversation; ids are never reused.
pub fn create(connection: &Connection, title: &str, source: TitleSource, now: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("INSERT INTO conversation (title, titled, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)")?
        .execute(params![title, source.name(), now])?;
    Ok(connection.last_insert_rowid())
}

/// A conversation of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported<'a> {
    /// Display name.
    pub title: &'a str,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970.
    pub updated_at: i64,
    /// Name of the last model that answered.
    pub model: Option<&'a str>,
    /// System prompt.
    pub system_prompt: Option<&'a str>,
    /// Settings for new answers, as the caller's JSON.
    pub settings: Option<&'a str>,
    /// The origin, which identifies it in every import.
    pub origin: &'a str,
}

/// Creates a conversation of an import. Returns its id.
pub fn import(connection: &Connection, new: &Imported<'_>) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO conversation (title, created_at, updated_at, model, system_prompt, settings, origin, titled)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            new.title,
            new.created_at,
            new.updated_at,
            new.model,
            new.system_prompt,
            new.settings,
            new.origin,
            TitleSource::User.name()
        ])?;
    Ok(connection.last_insert_rowid())
}

/// Sets the time of the last message of an import, unless the conversation continued since.
pub fn touch_imported(connection: &Connection, id: i64, time: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET updated_at = max(updated_at, ?2) WHERE id = ?1";
    changed(connection, sql, params![id, time])
}

/// A conversation that was imported or exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Id.
    pub id: i64,
    /// Id of the last message of the selected branch.
    pub leaf: Option<i64>,
    /// Whether it is deleted.
    pub deleted: bool,
}

/// The conversation with an origin. Of several, one that is not deleted is preferred.
pub fn by_origin(connection: &Connection, origin: &str) -> rusqlite::Result<Option<Known>> {
    connection
        .prepare_cached(
            "SELECT id, leaf, deleted_at IS NOT NULL FROM conversation WHERE origin = ?1
             ORDER BY deleted_at IS NOT NULL, id LIMIT 1",
        )?
        .query_row(params![origin], |row| {
            Ok(Known {
                id: row.get(0)?,
                leaf: row.get(1)?,
                deleted: row.get(2)?,
            })
        })
        .optional()
}

/// The origin, which identifies a conversation in every import. One that was not imported gets it
/// here. `None` if the conversation does not exist.
pub fn origin(connection: &Connection, id: i64) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached(
            "UPDATE conversation SET origin = coalesce(origin, 'hearth:' || lower(hex(randomblob(16))))
             WHERE id = ?1 AND deleted_at IS NULL RETURNING origin",
        )?
        .query_row(params![id], |row| row.get(0))
        .optional()
}

/// Renames a row for the user. Returns `false` if it does not exist.
pub fn rename(connection: &Connection, id: i64, title: &str) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET title = ?2, titled = ?3 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, title, TitleSource::User.name()])
}

/// Sets the system prompt. Returns `false` if it does not exist.
pub fn set_system_prompt(connection: &Connection, id: i64, prompt: Option<&str>) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET system_prompt = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, prompt])
}

/// Sets the adapters for new answers, as the caller's JSON. Returns `false` if it does not exist.
pub fn set_adapters(connection: &Connection, id: i64, adapters: Option<&str>) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET adapters = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, adapters])
}

/// Pins or unpins a row. Returns `false` if it does not exist.
pub fn set_pinned(connection: &Connection, id: i64, pinned: bool) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET pinned = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, pinned])
}

/// Sets the settings for new answers, as the caller's JSON. Returns `false` if it does not exist.
pub fn set_settings(connection: &Connection, id: i64, settings: Option<&str>) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET settings = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, settings])
}

/// Selects the branch that ends with a message. Returns `false` if it does not exist.
pub fn set_leaf(connection: &Connection, id: i64, leaf: Option<i64>) -> rusqlite::Result<bool> {
    changed(
        connection,
        "UPDATE conversation SET leaf = ?2 WHERE id = ?1",
        params![id, leaf],
    )
}

/// Sets the time of the last message, and its model.
pub fn touch(connection: &Connection, id: i64, model: Option<&str>, now: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET updated_at = ?3, model = coalesce(?2, model) WHERE id = ?1";
    changed(connection, sql, params![id, model, now])
}

/// Marks a row as deleted. Returns `false` if it does not exist.
pub fn delete(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<bool> {
    changed(
        connection,
        "UPDATE conversation SET deleted_at = ?2 WHERE id = ?1 AND deleted_at IS NULL",
        params![id, now],
    )
}

/// Undoes a deletion. Returns `false` if it was not deleted.
pub fn restore(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET deleted_at = NULL WHERE id = ?1 AND deleted_at IS NOT NULL";
    changed(connection, sql, params![id])
}

/// A deleted conversation, until it is purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// Id.
    pub id: i64,
    /// Display name.
    pub title: String,
    /// By the store's clock, in milliseconds since 1970.
    pub deleted_at: i64,
}

/// The deleted rows, last deleted first.
pub fn deleted(connection: &Connection) -> rusqlite::Result<Vec<Deleted>> {
    connection
        .prepare_cached(
            "SELECT id, title, deleted_at FROM conversation WHERE deleted_at IS NOT NULL
             ORDER BY deleted_at DESC, id DESC",
        )?
        .query_map([], |row| {
            Ok(Deleted {
                id: row.get(0)?,
                title: row.get(1)?,
                deleted_at: row.get(2)?,
            })
        })?
        .collect()
}

/// Removes a deleted conversation with its messages. Returns `false` if it was not deleted.
pub fn remove(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM conversation WHERE id = ?1 AND deleted_at IS NOT NULL";
    changed(connection, sql, params![id])
}

/// Removes conversations deleted before a time, with their messages. Returns their number.
pub fn purge(connection: &Connection, before: i64) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM conversation WHERE deleted_at < ?1")?
        .execute(params![before])
}

//! Folders of conversations, and tags. Deleting a folder only marks it, so that it can be restored
//! with its conversations, which have no folder meanwhile.

use super::changed;
use rusqlite::{Connection, OptionalExtension, Row, params};

pub(super) const MIGRATION: &str = "
CREATE TABLE folder (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    system_prompt TEXT,
    settings TEXT,
    deleted_at INTEGER
) STRICT;
ALTER TABLE conversation ADD COLUMN folder INTEGER REFERENCES folder (id) ON DELETE SET NULL;
CREATE INDEX conversation_by_folder ON conversation (folder) WHERE folder IS NOT NULL;
CREATE TABLE tag (
    conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    PRIMARY KEY (conversation, name)
) STRICT, WITHOUT ROWID;
";

/// A folder, without its conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Id.
    pub id: i64,
    /// Display name.
    pub name: String,
    /// System prompt of its conversations. `None` means the default.
    pub system_prompt: Option<String>,
    /// Default settings of its conversations, as the caller's JSON.
    pub settings: Option<String>,
}

fn row(row: &Row<'_>) -> rusqlite::Result<Folder> {
    Ok(Folder {
        id: row.get(0)?,
        name: row.get(1)?,
        system_prompt: row.get(2)?,
        settings: row.get(3)?,
    })
}

/// All rows that are not deleted, in the order of their creation.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<Folder>> {
    connection
        .prepare_cached("SELECT id, name, system_prompt, settings FROM folder WHERE deleted_at IS NULL ORDER BY id")?
        .query_map([], row)?
        .collect()
}

/// Returns one that is not deleted.
pub fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Folder>> {
    connection
        .prepare_cached("SELECT id, name, system_prompt, settings FROM folder WHERE id = ?1 AND deleted_at IS NULL")?
        .query_row(params![id], row)
        .optional()
}

/// The folder of a conversation, unless the folder is deleted.
pub fn of_conversation(connection: &Connection, conversation: i64) -> rusqlite::Result<Option<Folder>> {
    connection
        .prepare_cached(
            "SELECT f.id, f.name, f.system_prompt, f.settings FROM folder f JOIN conversation c ON c.folder = f.id
             WHERE c.id = ?1 AND f.deleted_at IS NULL",
        )?
        .query_row(params![conversation], row)
        .optional()
}

/// Creates a folder; ids are never reused.
pub fn create(connection: &Connection, name: &str, now: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("INSERT INTO folder (name, created_at) VALUES (?1, ?2)")?
        .execute(params![name, now])?;
    Ok(connection.last_insert_rowid())
}

/// Updates all fields of a row. Returns `false` if it does not exist.
pub fn update(connection: &Connection, folder: &Folder) -> rusqlite::Result<bool> {
    let sql = "UPDATE folder SET name = ?2, system_prompt = ?3, settings = ?4 WHERE id = ?1 AND deleted_at IS NULL";
    let Folder {
        id,
        name,
        system_prompt,
        settings,
    } = folder;
    changed(connection, sql, params![id, name, system_prompt, settings])
}

/// Marks a row as deleted. Returns `false` if it does not exist.
pub fn delete(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE folder SET deleted_at = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, now])
}

/// Undoes a deletion. Returns `false` if it was not deleted.
pub fn restore(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE folder SET deleted_at = NULL WHERE id = ?1 AND deleted_at IS NOT NULL";
    changed(connection, sql, params![id])
}

/// Removes folders deleted before a time. Their conversations are kept. Returns the number of
/// folders.
pub fn purge(connection: &Connection, before: i64) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM folder WHERE deleted_at < ?1")?
        .execute(params![before])
}

/// Moves a conversation into a folder, or out of its folder. Returns `false` if either does not
/// exist.
pub fn put(connection: &Connection, conversation: i64, folder: Option<i64>) -> rusqlite::Result<bool> {
    let sql = "UPDATE conversation SET folder = ?2 WHERE id = ?1 AND deleted_at IS NULL
               AND (?2 IS NULL OR EXISTS (SELECT 1 FROM folder WHERE id = ?2 AND deleted_at IS NULL))";
    changed(connection, sql, params![conversation, folder])
}

/// Sets the tags of a conversation.
pub fn set_tags(connection: &Connection, conversation: i64, tags: &[String]) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM tag WHERE conversation = ?1")?
        .execute(params![conversation])?;
    let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO tag (conversation, name) VALUES (?1, ?2)")?;
    for tag in tags {
        insert.execute(params![conversation, tag])?;
    }
    Ok(())
}

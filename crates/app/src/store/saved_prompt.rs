//! Saved prompts: texts that the user inserts into a message by `/name`.

use super::changed;
use rusqlite::{Connection, params};

pub(super) const MIGRATION: &str = "
CREATE TABLE saved_prompt (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    text TEXT NOT NULL
) STRICT;
";

/// A saved prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedPrompt {
    /// Id.
    pub id: i64,
    /// The name after the slash.
    pub name: String,
    /// The text, with `{{variables}}`.
    pub text: String,
}

/// All rows, ordered by name.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<SavedPrompt>> {
    connection
        .prepare_cached("SELECT id, name, text FROM saved_prompt ORDER BY name")?
        .query_map([], |row| {
            Ok(SavedPrompt {
                id: row.get(0)?,
                name: row.get(1)?,
                text: row.get(2)?,
            })
        })?
        .collect()
}

/// Whether another row has this name; case does not matter.
pub fn is_taken(connection: &Connection, name: &str, except: Option<i64>) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM saved_prompt WHERE name = ?1 AND id IS NOT ?2)")?
        .query_row(params![name, except], |row| row.get(0))
}

/// Creates a row. Returns its id.
pub fn create(connection: &Connection, name: &str, text: &str) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("INSERT INTO saved_prompt (name, text) VALUES (?1, ?2)")?
        .execute(params![name, text])?;
    Ok(connection.last_insert_rowid())
}

/// Changes a row. Returns `false` if it does not exist.
pub fn update(connection: &Connection, id: i64, name: &str, text: &str) -> rusqlite::Result<bool> {
    let sql = "UPDATE saved_prompt SET name = ?2, text = ?3 WHERE id = ?1";
    changed(connection, sql, params![id, name, text])
}

/// Removes a row. Returns `false` if it does not exist.
pub fn delete(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    changed(connection, "DELETE FROM saved_prompt WHERE id = ?1", params![id])
}

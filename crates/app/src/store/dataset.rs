//! Datasets added by their path; the files are not copied. Removing one only marks it; it is purged
//! later.

use super::changed;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::PathBuf;

pub(super) const MIGRATION: &str = "
CREATE TABLE dataset (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    examples INTEGER,
    deleted_at INTEGER
) STRICT;
";

/// One dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Id.
    pub id: i64,
    /// The file.
    pub path: PathBuf,
    /// Display name.
    pub name: String,
    /// Milliseconds since 1970.
    pub added_at: i64,
    /// Number of examples at the last inspection.
    pub examples: Option<u32>,
}

const COLUMNS: &str = "id, path, name, added_at, examples";

fn read_row(row: &Row<'_>) -> rusqlite::Result<Dataset> {
    Ok(Dataset {
        id: row.get(0)?,
        path: PathBuf::from(row.get::<_, String>(1)?),
        name: row.get(2)?,
        added_at: row.get(3)?,
        examples: row.get(4)?,
    })
}

/// All rows that are not deleted, newest first.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<Dataset>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM dataset WHERE deleted_at IS NULL ORDER BY added_at DESC, id DESC"
        ))?
        .query_map([], read_row)?
        .collect()
}

/// The row of an id, unless it is deleted.
pub fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Dataset>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM dataset WHERE id = ?1 AND deleted_at IS NULL"
        ))?
        .query_row(params![id], read_row)
        .optional()
}

/// Adds a path and returns its id. An existing row is unchanged, or restored if deleted.
pub fn add(connection: &Connection, path: &str, name: &str, now: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO dataset (path, name, added_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (path) DO UPDATE SET deleted_at = NULL RETURNING id",
        )?
        .query_row(params![path, name, now], |row| row.get(0))
}

/// Renames a row. Returns `false` if it does not exist.
pub fn rename(connection: &Connection, id: i64, name: &str) -> rusqlite::Result<bool> {
    let sql = "UPDATE dataset SET name = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, name])
}

/// Sets the number of examples. Returns `false` if the row does not exist.
pub fn set_examples(connection: &Connection, id: i64, examples: u32) -> rusqlite::Result<bool> {
    let sql = "UPDATE dataset SET examples = ?2 WHERE id = ?1";
    changed(connection, sql, params![id, examples])
}

/// Marks a row as deleted. Returns `false` if it does not exist.
pub fn delete(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE dataset SET deleted_at = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, now])
}

/// Undoes a deletion. Returns `false` if it was not deleted.
pub fn restore(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE dataset SET deleted_at = NULL WHERE id = ?1 AND deleted_at IS NOT NULL";
    changed(connection, sql, params![id])
}

/// Removes datasets deleted before a time. Returns their number.
pub fn purge(connection: &Connection, before: i64) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM dataset WHERE deleted_at < ?1")?
        .execute(params![before])
}

//! Adapters, of runs or imported by their path. A run's adapter is deleted and restored with it.

use super::changed;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{collections::HashSet, path::PathBuf};

pub(super) const MIGRATION: &str = "
CREATE TABLE adapter (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    run INTEGER UNIQUE REFERENCES run (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    model_name TEXT NOT NULL,
    path TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
";

/// One adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adapter {
    /// Id.
    pub id: i64,
    /// Display name.
    pub name: String,
    /// Id of its run. `None` means imported.
    pub run: Option<i64>,
    /// Id of the base model in the library. Empty means that it was imported or downloaded without
    /// a base model.
    pub model: String,
    /// The base model's name at that time; may also be empty.
    pub model_name: String,
    /// File or folder.
    pub path: PathBuf,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Outcome of its run, as the caller's JSON.
    pub outcome: Option<String>,
}

const SELECT: &str = "SELECT a.id, a.name, a.run, a.model, a.model_name, a.path, a.created_at, r.outcome
    FROM adapter a LEFT JOIN run r ON r.id = a.run
    WHERE a.deleted_at IS NULL AND r.deleted_at IS NULL";

fn row(row: &Row<'_>) -> rusqlite::Result<Adapter> {
    Ok(Adapter {
        id: row.get(0)?,
        name: row.get(1)?,
        run: row.get(2)?,
        model: row.get(3)?,
        model_name: row.get(4)?,
        path: PathBuf::from(row.get::<_, String>(5)?),
        created_at: row.get(6)?,
        outcome: row.get(7)?,
    })
}

/// All rows that are not deleted, newest first.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<Adapter>> {
    connection
        .prepare_cached(&format!("{SELECT} ORDER BY a.id DESC"))?
        .query_map([], row)?
        .collect()
}

/// Returns one that is not deleted.
pub fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Adapter>> {
    connection
        .prepare_cached(&format!("{SELECT} AND a.id = ?1"))?
        .query_row(params![id], row)
        .optional()
}

/// Id of a run's adapter, unless deleted.
pub fn of_run(connection: &Connection, run: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM adapter WHERE run = ?1 AND deleted_at IS NULL")?
        .query_row(params![run], |row| row.get(0))
        .optional()
}

/// A new adapter; see [`Adapter`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct New<'a> {
    pub name: &'a str,
    pub run: Option<i64>,
    pub model: &'a str,
    pub model_name: &'a str,
    pub path: &'a str,
    pub created_at: i64,
}

/// Adds an adapter and returns its id. A run's existing adapter gets the new name and path, and is
/// restored if deleted: its files are new.
pub fn add(connection: &Connection, new: &New<'_>) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO adapter (name, run, model, model_name, path, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (run) DO UPDATE SET name = ?1, path = ?5, created_at = ?6, deleted_at = NULL RETURNING id",
        )?
        .query_row(
            params![new.name, new.run, new.model, new.model_name, new.path, new.created_at],
            |row| row.get(0),
        )
}

/// Renames a row. Returns `false` if it does not exist.
pub fn rename(connection: &Connection, id: i64, name: &str) -> rusqlite::Result<bool> {
    let sql = "UPDATE adapter SET name = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, name])
}

/// Marks a row as deleted. Returns `false` if it does not exist.
pub fn delete(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE adapter SET deleted_at = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, now])
}

/// Undoes a deletion. Returns `false` if it was not deleted.
pub fn restore(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE adapter SET deleted_at = NULL WHERE id = ?1 AND deleted_at IS NOT NULL";
    changed(connection, sql, params![id])
}

/// A deleted adapter; see [`Adapter`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Deleted {
    pub id: i64,
    pub run: Option<i64>,
    pub path: PathBuf,
    pub deleted_at: i64,
}

/// Adapters deleted before a time.
pub fn deleted(connection: &Connection, before: i64) -> rusqlite::Result<Vec<Deleted>> {
    connection
        .prepare_cached("SELECT id, run, path, deleted_at FROM adapter WHERE deleted_at < ?1")?
        .query_map(params![before], |row| {
            Ok(Deleted {
                id: row.get(0)?,
                run: row.get(1)?,
                path: PathBuf::from(row.get::<_, String>(2)?),
                deleted_at: row.get(3)?,
            })
        })?
        .collect()
}

/// The paths of all rows, also of deleted ones.
pub fn paths(connection: &Connection) -> rusqlite::Result<HashSet<PathBuf>> {
    connection
        .prepare_cached("SELECT path FROM adapter")?
        .query_map([], |row| row.get::<_, String>(0).map(PathBuf::from))?
        .collect()
}

/// Undoes the deletion of imported adapters with this path. Returns their ids and names.
pub fn restore_path(connection: &Connection, path: &str) -> rusqlite::Result<Vec<(i64, String)>> {
    connection
        .prepare_cached(
            "UPDATE adapter SET deleted_at = NULL WHERE path = ?1 AND run IS NULL AND deleted_at IS NOT NULL
             RETURNING id, name",
        )?
        .query_map(params![path], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Removes a deleted adapter.
pub fn remove(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM adapter WHERE id = ?1 AND deleted_at IS NOT NULL";
    changed(connection, sql, params![id])
}

//! Models added by their path; the files are not copied.

use rusqlite::{Connection, params};
use std::path::PathBuf;

pub(super) const MIGRATION: &str = "
CREATE TABLE model (
    path TEXT PRIMARY KEY,
    added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// The paths, oldest first.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<PathBuf>> {
    connection
        .prepare_cached("SELECT path FROM model ORDER BY added_at, path")?
        .query_map([], |row| row.get::<_, String>(0).map(PathBuf::from))?
        .collect()
}

/// Adds a path; an existing one is unchanged.
pub fn add(connection: &Connection, path: &str, now: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO model (path, added_at) VALUES (?1, ?2) ON CONFLICT (path) DO NOTHING")?
        .execute(params![path, now])?;
    Ok(())
}

/// Removes a path. Returns `false` if it does not exist.
pub fn remove(connection: &Connection, path: &str) -> rusqlite::Result<bool> {
    Ok(connection
        .prepare_cached("DELETE FROM model WHERE path = ?1")?
        .execute(params![path])?
        > 0)
}

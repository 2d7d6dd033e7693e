//! Settings: one row per key, the value as JSON.

use rusqlite::{Connection, OptionalExtension, params};

pub(super) const MIGRATION: &str = "
CREATE TABLE setting (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// The value of a key, if it has one.
pub fn get(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM setting WHERE key = ?1")?
        .query_row(params![key], |row| row.get(0))
        .optional()
}

/// Sets a key.
pub fn set(connection: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO setting (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2")?
        .execute(params![key, value])?;
    Ok(())
}

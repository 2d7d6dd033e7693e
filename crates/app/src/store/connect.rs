//! Connections to a store's file.

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::path::Path;

/// Opens a file, which is created if missing.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    distrust(Connection::open(path)?)
}

/// Opens a file for reading.
pub(super) fn read_only(path: &Path) -> rusqlite::Result<Connection> {
    distrust(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

/// The file may be from someone else: its schema calls no function with effects, and no SQL changes
/// the schema or the search index but through their own statements.
fn distrust(connection: Connection) -> rusqlite::Result<Connection> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(connection)
}

//! Connections to a store's file.

use rusqlite::{Connection, OpenFlags, config::DbConfig, ffi};
use std::path::Path;

/// Opens a file, which is created if missing.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    restrict(Connection::open(path)?)
}

/// Opens a file and checkpoints its log, so that each transaction is in the file itself. Closing a
/// connection also does so, but does not report failures such as a full disk.
pub(super) fn open_without_log(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))?;
    if mode == "delete" {
        Ok(connection)
    } else {
        Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_IOERR),
            Some("its log could not be checkpointed".to_owned()),
        ))
    }
}

/// Opens a file for reading.
pub(super) fn read_only(path: &Path) -> rusqlite::Result<Connection> {
    restrict(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

/// Restricts a connection, because the file may be untrusted: its schema cannot call functions with
/// side effects, and SQL cannot write to the schema or the search index directly.
fn restrict(connection: Connection) -> rusqlite::Result<Connection> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(connection)
}

//! Preparation of a store from a backup or a move, before it replaces the current one.

use super::{Backup, FILE, MAX_FOREIGN_ID, Store, StoreError, clock, connect, lock, schema, setting};
use crate::{inside::inside, path_text::is_on_network, wire::Problem};
use rusqlite::{Connection, Transaction, params};
use std::path::{Path, PathBuf};

impl Store {
    /// Copies the store to a file. Other connections may read and write meanwhile.
    ///
    /// # Errors
    /// The disk is full or the store cannot be read.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let result = connect::read_only(&self.path).and_then(|connection| super::backup::copy(&connection, path));
        result.map_err(|error| StoreError::from_sqlite(error, &self.path))
    }
}

/// Runs work on a data folder whose store is closed, while it is locked.
///
/// # Errors
/// Another Hearth uses the folder, or an error of `work`.
pub(crate) fn while_closed(folder: &Path, work: impl FnOnce() -> Result<(), Problem>) -> Result<(), Problem> {
    if !folder.is_dir() {
        return Ok(());
    }
    let _lock = lock(folder)?;
    work()
}

/// The values that adapt a store from a backup to this machine.
pub(crate) struct Restored<'a> {
    /// The data folder when the backup was made.
    pub old: &'a Path,
    /// The data folder.
    pub new: &'a Path,
    /// Keys and values of this machine's settings, which are kept.
    pub settings: &'a [(&'a str, String)],
}

/// Checks a copied store and changes its paths in the data folder `old` to those in `new`.
///
/// # Errors
/// The store is corrupt, or cannot be read or written.
pub(crate) fn prepare_moved(folder: &Path, old: &Path, new: &Path) -> Result<(), StoreError> {
    let copy = Backup {
        path: folder.join(FILE),
        made_at: 0,
    };
    copy.check()?;
    change(folder, |t| move_paths(t, old, new))
}

/// Checks an extracted store, which is untrusted, and prepares it for this machine.
/// Returns its number of conversations.
///
/// # Errors
/// It is corrupt, from a newer Hearth, or not as Hearth writes it.
pub(crate) fn prepare_restored(folder: &Path, restored: &Restored<'_>) -> Result<u32, StoreError> {
    let path = folder.join(FILE);
    let at = |error| StoreError::from_sqlite(error, &path);
    let connection = connect::open_without_log(&path).map_err(at)?;
    schema::check(&connection, &path, MAX_FOREIGN_ID)?;
    connection.close().map_err(|(_, error)| at(error))?;
    change(folder, |t| {
        move_paths(t, restored.old, restored.new)?;
        disconnect_paths(t, restored.new)?;
        pause_downloads(t)?;
        keep_downloaded_adapters(t)?;
        keep_settings(t, restored.settings)?;
        let count = "SELECT count(*) FROM conversation WHERE deleted_at IS NULL";
        t.query_row(count, [], |row| row.get(0))
    })
}

fn change<T>(folder: &Path, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
    let path = folder.join(FILE);
    let run = || {
        let mut connection = connect::open_without_log(&path)?;
        let transaction = connection.transaction()?;
        let result = work(&transaction)?;
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(result)
    };
    run().map_err(|error| StoreError::from_sqlite(error, &path))
}

/// Columns with paths, which may be in the data folder.
const PATHS: [(&str, &str); 4] = [
    ("adapter", "path"),
    ("dataset", "path"),
    ("run", "data_path"),
    // The path of a complete download. Of other downloads it is a problem or empty.
    ("download", "detail"),
];

/// Changes paths in the data folder `old` to paths in `new`. A path outside of the data folder is
/// unchanged: it counts as the user's file.
fn move_paths(connection: &Connection, old: &Path, new: &Path) -> rusqlite::Result<()> {
    for (table, column) in PATHS {
        if !has_table(connection, table)? {
            continue;
        }
        for (id, path) in texts(connection, table, column)? {
            let Some(relative) = inside(Path::new(&path), old) else {
                continue;
            };
            let moved: PathBuf = new.join(relative);
            if let Some(moved) = moved.to_str() {
                let sql = format!("UPDATE {table} SET {column} = ?2 WHERE id = ?1");
                connection.execute(&sql, params![id, moved])?;
            }
        }
    }
    Ok(())
}

/// Columns with paths of files that are opened without a request by the user.
const OPENED: [(&str, &str); 4] = [
    ("model", "path"),
    ("adapter", "path"),
    ("dataset", "path"),
    ("run", "data_path"),
];

/// The prefix of a path that no system opens.
const DISCONNECTED: &str = "network:";

/// Makes network paths invalid, unless they are in the data folder `new`: Windows sends the user's
/// credentials to the machine that a path names.
fn disconnect_paths(connection: &Connection, new: &Path) -> rusqlite::Result<()> {
    for (table, column) in OPENED {
        if !has_table(connection, table)? {
            continue;
        }
        let paths: Vec<String> = connection
            .prepare(&format!("SELECT {column} FROM {table}"))?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let sql = format!("UPDATE {table} SET {column} = '{DISCONNECTED}' || {column} WHERE {column} = ?1");
        for path in paths {
            if is_on_network(&path) && inside(Path::new(&path), new).is_none() {
                connection.execute(&sql, [path])?;
            }
        }
    }
    Ok(())
}

/// Pauses all downloads: nothing is requested before the user resumes it. The list of a download's
/// files is dropped. Files of this machine may have the same names, and removing the download would
/// delete them. The hub is asked for the list again.
fn pause_downloads(connection: &Connection) -> rusqlite::Result<()> {
    if !has_table(connection, "download")? {
        return Ok(());
    }
    let pause = "UPDATE download SET state = 'paused', detail = NULL WHERE state NOT IN ('failed', 'done')";
    connection.execute(pause, [])?;
    connection.execute("UPDATE download SET remote = NULL", [])?;
    Ok(())
}

/// Removes the rows of deleted downloaded adapters. A backup has no files of downloaded adapters,
/// and such a row would delete this machine's files.
fn keep_downloaded_adapters(connection: &Connection) -> rusqlite::Result<()> {
    if has_table(connection, "adapter")? {
        connection.execute("DELETE FROM adapter WHERE run IS NULL AND deleted_at IS NOT NULL", [])?;
    }
    Ok(())
}

fn keep_settings(connection: &Connection, settings: &[(&str, String)]) -> rusqlite::Result<()> {
    if !has_table(connection, "setting")? {
        return Ok(());
    }
    clock::remove_if_invalid(connection)?;
    settings
        .iter()
        .try_for_each(|(key, value)| setting::set(connection, key, value))
}

/// The texts of a column with their ids.
fn texts(connection: &Connection, table: &str, column: &str) -> rusqlite::Result<Vec<(i64, String)>> {
    let sql = format!("SELECT id, {column} FROM {table} WHERE {column} IS NOT NULL");
    connection
        .prepare(&sql)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Whether a store has a table. Stores of early versions lack some.
fn has_table(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let exists = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    connection.query_row(exists, [table], |row| row.get(0))
}

//! A store from a backup of everything, before it replaces the present one.

use super::{Backup, FILE, Store, StoreError, lock, migrations};
use crate::wire::Problem;
use rusqlite::{Connection, OpenFlags, params};
use std::path::{Path, PathBuf};

impl Store {
    /// Copies the store to a file; others may read and write meanwhile.
    ///
    /// # Errors
    /// The disk is full or the store cannot be read.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let copied = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .and_then(|connection| super::backup::copy(&connection, path));
        copied.map_err(|error| StoreError::from_sqlite(error, &self.path))
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

/// Checks an extracted store and changes its paths in the data folder `old` to those in `new`.
/// Returns its number of conversations.
///
/// # Errors
/// The store is corrupt or from a newer Hearth.
pub(crate) fn prepare_restored(staging: &Path, old: &Path, new: &Path) -> Result<u32, Problem> {
    let path = staging.join(FILE);
    let backup = Backup {
        path: path.clone(),
        made_at: 0,
    };
    backup.check()?;
    let at = |error: rusqlite::Error| StoreError::from_sqlite(error, &path);
    let connection = Connection::open(&path).map_err(at)?;
    migrations::check(&connection, &path)?;
    let prepared = move_paths(&connection, old, new).and_then(|()| {
        connection.query_row(
            "SELECT count(*) FROM conversation WHERE deleted_at IS NULL",
            [],
            |row| row.get(0),
        )
    });
    let conversations = prepared.map_err(at)?;
    connection.close().map_err(|(_, error)| at(error))?;
    Ok(conversations)
}

/// Columns with paths, which may be in the data folder.
const PATHS: [(&str, &str); 4] = [
    ("adapter", "path"),
    ("dataset", "path"),
    ("run", "data_path"),
    // The path of a complete download; else a problem, which is no path.
    ("download", "detail"),
];

fn move_paths(connection: &Connection, old: &Path, new: &Path) -> rusqlite::Result<()> {
    for (table, column) in PATHS {
        let exists = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        if connection.query_row(exists, [table], |row| row.get::<_, i64>(0))? == 0 {
            // A store of an early version.
            continue;
        }
        let mut rows = connection.prepare(&format!("SELECT id, {column} FROM {table}"))?;
        let rows: Vec<(i64, Option<String>)> = rows
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        // A download that waits has no detail.
        let rows = rows.into_iter().filter_map(|(id, path)| Some((id, path?)));
        for (id, path) in rows {
            let Ok(inside) = Path::new(&path).strip_prefix(old) else {
                continue;
            };
            let moved: PathBuf = new.join(inside);
            if let Some(moved) = moved.to_str() {
                connection.execute(
                    &format!("UPDATE {table} SET {column} = ?2 WHERE id = ?1"),
                    params![id, moved],
                )?;
            }
        }
    }
    Ok(())
}

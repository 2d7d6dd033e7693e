//! Backups of the store, made with `VACUUM INTO`.

use super::{FILE, Store, StoreError, connect, migrations, now};
use crate::permissions;
use hearth_formats::durable::commit_file;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The folder of backups, in the data folder.
const FOLDER: &str = "hearth-backups";

/// Number of backups.
const MAX_BACKUPS: usize = 5;

/// The interval of backups.
const BACKUP_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// A backup of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The file, a complete store.
    pub path: PathBuf,
    /// Creation time in milliseconds since 1970, by the system clock.
    pub made_at: i64,
}

impl Backup {
    /// Checks the backup's integrity.
    ///
    /// # Errors
    /// The backup is corrupt or cannot be read.
    pub fn check(&self) -> Result<(), StoreError> {
        let read = || -> rusqlite::Result<String> {
            let connection = connect::read_only(&self.path)?;
            connection.pragma_query_value(None, "quick_check", |row| row.get(0))
        };
        match read() {
            Ok(message) if message == "ok" => Ok(()),
            Ok(detail) => Err(StoreError::Corrupt {
                path: self.path.clone(),
                detail,
            }),
            Err(error) => Err(StoreError::from_sqlite(error, &self.path)),
        }
    }
}

/// The backups in a data folder, newest first. One with a time in the future counts as the oldest.
pub fn backups(folder: &Path) -> Vec<Backup> {
    let backup = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let made_at = name.strip_prefix("hearth-")?.strip_suffix(".db")?.parse().ok()?;
        let path = entry.path();
        Some(Backup { path, made_at })
    };
    let entries = fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten();
    let mut backups: Vec<_> = entries.filter_map(backup).collect();
    let now = now();
    backups.sort_by_key(|backup| std::cmp::Reverse((backup.made_at <= now, backup.made_at)));
    backups
}

/// Backs up the store in `folder` through a connection, and removes the oldest backups.
///
/// # Errors
/// The disk is full or the store cannot be read. Existing backups are kept, and no partial backup
/// remains.
pub(super) fn make(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    let backup_folder = folder.join(FOLDER);
    let failed = |source: io::Error| StoreError::Backup {
        folder: backup_folder.clone(),
        source,
    };
    permissions::create_private_folder(&backup_folder).map_err(failed)?;
    for path in partial_backups(&backup_folder) {
        fs::remove_file(path).map_err(failed)?;
    }
    let path = backup_folder.join(format!("hearth-{}.db", now()));
    let unfinished = path.with_extension("unfinished");
    let result = copy(connection, &unfinished)
        .map_err(|error| StoreError::from_sqlite(error, &folder.join(FILE)))
        .and_then(|()| finish(&unfinished, &path).map_err(failed));
    if result.is_err() {
        // A partial backup takes up space.
        let _ = fs::remove_file(&unfinished);
        return result;
    }
    let older = backups(folder).into_iter().filter(|backup| backup.path != path);
    for old in older.skip(MAX_BACKUPS - 1) {
        fs::remove_file(&old.path).map_err(failed)?;
    }
    Ok(())
}

/// Copies the store in one transaction. Other connections may read and write meanwhile.
pub(super) fn copy(connection: &Connection, to: &Path) -> rusqlite::Result<()> {
    connection.execute("VACUUM INTO ?1", [SqlPath(to)]).map(|_| ())
}

fn finish(unfinished: &Path, path: &Path) -> io::Result<()> {
    permissions::create_private_file(unfinished)?;
    commit_file(unfinished, path)
}

/// Partial backups of a process that was killed.
fn partial_backups(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "unfinished"))
        .collect()
}

/// Backs the store up before migrations, unless it is new or up to date.
pub(super) fn before_migration(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    if migrations::is_older(connection)? {
        make(connection, folder)
    } else {
        Ok(())
    }
}

impl Store {
    /// Backs the store up if the last backup is a day old. The store can be used meanwhile.
    ///
    /// # Errors
    /// The disk is full or the store cannot be read.
    pub fn back_up_daily(&self) -> Result<(), StoreError> {
        let _not_frozen_meanwhile = crate::lock::lock(&self.backing_up);
        if self.is_frozen() {
            // The store is being copied by a move, which would not copy a new backup.
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let age = backups(folder).first().map(|newest| now() - newest.made_at);
        if age.is_some_and(|age| (0..BACKUP_INTERVAL.as_millis() as i64).contains(&age)) {
            return Ok(());
        }
        let connection = connect::read_only(&self.path);
        let connection = connection.map_err(|error| StoreError::from_sqlite(error, &self.path))?;
        make(&connection, folder)
    }
}

/// A path as an SQL parameter: text that may not be UTF-8.
pub(super) struct SqlPath<'a>(pub &'a Path);

impl ToSql for SqlPath<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(
            self.0.as_os_str().as_encoded_bytes(),
        )))
    }
}

//! Copies of the store, made by SQLite itself.

use super::{FILE, Store, StoreError, migrations, now};
use crate::library::private;
use hearth_formats::durable::sync_folder;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The folder of the copies, in that of the store.
const FOLDER: &str = "hearth-backups";

/// How many copies are kept.
const KEPT: usize = 5;

/// A store that is used is copied this often.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// A copy of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The file: a whole store.
    pub path: PathBuf,
    /// When it was made, in milliseconds since 1970, by the system's clock at that time.
    pub made_at: i64,
}

impl Backup {
    /// Refuses a copy that is damaged.
    ///
    /// # Errors
    /// What SQLite says of it.
    pub fn check(&self) -> Result<(), StoreError> {
        let read = || -> rusqlite::Result<String> {
            let connection = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            connection.pragma_query_value(None, "quick_check", |row| row.get(0))
        };
        match read() {
            Ok(found) if found == "ok" => Ok(()),
            Ok(what) => Err(StoreError::Damaged {
                path: self.path.clone(),
                what,
            }),
            Err(error) => Err(StoreError::from_sqlite(error, &self.path)),
        }
    }
}

/// The copies of the store in a folder, the newest first. One that was made when the system's clock was ahead counts as the oldest.
pub fn backups(folder: &Path) -> Vec<Backup> {
    let backup = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let made_at = name.strip_prefix("hearth-")?.strip_suffix(".db")?.parse().ok()?;
        let path = entry.path();
        Some(Backup { path, made_at })
    };
    let entries = fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.filter_map(backup).collect();
    let now = now();
    found.sort_by_key(|backup| std::cmp::Reverse((backup.made_at <= now, backup.made_at)));
    found
}

/// Copies the store that this connection is to, which is in `folder`, and lets the oldest copies go.
///
/// # Errors
/// There is no room, or the store cannot be read to its end. The copies that were there stay, and nothing else is left.
pub(super) fn make(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    let into = folder.join(FOLDER);
    let failed = |source: io::Error| StoreError::Backup {
        folder: into.clone(),
        source,
    };
    private::make(&into).map_err(failed)?;
    for left in leftovers(&into) {
        fs::remove_file(left).map_err(failed)?;
    }
    let path = into.join(format!("hearth-{}.db", now()));
    let unfinished = path.with_extension("unfinished");
    let copied = copy(connection, &unfinished)
        .map_err(|error| StoreError::from_sqlite(error, &folder.join(FILE)))
        .and_then(|()| {
            finish(&unfinished, &path)
                .and_then(|()| sync_folder(&into))
                .map_err(failed)
        });
    if copied.is_err() {
        // It would take the room that is missing.
        let _ = fs::remove_file(&unfinished);
        return copied;
    }
    let old = backups(folder).into_iter().filter(|backup| backup.path != path);
    for old in old.skip(KEPT - 1) {
        fs::remove_file(&old.path).map_err(failed)?;
    }
    Ok(())
}

/// All of the store in one transaction; others may read and write meanwhile.
fn copy(connection: &Connection, to: &Path) -> rusqlite::Result<()> {
    connection.execute("VACUUM INTO ?1", [SqlPath(to)]).map(|_| ())
}

fn finish(unfinished: &Path, path: &Path) -> io::Result<()> {
    private::file(unfinished)?;
    File::options().write(true).open(unfinished)?.sync_all()?;
    fs::rename(unfinished, path)
}

/// What a process left that ended while it made a copy.
fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "unfinished"))
        .collect()
}

/// Copies the store before its tables change, unless it is new or up to date.
pub(super) fn before_migration(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    match migrations::is_older(connection)? {
        true => make(connection, folder),
        false => Ok(()),
    }
}

impl Store {
    /// Copies the store if the last copy is a day old. It can be used meanwhile.
    ///
    /// # Errors
    /// There is no room, or the store cannot be read to its end.
    pub fn back_up_daily(&self) -> Result<(), StoreError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let age = backups(folder).first().map(|newest| now() - newest.made_at);
        if age.is_some_and(|age| (0..EVERY.as_millis() as i64).contains(&age)) {
            return Ok(());
        }
        let connection = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let connection = connection.map_err(|error| StoreError::from_sqlite(error, &self.path))?;
        make(&connection, folder)
    }
}

/// A path as SQLite takes it: bytes that need not be UTF-8.
pub(super) struct SqlPath<'a>(pub &'a Path);

impl ToSql for SqlPath<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(
            self.0.as_os_str().as_encoded_bytes(),
        )))
    }
}

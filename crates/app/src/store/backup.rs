//! Copies of the store, made by SQLite itself, and the ways back from a store that is damaged.

use super::{FILE, Store, StoreError, lock, migrations, now};
use crate::library::private;
use rusqlite::{Connection, OpenFlags};
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
    /// When it was made, in milliseconds since 1970.
    pub made_at: i64,
}

/// The copies of the store in a folder, the newest first.
pub fn backups(folder: &Path) -> Vec<Backup> {
    let backup = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let made_at = name.strip_prefix("hearth-")?.strip_suffix(".db")?.parse().ok()?;
        let path = entry.path();
        Some(Backup { path, made_at })
    };
    let entries = fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.filter_map(backup).collect();
    found.sort_by_key(|backup| std::cmp::Reverse(backup.made_at));
    found
}

/// Copies the store that this connection is to, which is in `folder`, and lets the oldest copies go.
///
/// # Errors
/// There is no room, or the store cannot be read to its end. The copies that were there stay.
pub(super) fn make(connection: &Connection, folder: &Path) -> Result<Backup, StoreError> {
    let into = folder.join(FOLDER);
    let failed = |source: io::Error| StoreError::Backup {
        folder: into.clone(),
        source,
    };
    private::make(&into).map_err(failed)?;
    let made_at = now();
    let path = into.join(format!("hearth-{made_at}.db"));
    let unfinished = path.with_extension("unfinished");
    for left in leftovers(&into) {
        fs::remove_file(left).map_err(failed)?;
    }
    // A copy without what was deleted, in one transaction; others may read and write meanwhile.
    let copied = connection.execute("VACUUM INTO ?1", [unfinished.to_string_lossy()]);
    copied.map_err(|error| StoreError::from_sqlite(error, &folder.join(FILE)))?;
    let whole = || -> io::Result<()> {
        private::file(&unfinished)?;
        File::options().write(true).open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &path)?;
        sync(&into)
    };
    whole().map_err(failed)?;
    for old in backups(folder).into_iter().skip(KEPT) {
        fs::remove_file(&old.path).map_err(failed)?;
    }
    Ok(Backup { path, made_at })
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
        true => make(connection, folder).map(|_| ()),
        false => Ok(()),
    }
}

impl Store {
    /// Copies the store if the last copy is a day old, or of another time. It can be used meanwhile.
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
        make(&connection, folder).map(|_| ())
    }

    /// Puts a copy in the place of the store in a folder, which is set aside; only ever by a person's choice. Answers where the old file
    /// went.
    ///
    /// # Errors
    /// The copy is damaged, or there is no room for another: then the store stays where it is.
    pub fn restore(folder: &Path, backup: &Backup) -> Result<PathBuf, StoreError> {
        check(&backup.path)?;
        let (path, coming) = (folder.join(FILE), folder.join("hearth-coming.db"));
        let failed = |source: io::Error| StoreError::Folder {
            folder: folder.to_owned(),
            source,
        };
        fs::copy(&backup.path, &coming).map_err(failed)?;
        File::options()
            .write(true)
            .open(&coming)
            .and_then(|file| file.sync_all())
            .map_err(failed)?;
        let aside = Self::set_aside(folder)?;
        let _lock = lock(folder)?;
        fs::rename(&coming, &path).map_err(failed)?;
        sync(folder).map_err(failed)?;
        Ok(aside)
    }

    /// Sets a damaged store aside and begins another one with every row that can still be read; only ever by a person's choice. Answers
    /// where the old file went, and how many rows came over.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn salvage(folder: &Path) -> Result<(PathBuf, usize), StoreError> {
        let aside = Self::set_aside(folder)?;
        let store = Self::open(folder)?;
        let saved = store
            .take_over(&aside)
            .map_err(|error| StoreError::from_sqlite(error, &store.path))?;
        Ok((aside, saved))
    }

    /// Copies what can be read of another store's tables.
    fn take_over(&self, other: &Path) -> rusqlite::Result<usize> {
        let connection = self.connection();
        // A parent's row may be lost.
        connection.pragma_update(None, "foreign_keys", false)?;
        let attached = connection.execute("ATTACH ?1 AS old", [other.to_string_lossy()]);
        let mut saved = 0;
        if attached.is_ok() {
            for table in migrations::TABLES {
                // A table of which nothing can be read costs the others nothing.
                saved += take_over_table(&connection, table).unwrap_or(0);
            }
            connection.execute_batch(MEND)?;
            // It may be too damaged to be closed in order.
            let _ = connection.execute("DETACH old", []);
        }
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(saved)
    }
}

/// Refuses a copy that is not whole.
fn check(path: &Path) -> Result<(), StoreError> {
    let read = || -> rusqlite::Result<String> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.pragma_query_value(None, "quick_check", |row| row.get(0))
    };
    match read() {
        Ok(found) if found == "ok" => Ok(()),
        Ok(what) => Err(StoreError::Damaged {
            path: path.to_owned(),
            what,
        }),
        Err(error) => Err(StoreError::from_sqlite(error, path)),
    }
}

/// Copies rows one by one: from the first until one cannot be read, then from the last.
fn take_over_table(connection: &Connection, table: &str) -> rusqlite::Result<usize> {
    let columns = common_columns(connection, table)?.join(", ");
    let insert = format!("INSERT OR IGNORE INTO main.{table} ({columns}) SELECT {columns} FROM old.{table}");
    if let Ok(all) = connection.execute(&insert, []) {
        return Ok(all);
    }
    let mut saved = 0;
    for order in ["ASC", "DESC"] {
        let ids = format!("SELECT rowid FROM old.{table} ORDER BY rowid {order}");
        let Ok(mut ids) = connection.prepare(&ids) else {
            continue;
        };
        let mut one = connection.prepare(&format!("{insert} WHERE rowid = ?1"))?;
        let Ok(ids) = ids.query_map([], |row| row.get::<_, i64>(0)) else {
            continue;
        };
        for id in ids {
            match id.and_then(|id| one.execute([id])) {
                Ok(rows) => saved += rows,
                Err(_) => break,
            }
        }
    }
    Ok(saved)
}

/// Columns that both stores have: the older one may lack some.
fn common_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = format!(
        "SELECT new.name FROM pragma_table_info('{table}', 'main') new
         JOIN pragma_table_info('{table}', 'old') old ON old.name = new.name"
    );
    connection.prepare(&sql)?.query_map([], |row| row.get(0))?.collect()
}

/// What becomes of rows whose counterpart was lost. A message without its conversation begins one.
const MEND: &str = "
INSERT INTO conversation (id, title, created_at, updated_at)
    SELECT conversation, 'Saved from a damaged file', min(created_at), max(created_at) FROM message
    WHERE conversation NOT IN (SELECT id FROM conversation) GROUP BY conversation;
UPDATE message SET parent = NULL WHERE parent NOT IN (SELECT id FROM message);
UPDATE conversation SET leaf = (SELECT max(message.id) FROM message WHERE message.conversation = conversation.id)
    WHERE leaf IS NULL OR leaf NOT IN (SELECT id FROM message);
UPDATE run SET dataset = NULL WHERE dataset NOT IN (SELECT id FROM dataset);
UPDATE adapter SET run = NULL WHERE run NOT IN (SELECT id FROM run);
DELETE FROM run_point WHERE run NOT IN (SELECT id FROM run);
DELETE FROM run_evaluation WHERE run NOT IN (SELECT id FROM run);
";

/// Makes a rename last through a loss of power.
#[cfg(unix)]
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Windows writes renames down by itself, and opens no folders.
#[cfg(not(unix))]
fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}

//! Restores or salvages a damaged store.
//!
//! The store that takes its place is whole before anything is moved, and one rename puts it there. The old store and its log are linked
//! under another name before that: a process that ends at any point leaves the old store or the new one. Between the removal of the old log
//! and the rename, the old store's last transactions are only under the other name.

use super::backup::SqlPath;
use super::{Backup, FILE, Store, StoreError, lock, migrations, now};
use hearth_formats::durable::sync_folder;
use rusqlite::Connection;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Where the store that is to come is made.
const COMING: &str = "hearth-coming";

impl Store {
    /// Puts a copy in the place of the store in a folder; only ever by a person's choice. Answers where the store that was there is now.
    ///
    /// # Errors
    /// The copy is damaged, or there is no room for another: then the store stays where it is.
    pub fn restore(folder: &Path, backup: &Backup) -> Result<PathBuf, StoreError> {
        let _lock = lock(folder)?;
        backup.check()?;
        replaced(folder, &|coming| {
            let failed = in_folder(folder);
            fs::copy(&backup.path, coming.join(FILE)).map_err(&failed)?;
            Ok(())
        })
    }

    /// Puts a new store with the rows that can still be read in the place of a damaged one; only ever by a person's choice. Answers where the
    /// damaged one is now.
    ///
    /// # Errors
    /// There is no room, or the folder cannot be written to: then the store stays where it is.
    pub fn salvage(folder: &Path) -> Result<PathBuf, StoreError> {
        let _lock = lock(folder)?;
        replaced(folder, &|coming| {
            // A copy is read, so that SQLite leaves the damaged file as it is.
            let old = coming.join("old.db");
            for ending in ["", "-wal"] {
                let (from, to) = (with_ending(&folder.join(FILE), ending), with_ending(&old, ending));
                if from.exists() {
                    fs::copy(from, to).map_err(in_folder(folder))?;
                }
            }
            let store = Self::open(coming)?;
            store
                .take_over(&old)
                .map_err(|error| StoreError::from_sqlite(error, &store.path))
        })
    }

    /// Copies what can be read of another store's tables.
    fn take_over(&self, other: &Path) -> rusqlite::Result<()> {
        let connection = self.connection();
        // A row's counterpart may be lost.
        connection.pragma_update(None, "foreign_keys", false)?;
        if connection.execute("ATTACH ?1 AS old", [SqlPath(other)]).is_err() {
            // Nothing of it can be read.
            return Ok(());
        }
        // No transaction: an error in the damaged store would roll back both databases.
        let mut saved = 0;
        for table in migrations::TABLES {
            // A table of which nothing can be read costs the others nothing.
            saved += take_over_table(&connection, table).unwrap_or(0);
        }
        connection.execute_batch(MEND)?;
        tracing::info!(saved, "rows of the damaged store came over");
        Ok(())
    }
}

/// Has a store made in a folder of its own, and puts it in the place of the one in `folder`.
fn replaced(folder: &Path, make: &dyn Fn(&Path) -> Result<(), StoreError>) -> Result<PathBuf, StoreError> {
    let coming = folder.join(COMING);
    let failed = in_folder(folder);
    let _ = fs::remove_dir_all(&coming);
    crate::library::private::make(&coming).map_err(&failed)?;
    let done = make(&coming)
        .and_then(|()| go_on_counting(&coming, folder))
        .and_then(|()| put_in_one_file(&coming))
        .and_then(|()| exchange(&coming.join(FILE), folder).map_err(&failed));
    let _ = fs::remove_dir_all(&coming);
    done
}

/// Runs are counted on from those whose folders are there: a run's number is never given twice.
fn go_on_counting(coming: &Path, folder: &Path) -> Result<(), StoreError> {
    let path = coming.join(FILE);
    let runs = fs::read_dir(folder.join("runs")).into_iter().flatten().flatten();
    let numbers = runs.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    let Some(greatest) = numbers.max() else { return Ok(()) };
    let count = || -> rusqlite::Result<()> {
        let mut connection = Connection::open(&path)?;
        let transaction = connection.transaction()?;
        let changed = transaction.execute(
            "UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'run'",
            [greatest],
        )?;
        if changed == 0 {
            transaction.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('run', ?1)", [greatest])?;
        }
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)
    };
    count().map_err(|error| StoreError::from_sqlite(error, &path))
}

/// Writes SQLite's log into the file, which is then all there is of the store. Closing it does so too, but does not tell when that fails.
fn put_in_one_file(coming: &Path) -> Result<(), StoreError> {
    let path = coming.join(FILE);
    let written = || -> rusqlite::Result<String> {
        let connection = Connection::open(&path)?;
        let mode = connection.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(mode)
    };
    let mode = written().map_err(|error| StoreError::from_sqlite(error, &path))?;
    match mode == "delete" && !with_ending(&path, "-wal").exists() {
        true => Ok(()),
        false => Err(in_folder(coming)(io::Error::other(
            "its log could not be written into it",
        ))),
    }
}

/// Puts a whole file in the place of the store. Answers under which name the store that was there is kept.
fn exchange(coming: &Path, folder: &Path) -> io::Result<PathBuf> {
    let store = folder.join(FILE);
    let aside = folder.join(format!("hearth-set-aside-{}.db", now()));
    for ending in ["", "-wal"] {
        let (from, to) = (with_ending(&store, ending), with_ending(&aside, ending));
        if from.exists() && fs::hard_link(&from, &to).is_err() {
            // A file system without links.
            fs::copy(&from, &to)?;
        }
    }
    File::options().write(true).open(coming)?.sync_all()?;
    sync_folder(folder)?;
    // They belong to the old store, which has them under its other name.
    for ending in ["-wal", "-shm"] {
        match fs::remove_file(with_ending(&store, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(coming, &store)?;
    sync_folder(folder)?;
    Ok(aside)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn in_folder(folder: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let folder = folder.to_owned();
    move |source| StoreError::Folder {
        folder: folder.clone(),
        source,
    }
}

/// Copies rows one by one: from the first until one cannot be read, then from the last. Of a table without row numbers all or none.
fn take_over_table(connection: &Connection, table: &str) -> rusqlite::Result<usize> {
    let columns = common_columns(connection, table)?.join(", ");
    let insert = format!("INSERT OR IGNORE INTO main.{table} ({columns}) SELECT {columns} FROM old.{table}");
    // A statement that fails half-way would leave the index of the search unlike its messages.
    if is_readable(connection, table) {
        return connection.execute(&insert, []);
    }
    let mut saved = 0;
    for order in ["ASC", "DESC"] {
        let ids = format!("SELECT rowid FROM old.{table} ORDER BY rowid {order}");
        let Ok(mut ids) = connection.prepare(&ids) else {
            continue;
        };
        let mut one = connection.prepare(&format!("{insert} WHERE rowid = ?1"))?;
        let mut whole = connection.prepare(&format!("SELECT * FROM old.{table} WHERE rowid = ?1"))?;
        let Ok(ids) = ids.query_map([], |row| row.get::<_, i64>(0)) else {
            continue;
        };
        for id in ids {
            let Ok(id) = id else { break };
            // As above: read first, then written.
            match whole.query_row([id], |_| Ok(())).and_then(|()| one.execute([id])) {
                Ok(rows) => saved += rows,
                Err(_) => break,
            }
        }
    }
    Ok(saved)
}

/// Whether every row of a damaged store's table can be read.
fn is_readable(connection: &Connection, table: &str) -> bool {
    let read = || -> rusqlite::Result<()> {
        let mut rows = connection.prepare(&format!("SELECT * FROM old.{table}"))?;
        let mut rows = rows.query([])?;
        // A step reads a whole row.
        while rows.next()?.is_some() {}
        Ok(())
    };
    read().is_ok()
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

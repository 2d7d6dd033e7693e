//! Restores or salvages a corrupt store.
//!
//! The new store is complete before anything is moved, and one rename puts it in place. The old
//! store and its log are first linked under another name: a process killed at any point leaves the
//! old store or the new one. Between the removal of the old log and the rename, the old store's
//! last transactions exist only under the other name.

use super::backup::SqlPath;
use super::{Backup, FILE, MAX_RUN_FOLDER, Store, StoreError, connect, lock, migrations, now, run_name};
use hearth_formats::durable::sync_folder;
use rusqlite::Connection;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// The staging folder of the new store.
const STAGING: &str = "hearth-coming";

impl Store {
    /// Replaces the store in a folder by a backup, on the user's request. Returns the new path of
    /// the old store.
    ///
    /// # Errors
    /// The backup is corrupt or the disk is full; the store is unchanged.
    pub fn restore(folder: &Path, backup: &Backup) -> Result<PathBuf, StoreError> {
        let _lock = lock(folder)?;
        backup.check()?;
        replace_store(folder, &|staging| {
            let failed = in_folder(folder);
            fs::copy(&backup.path, staging.join(FILE)).map_err(&failed)?;
            Ok(())
        })
    }

    /// Replaces a corrupt store by a new one with its readable rows, on the user's request. Returns
    /// the new path of the corrupt store.
    ///
    /// # Errors
    /// The disk is full or the folder is not writable; the store is unchanged.
    pub fn salvage(folder: &Path) -> Result<PathBuf, StoreError> {
        let _lock = lock(folder)?;
        replace_store(folder, &|staging| {
            // A copy is read, so that SQLite does not change the corrupt file.
            let old = staging.join("old.db");
            for suffix in ["", "-wal"] {
                let (from, to) = (with_suffix(&folder.join(FILE), suffix), with_suffix(&old, suffix));
                if from.exists() {
                    fs::copy(from, to).map_err(in_folder(folder))?;
                }
            }
            let store = Self::open(staging)?;
            store
                .copy_readable(&old)
                .map_err(|error| StoreError::from_sqlite(error, &store.path))
        })
    }

    /// Copies the readable rows of another store's tables.
    fn copy_readable(&self, other: &Path) -> rusqlite::Result<()> {
        let connection = self.connection();
        // Foreign keys are off because referenced rows may be lost.
        connection.pragma_update(None, "foreign_keys", false)?;
        if connection.execute("ATTACH ?1 AS old", [SqlPath(other)]).is_err() {
            // The file is not readable at all.
            return Ok(());
        }
        // No transaction: an error in the corrupt store would roll back both databases.
        let mut saved = 0;
        for table in migrations::TABLES {
            // An unreadable table does not affect the others.
            saved += copy_readable_table(&connection, table).unwrap_or(0);
        }
        connection.execute_batch(REPAIR)?;
        // The corrupt store may be of an earlier version.
        connection.execute_batch(run_name::MIGRATION)?;
        tracing::info!(saved, "rows of the corrupt store were recovered");
        Ok(())
    }
}

/// Makes a store in the staging folder and replaces the one in `folder` by it.
fn replace_store(folder: &Path, make: &dyn Fn(&Path) -> Result<(), StoreError>) -> Result<PathBuf, StoreError> {
    let staging = folder.join(STAGING);
    let failed = in_folder(folder);
    let _ = fs::remove_dir_all(&staging);
    crate::permissions::create_private_folder(&staging).map_err(&failed)?;
    let result = make(&staging)
        .and_then(|()| raise_run_sequence(&staging, folder))
        .and_then(|()| checkpoint_wal(&staging))
        .and_then(|()| swap_in(&staging.join(FILE), folder).map_err(&failed));
    let _ = fs::remove_dir_all(&staging);
    result
}

/// Raises the run ids' sequence above the existing runs' folders, so that no id is reused.
fn raise_run_sequence(staging: &Path, folder: &Path) -> Result<(), StoreError> {
    let path = staging.join(FILE);
    let runs = fs::read_dir(folder.join("runs")).into_iter().flatten().flatten();
    let numbers = runs.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    let Some(highest) = numbers.filter(|number| *number <= MAX_RUN_FOLDER).max() else {
        return Ok(());
    };
    let raise = || -> rusqlite::Result<()> {
        let mut connection = connect::open(&path)?;
        let transaction = connection.transaction()?;
        let changed = transaction.execute(
            "UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'run'",
            [highest],
        )?;
        if changed == 0 {
            transaction.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('run', ?1)", [highest])?;
        }
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)
    };
    raise().map_err(|error| StoreError::from_sqlite(error, &path))
}

/// Checkpoints SQLite's log into the file and deletes the log.
fn checkpoint_wal(staging: &Path) -> Result<(), StoreError> {
    let path = staging.join(FILE);
    let result = connect::open_without_log(&path).and_then(|connection| connection.close().map_err(|(_, error)| error));
    result.map_err(|error| StoreError::from_sqlite(error, &path))
}

/// Replaces the store by a complete file. Returns the old store's new path.
fn swap_in(staging: &Path, folder: &Path) -> io::Result<PathBuf> {
    let store = folder.join(FILE);
    let aside = folder.join(format!("hearth-set-aside-{}.db", now()));
    for suffix in ["", "-wal"] {
        let (from, to) = (with_suffix(&store, suffix), with_suffix(&aside, suffix));
        if from.exists() && fs::hard_link(&from, &to).is_err() {
            // The file system has no hard links.
            fs::copy(&from, &to)?;
        }
    }
    File::options().write(true).open(staging)?.sync_all()?;
    sync_folder(folder)?;
    // Removes the old store's log, which is kept under the other name.
    for suffix in ["-wal", "-shm"] {
        match fs::remove_file(with_suffix(&store, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(staging, &store)?;
    sync_folder(folder)?;
    Ok(aside)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn in_folder(folder: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let folder = folder.to_owned();
    move |source| StoreError::Folder {
        folder: folder.clone(),
        source,
    }
}

/// Copies rows one by one: from the first up to one that cannot be read, then from the last. A
/// table without row ids is copied whole or not at all.
fn copy_readable_table(connection: &Connection, table: &str) -> rusqlite::Result<usize> {
    let columns = common_columns(connection, table)?.join(", ");
    let insert = format!("INSERT OR IGNORE INTO main.{table} ({columns}) SELECT {columns} FROM old.{table}");
    // A statement that fails half-way would leave the search index inconsistent.
    if is_readable(connection, table) {
        return connection.execute(&insert, []);
    }
    let mut saved = 0;
    for order in ["ASC", "DESC"] {
        let ids = format!("SELECT rowid FROM old.{table} ORDER BY rowid {order}");
        let Ok(mut ids) = connection.prepare(&ids) else {
            continue;
        };
        let mut copy_row = connection.prepare(&format!("{insert} WHERE rowid = ?1"))?;
        let mut read_row = connection.prepare(&format!("SELECT * FROM old.{table} WHERE rowid = ?1"))?;
        let Ok(ids) = ids.query_map([], |row| row.get::<_, i64>(0)) else {
            continue;
        };
        for id in ids {
            let Ok(id) = id else { break };
            // The row is read before it is written, for the reason above.
            match read_row
                .query_row([id], |_| Ok(()))
                .and_then(|()| copy_row.execute([id]))
            {
                Ok(rows) => saved += rows,
                Err(_) => break,
            }
        }
    }
    Ok(saved)
}

/// Whether every row of a table of the corrupt store is readable.
fn is_readable(connection: &Connection, table: &str) -> bool {
    let read = || -> rusqlite::Result<()> {
        let mut rows = connection.prepare(&format!("SELECT * FROM old.{table}"))?;
        let mut rows = rows.query([])?;
        // Each step reads a whole row.
        while rows.next()?.is_some() {}
        Ok(())
    };
    read().is_ok()
}

/// Columns of both stores: the older one may lack some.
fn common_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = format!(
        "SELECT new.name FROM pragma_table_info('{table}', 'main') new
         JOIN pragma_table_info('{table}', 'old') old ON old.name = new.name"
    );
    connection.prepare(&sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Repairs rows with dangling references. Messages without their conversation get a new one. The
/// oldest message left of a deletion whose first message is lost identifies it.
const REPAIR: &str = "
INSERT INTO conversation (id, title, created_at, updated_at)
    SELECT conversation, 'Saved from a corrupt file', min(created_at), max(created_at) FROM message
    WHERE conversation NOT IN (SELECT id FROM conversation) GROUP BY conversation;
UPDATE message SET parent = NULL WHERE parent NOT IN (SELECT id FROM message);
UPDATE conversation SET leaf = (SELECT max(message.id) FROM message WHERE message.conversation = conversation.id)
    WHERE leaf IS NULL OR leaf NOT IN (SELECT id FROM message);
UPDATE run SET dataset = NULL WHERE dataset NOT IN (SELECT id FROM dataset);
UPDATE adapter SET run = NULL WHERE run NOT IN (SELECT id FROM run);
UPDATE model SET adapter = NULL WHERE adapter NOT IN (SELECT id FROM adapter);
DELETE FROM run_point WHERE run NOT IN (SELECT id FROM run);
DELETE FROM run_evaluation WHERE run NOT IN (SELECT id FROM run);
DELETE FROM unsent WHERE conversation NOT IN (SELECT id FROM conversation);
DELETE FROM deleted_message WHERE conversation NOT IN (SELECT id FROM conversation)
    OR id IN (SELECT id FROM message);
UPDATE deleted_message SET parent = NULL
    WHERE parent NOT IN (SELECT id FROM message UNION ALL SELECT id FROM deleted_message);
UPDATE deleted_message SET deletion = lost.root
    FROM (SELECT deletion, min(id) AS root FROM deleted_message GROUP BY deletion
        HAVING deletion NOT IN (SELECT id FROM deleted_message WHERE id = deletion)) AS lost
    WHERE deleted_message.deletion = lost.deletion;
UPDATE sqlite_sequence SET seq = max(seq, (SELECT coalesce(max(id), 0) FROM deleted_message)) WHERE name = 'message';
INSERT INTO sqlite_sequence (name, seq) SELECT 'message', max(id) FROM deleted_message
    WHERE 'message' NOT IN (SELECT name FROM sqlite_sequence) HAVING count(*) > 0;
";

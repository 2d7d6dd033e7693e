//! The one store: conversations, settings, added models, measurements, datasets, runs and adapters in one SQLite file.
//!
//! A table is a module that holds its migration, row, reads and writes. A use case takes one transaction through
//! [`Store::write`]. The store is locked for as long as it is open: two apps never write the same conversations.

pub mod adapter;
mod backup;
mod clock;
pub mod conversation;
pub mod dataset;
mod error;
pub mod measurement;
pub mod message;
mod migrations;
pub mod model;
mod recovery;
pub mod run;
pub mod run_evaluation;
pub mod run_point;
pub mod search;
pub mod setting;

pub use backup::{Backup, backups};
pub use error::StoreError;

use crate::library::private;
use clock::Clock;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The file of conversations, in the data folder.
pub const FILE: &str = "hearth.db";

/// Locked while a store is open.
const LOCK: &str = "hearth.lock";

/// How long a deleted conversation or dataset can be restored.
const KEEP_DELETED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Another process (a backup, a person's `sqlite3`) may hold the file for a moment.
const BUSY: Duration = Duration::from_secs(5);

/// What a write may wait for another process that is tried again anyway.
const BRIEFLY: Duration = Duration::from_millis(50);

/// In the lock file while a store is open: found at the next start, the last one did not end well.
const OPEN: &[u8] = b"open";

/// Milliseconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
    clock: Clock,
    lock: File,
    path: PathBuf,
    /// Whether SQLite has met damage.
    is_damaged: AtomicBool,
    /// How long a transaction waits for another process.
    patience: AtomicU64,
}

impl Store {
    /// Opens the store in a folder, which is made if it is not there. Answers that were left unfinished become stopped ones,
    /// runs interrupted ones, and conversations and datasets deleted a month ago are purged. A file that is damaged, not Hearth's or from a
    /// newer Hearth is left as it is.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        private::data_folder(folder).map_err(|source| StoreError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let mut lock = lock(folder)?;
        let path = folder.join(FILE);
        // SQLite gives the files beside it the same rights.
        let private = [LOCK, FILE]
            .iter()
            .try_for_each(|name| private::file(&folder.join(name)));
        private.map_err(|source| StoreError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let clean = !marked_open(&mut lock);

        let mut connection = Connection::open(&path).map_err(|error| StoreError::from_sqlite(error, &path))?;
        // A store that turns out to be damaged stays as it is: its log is not written into it at the end.
        let at_end = |connection: &Connection, leave: bool| {
            let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave);
            set.map_err(|error| StoreError::from_sqlite(error, &path))
        };
        at_end(&connection, true)?;
        let clock = prepare(&mut connection, folder, &path, clean).map_err(|error| error.at(&path))?;
        at_end(&connection, false)?;
        mark(&mut lock, OPEN);
        Ok(Self {
            connection: Mutex::new(connection),
            clock,
            lock,
            path,
            is_damaged: AtomicBool::new(false),
            patience: AtomicU64::new(BUSY.as_millis() as u64),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Milliseconds since 1970 by a clock that does not jump: when something is deleted that is purged later.
    pub fn time(&self) -> i64 {
        self.clock.now()
    }

    /// Runs reads that belong together; what they see does not change between them.
    pub fn read<T>(&self, reads: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.transact(TransactionBehavior::Deferred, reads)
    }

    /// Runs writes that belong together: all of them happen, or none.
    pub fn write<T>(&self, writes: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.transact(TransactionBehavior::Immediate, writes)
    }

    /// As [`Store::write`], for what is tried again: waits a moment only, for another process as for another thread.
    ///
    /// # Errors
    /// [`StoreError::Busy`] where that was too short; then nothing was written.
    pub fn write_if_free<T>(
        &self,
        writes: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let until = Instant::now() + BRIEFLY;
        let mut connection = loop {
            match self.connection.try_lock() {
                Ok(connection) => break connection,
                // As in `connection`.
                Err(TryLockError::Poisoned(held)) => break held.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(BRIEFLY / 10),
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Busy {
                        path: self.path.clone(),
                    });
                }
            }
        };
        let waits = |connection: &Connection, patience| {
            let set = connection.busy_timeout(patience);
            set.map_err(|error| StoreError::from_sqlite(error, &self.path))
        };
        waits(&connection, BRIEFLY)?;
        let written = self.run(&mut connection, TransactionBehavior::Immediate, writes);
        waits(&connection, self.patience())?;
        written
    }

    /// How long a transaction waits for another process that holds the store.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.patience.load(Ordering::Relaxed))
    }

    /// Has transactions wait this long for another process that holds the store, and no longer; 5 seconds unless set.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn set_patience(&self, patience: Duration) -> Result<(), StoreError> {
        let set = self.connection().busy_timeout(patience);
        set.map_err(|error| StoreError::from_sqlite(error, &self.path))?;
        self.patience.store(patience.as_millis() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn transact<T>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.run(&mut self.connection(), behavior, work)
    }

    fn run<T>(
        &self,
        connection: &mut Connection,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let run = || -> rusqlite::Result<T> {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run().map_err(|error| {
            let error = StoreError::from_sqlite(error, &self.path);
            if matches!(error, StoreError::Damaged { .. }) {
                self.is_damaged.store(true, Ordering::Relaxed);
            }
            error
        })
    }

    /// Lets the file grow to this many bytes and no further, as a full disk would; none lifts the limit. What does not
    /// fit is refused with [`StoreError::DiskFull`].
    pub fn limit_size(&self, bytes: Option<u64>) -> Result<(), StoreError> {
        let connection = self.connection();
        let limit = || -> rusqlite::Result<()> {
            let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0))? as u64;
            // SQLite's own largest number of pages. Zero would change nothing; fewer than there are is as many as there are.
            let pages = bytes.map_or(4_294_967_294, |bytes| (bytes / page.max(1)).max(1));
            connection.pragma_update_and_check(None, "max_page_count", pages as i64, |_| Ok(()))
        };
        limit().map_err(|error| StoreError::from_sqlite(error, &self.path))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic while it was held rolled its transaction back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.is_damaged.load(Ordering::Relaxed) {
            // The lock keeps its mark, so that the next start checks the whole file.
            return;
        }
        if let Err(error) = self.clock.keep(&self.connection(), now()) {
            tracing::debug!(%error, "the store's clock could not be written down");
        }
        mark(&mut self.lock, b"");
    }
}

/// Paths of the models a person added, from a store that may be open in another process; none where there is no store.
pub fn added_models(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read = || -> rusqlite::Result<Vec<PathBuf>> {
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(BUSY)?;
        if migrations::version(&connection)? == 0 {
            return Ok(Vec::new());
        }
        model::list(&connection)
    };
    read().map_err(|error| StoreError::from_sqlite(error, &path))
}

fn prepare(connection: &mut Connection, folder: &Path, path: &Path, clean: bool) -> Result<Clock, StoreError> {
    connection.busy_timeout(BUSY)?;
    // Asked before anything is written, so that a file that is not ours stays as it is.
    migrations::check(connection, path)?;
    if !clean {
        let found: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        if found != "ok" {
            return Err(StoreError::Damaged {
                path: path.to_owned(),
                what: found,
            });
        }
    }
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    backup::before_migration(connection, folder)?;
    migrations::run(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let stopped = message::stop_unfinished(&transaction)?;
    let interrupted = run::interrupt_unfinished(&transaction)?;
    let clock = Clock::open(&transaction, now())?;
    let before = clock.now() - KEEP_DELETED.as_millis() as i64;
    let purged = conversation::purge(&transaction, before)? + dataset::purge(&transaction, before)?;
    transaction.commit()?;
    tracing::info!(stopped, interrupted, purged, clean, "the store is open");
    Ok(clock)
}

/// A number for a column that must have one: SQLite takes NaN for nothing, and a rate that came to none says as little as 0.
fn or_zero(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number }
}

/// Runs a statement; whether it changed a row.
fn changed(connection: &Connection, sql: &str, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<bool> {
    Ok(connection.prepare_cached(sql)?.execute(values)? > 0)
}

/// How long the lock of one that has just ended may linger: a process that it was starting holds it, too, until it runs its own program.
const PATIENCE: Duration = Duration::from_millis(500);

fn lock(folder: &Path) -> Result<File, StoreError> {
    let failed = |source| StoreError::Folder {
        folder: folder.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join(LOCK))
        .map_err(failed)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(PATIENCE / 20),
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::InUse(folder.to_owned())),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

fn marked_open(lock: &mut File) -> bool {
    let mut text = Vec::new();
    lock.read_to_end(&mut text).is_ok() && text == OPEN
}

/// Best effort: a mark that is wrong costs one check of the file at the next start.
fn mark(lock: &mut File, text: &[u8]) {
    let write = |lock: &mut File| {
        lock.set_len(0)?;
        lock.seek(SeekFrom::Start(0))?;
        lock.write_all(text)
    };
    if let Err(error) = write(lock) {
        tracing::debug!(%error, "the store's lock file could not be marked");
    }
}

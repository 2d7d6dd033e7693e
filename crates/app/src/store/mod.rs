//! The store: conversations, settings, added models, measurements, datasets, runs and adapters in
//! one SQLite file.
//!
//! Each table has a module with its migration, row type, reads and writes. A use case runs one
//! transaction through [`Store::write`]. An open store is locked, so that two apps never write to
//! it.

pub mod adapter;
pub mod answer_tokens;
mod backup;
mod clock;
mod connect;
pub mod conversation;
pub mod dataset;
pub mod deleted_message;
pub mod download;
mod error;
pub mod folder;
pub mod measurement;
pub mod message;
mod message_parts;
mod migrations;
pub mod model;
mod recovery;
mod restored;
pub mod run;
pub mod run_evaluation;
pub mod run_name;
pub mod run_point;
pub mod saved_prompt;
mod schema;
pub mod search;
pub mod setting;
pub mod title_source;
pub mod unsent;

pub use backup::{Backup, backups};
pub(crate) use clock::clock_of;
pub use error::StoreError;
pub(crate) use restored::{Restored, prepare_moved, prepare_restored, while_closed};
pub(crate) use schema::check_copy;

use crate::permissions;
use clock::Clock;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};
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

/// The store's file, in the data folder.
pub const FILE: &str = "hearth.db";

/// The lock file, locked while the store is open.
const LOCK: &str = "hearth.lock";

/// Highest id and time, within the exact integers of JavaScript, which the window uses.
pub(crate) const MAX_ID: i64 = 1 << 52;

/// Highest id or time in a restored store. It is below [`MAX_ID`], so that new ids can follow.
pub(crate) const MAX_FOREIGN_ID: i64 = MAX_ID - (1 << 48);

/// Highest number of a folder that counts as a run's. A backup may contain a folder with any
/// number, and the next run gets a higher one.
pub(crate) const MAX_RUN_FOLDER: i64 = 1 << 40;

/// Time in which a deleted conversation, message or dataset can be restored.
pub(crate) const RESTORABLE_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Longest wait of a transaction for a lock of another process (a backup, the user's `sqlite3`).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for a lock by a write that is retried anyway.
const SHORT_BUSY_TIMEOUT: Duration = Duration::from_millis(50);

/// Content of the lock file while the store is open. Found on opening, it means that the last
/// process crashed.
const OPEN_MARK: &[u8] = b"open";

/// Milliseconds since 1970.
pub fn now() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
    clock: Clock,
    /// Ids of conversations with messages that were purged on opening.
    purged: Vec<i64>,
    lock: File,
    path: PathBuf,
    /// Whether SQLite reported corruption.
    is_corrupt: AtomicBool,
    /// Whether writes are refused.
    is_frozen: AtomicBool,
    /// Held during the daily backup.
    backing_up: Mutex<()>,
    /// Longest wait of a transaction for a lock of another process, in milliseconds.
    busy_timeout: AtomicU64,
}

impl Store {
    /// Opens the store in a folder, which is created if missing. Unfinished answers become stopped,
    /// unfinished runs interrupted, and conversations, messages, folders and datasets deleted 30
    /// days ago are purged.
    ///
    /// # Errors
    /// The file is corrupt, not Hearth's or from a newer Hearth; it is left unchanged.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        permissions::restrict_data_folder(folder).map_err(|source| StoreError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let mut lock = lock(folder)?;
        let path = folder.join(FILE);
        // SQLite gives its log files the same permissions.
        let result = [LOCK, FILE]
            .iter()
            .try_for_each(|name| permissions::create_private_file(&folder.join(name)));
        result.map_err(|source| StoreError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let clean = !has_open_mark(&mut lock);

        let mut connection = connect::open(&path).map_err(|error| StoreError::from_sqlite(error, &path))?;
        // A corrupt store stays unchanged: its log is not checkpointed on close.
        let skip_checkpoint = |connection: &Connection, skip: bool| {
            let result = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, skip);
            result.map_err(|error| StoreError::from_sqlite(error, &path))
        };
        skip_checkpoint(&connection, true)?;
        let (clock, purged) = prepare(&mut connection, folder, &path, clean).map_err(|error| error.at(&path))?;
        skip_checkpoint(&connection, false)?;
        set_mark(&mut lock, OPEN_MARK);
        Ok(Self {
            connection: Mutex::new(connection),
            clock,
            purged,
            lock,
            path,
            is_corrupt: AtomicBool::new(false),
            is_frozen: AtomicBool::new(false),
            backing_up: Mutex::default(),
            busy_timeout: AtomicU64::new(BUSY_TIMEOUT.as_millis() as u64),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ids of conversations with messages that were purged on opening.
    pub(crate) fn purged(&self) -> &[i64] {
        &self.purged
    }

    /// Milliseconds since 1970 by a monotonic clock, for deletion times.
    pub fn time(&self) -> i64 {
        self.clock.now()
    }

    /// Runs reads in one transaction: a consistent snapshot.
    pub fn read<T>(&self, reads: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.transact(TransactionBehavior::Deferred, reads)
    }

    /// Runs writes in one transaction: all or nothing.
    pub fn write<T>(&self, writes: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.transact(TransactionBehavior::Immediate, writes)
    }

    /// Like [`Store::write`], for writes that are retried: waits only briefly for other processes
    /// and threads.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another process locks the store, and [`StoreError::Occupied`] if a
    /// thread of this one has a transaction; nothing is written.
    pub fn write_if_free<T>(
        &self,
        writes: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let deadline = Instant::now() + SHORT_BUSY_TIMEOUT;
        let mut connection = loop {
            match self.connection.try_lock() {
                Ok(connection) => break connection,
                // As in `connection`.
                Err(TryLockError::Poisoned(error)) => break error.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(SHORT_BUSY_TIMEOUT / 10),
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Occupied);
                }
            }
        };
        let set_timeout = |connection: &Connection, busy_timeout| {
            let result = connection.busy_timeout(busy_timeout);
            result.map_err(|error| StoreError::from_sqlite(error, &self.path))
        };
        set_timeout(&connection, SHORT_BUSY_TIMEOUT)?;
        let result = self.run(&mut connection, TransactionBehavior::Immediate, writes);
        set_timeout(&connection, self.busy_timeout())?;
        result
    }

    /// Sets whether writes fail with [`StoreError::Frozen`], because they would be lost.
    pub(crate) fn set_frozen(&self, is_frozen: bool) {
        // The locks are held so that no backup and no write is in progress once the flag is set.
        let _no_backup = is_frozen.then(|| crate::lock::lock(&self.backing_up));
        let _connection = self.connection();
        self.is_frozen.store(is_frozen, Ordering::SeqCst);
    }

    fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::SeqCst)
    }

    /// Longest wait of a transaction for a lock of another process.
    pub fn busy_timeout(&self) -> Duration {
        Duration::from_millis(self.busy_timeout.load(Ordering::Relaxed))
    }

    /// Sets the longest wait of a transaction for a lock of another process; 5 seconds by default.
    ///
    /// # Errors
    /// An error of SQLite.
    pub fn set_busy_timeout(&self, busy_timeout: Duration) -> Result<(), StoreError> {
        let result = self.connection().busy_timeout(busy_timeout);
        result.map_err(|error| StoreError::from_sqlite(error, &self.path))?;
        self.busy_timeout
            .store(busy_timeout.as_millis() as u64, Ordering::Relaxed);
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
        if matches!(behavior, TransactionBehavior::Immediate) && self.is_frozen() {
            return Err(StoreError::Frozen);
        }
        let run = || -> rusqlite::Result<T> {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run().map_err(|error| {
            let error = StoreError::from_sqlite(error, &self.path);
            if matches!(error, StoreError::Corrupt { .. }) {
                self.is_corrupt.store(true, Ordering::Relaxed);
            }
            error
        })
    }

    /// Limits the file's size in bytes, like a full disk: larger writes fail with
    /// [`StoreError::DiskFull`]. `None` removes the limit.
    pub fn limit_size(&self, bytes: Option<u64>) -> Result<(), StoreError> {
        let connection = self.connection();
        let limit = || -> rusqlite::Result<()> {
            let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0))? as u64;
            // The default is SQLite's maximum. Zero would change nothing; SQLite raises too small a
            // value to the present count.
            let pages = bytes.map_or(4_294_967_294, |bytes| (bytes / page.max(1)).max(1));
            connection.pragma_update_and_check(None, "max_page_count", pages as i64, |_| Ok(()))
        };
        limit().map_err(|error| StoreError::from_sqlite(error, &self.path))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic while it was locked rolled the transaction back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.is_corrupt.load(Ordering::Relaxed) {
            // The mark stays in the lock file, so that the next start checks the whole store.
            return;
        }
        // A frozen store was copied. Its clock stays unchanged, which shows that it was not opened
        // since.
        if !self.is_frozen()
            && let Err(error) = self.clock.save(&self.connection(), now())
        {
            tracing::debug!(%error, "the store's clock could not be saved");
        }
        set_mark(&mut self.lock, b"");
    }
}

/// Reads a store that may be open in another process. `None` means that there is none.
pub fn read_only<T>(
    folder: &Path,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let open = || -> rusqlite::Result<Option<T>> {
        let connection = connect::read_only(&path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if migrations::version(&connection)? == 0 {
            return Ok(None);
        }
        read(&connection).map(Some)
    };
    open().map_err(|error| StoreError::from_sqlite(error, &path))
}

fn prepare(
    connection: &mut Connection,
    folder: &Path,
    path: &Path,
    clean: bool,
) -> Result<(Clock, Vec<i64>), StoreError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Before any write, so that another program's file stays unchanged.
    migrations::check(connection, path)?;
    if !clean {
        let message: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        if message != "ok" {
            return Err(StoreError::Corrupt {
                path: path.to_owned(),
                detail: message,
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
    let before = clock.now() - RESTORABLE_FOR.as_millis() as i64;
    let purged = conversation::purge(&transaction, before)?
        + folder::purge(&transaction, before)?
        + dataset::purge(&transaction, before)?;
    let conversations = deleted_message::purge(&transaction, before)?;
    transaction.commit()?;
    tracing::info!(stopped, interrupted, purged, clean, "the store is open");
    Ok((clock, conversations))
}

/// Replaces NaN, which SQLite stores as NULL, by 0 for a NOT NULL column.
fn or_zero(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number }
}

/// Executes a statement. Returns whether it changed a row.
fn changed(connection: &Connection, sql: &str, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<bool> {
    Ok(connection.prepare_cached(sql)?.execute(values)? > 0)
}

/// Time limit for the lock of another process, which may be closing. A user may close Hearth and
/// open it again at once.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval between attempts to lock the file.
const LOCK_INTERVAL: Duration = Duration::from_millis(25);

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
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_INTERVAL),
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::InUse(folder.to_owned())),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

fn has_open_mark(lock: &mut File) -> bool {
    let mut text = Vec::new();
    lock.read_to_end(&mut text).is_ok() && text == OPEN_MARK
}

/// Writes the mark. An error is only logged: a stale mark costs one check of the store at the next
/// start.
fn set_mark(lock: &mut File, text: &[u8]) {
    let write = |lock: &mut File| {
        lock.set_len(0)?;
        lock.seek(SeekFrom::Start(0))?;
        lock.write_all(text)
    };
    if let Err(error) = write(lock) {
        tracing::debug!(%error, "the store's lock file could not be marked");
    }
}

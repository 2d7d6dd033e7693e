//! What all columns of a file may take together.

use parquet::errors::{ParquetError, Result};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of pages that are in memory at once.
const LARGEST_PAGES: usize = 768 << 20;

/// Bytes of values that are decoded and not yet in a row.
const LARGEST_VALUES: usize = 384 << 20;

/// Bytes that all of a file may become. It is a limit of time: text is held up to far less.
const MOST_WORK: u64 = 16 << 30;

/// The counters; pages are read by readers that have to be `Send`, though by one thread.
pub(super) struct Limits {
    pages: AtomicUsize,
    values: AtomicUsize,
    work_left: AtomicU64,
}

impl Limits {
    pub fn new() -> Self {
        Self {
            pages: AtomicUsize::new(0),
            values: AtomicUsize::new(0),
            work_left: AtomicU64::new(MOST_WORK),
        }
    }

    /// Counts pages that come into memory. Called before there is room for them.
    pub fn add_pages(&self, bytes: usize) -> Result<()> {
        if self.pages.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > LARGEST_PAGES {
            return Err(over("its pages take more memory at once than Hearth gives them"));
        }
        Ok(())
    }

    /// Takes pages off that are let go.
    pub fn drop_pages(&self, bytes: usize) {
        self.pages.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts a column's decoded values in place of those it had before.
    pub fn exchange_values(&self, before: usize, now: usize) -> Result<()> {
        let others = self.values.fetch_sub(before, Ordering::Relaxed) - before;
        self.values.fetch_add(now, Ordering::Relaxed);
        if others + now > LARGEST_VALUES {
            return Err(over("its rows take more memory at once than Hearth gives them"));
        }
        Ok(())
    }

    /// Counts bytes that something becomes.
    pub fn work(&self, bytes: u64) -> Result<()> {
        let left = self.work_left.load(Ordering::Relaxed);
        let left = left.checked_sub(bytes);
        self.work_left.store(left.unwrap_or(0), Ordering::Relaxed);
        match left {
            Some(_) => Ok(()),
            None => Err(over(&format!("it unpacks to more than {} GiB", MOST_WORK >> 30))),
        }
    }
}

/// The error for going over a limit.
pub(super) fn over(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

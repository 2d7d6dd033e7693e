//! Memory and work limits shared by all columns of a file.

use super::error::invalid;
use parquet::errors::Result;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Maximum bytes of pages in memory.
const MAX_PAGE_MEMORY: usize = 768 << 20;

/// Maximum bytes of decoded values not yet in a row.
const MAX_VALUE_MEMORY: usize = 384 << 20;

/// Maximum uncompressed bytes of a file. Limits time; the limit on text in memory is far lower.
const MAX_UNPACKED: u64 = 16 << 30;

/// The counters. Atomic because the parquet crate requires `Send` page readers; only one thread
/// uses them.
pub(super) struct Limits {
    pages: AtomicUsize,
    values: AtomicUsize,
    unpacked_left: AtomicU64,
}

impl Limits {
    pub fn new() -> Self {
        Self {
            pages: AtomicUsize::new(0),
            values: AtomicUsize::new(0),
            unpacked_left: AtomicU64::new(MAX_UNPACKED),
        }
    }

    /// Counts page bytes before they are allocated.
    pub fn reserve_pages(&self, bytes: usize) -> Result<()> {
        if self.pages.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > MAX_PAGE_MEMORY {
            return Err(invalid("its pages take too much memory at once"));
        }
        Ok(())
    }

    /// Subtracts freed page bytes.
    pub fn release_pages(&self, bytes: usize) {
        self.pages.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Replaces the count of a column's decoded values.
    pub fn replace_values(&self, before: usize, now: usize) -> Result<()> {
        let others = self.values.fetch_sub(before, Ordering::Relaxed) - before;
        self.values.fetch_add(now, Ordering::Relaxed);
        if others + now > MAX_VALUE_MEMORY {
            return Err(invalid("its rows take too much memory at once"));
        }
        Ok(())
    }

    /// Counts uncompressed bytes.
    pub fn count_unpacked(&self, bytes: u64) -> Result<()> {
        let remaining = self.unpacked_left.load(Ordering::Relaxed).checked_sub(bytes);
        self.unpacked_left.store(remaining.unwrap_or(0), Ordering::Relaxed);
        match remaining {
            Some(_) => Ok(()),
            None => Err(invalid(&format!(
                "it decompresses to more than {} GiB",
                MAX_UNPACKED >> 30
            ))),
        }
    }
}

//! A mapped file of packed weights.
//!
//! A [`Header`], then the matrices, each at a multiple of [`ALIGN`] bytes, then the table as text:
//! the key, then one line per matrix with its offset, length, the checksums of its ranges, and its
//! name.

use bytes::Bytes;
use hearth_kernels::team;
use memmap2::Mmap;
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Alignment of matrices: a cache line, which is also enough for vectors.
pub const ALIGN: u64 = 64;

/// Bytes per checksum.
const SUMMED: usize = 1 << 20;

/// Magic bytes; the last is the format version.
const MAGIC: &[u8; 8] = b"hearth:3";

/// The header, little-endian.
#[derive(Clone, Copy)]
pub struct Header {
    /// Offset of the table, which extends to the end of the file.
    pub table_at: u64,
    /// Checksum of the table.
    pub table_sum: u32,
}

impl Header {
    /// Size of the header.
    pub const BYTES: usize = ALIGN as usize;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.table_at.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.table_sum.to_le_bytes());
        bytes
    }

    fn read(file: &[u8]) -> Option<Self> {
        let (magic, rest) = file.split_first_chunk()?;
        let (table_at, rest) = rest.split_first_chunk()?;
        let (table_sum, _) = rest.split_first_chunk()?;
        (magic == MAGIC).then(|| Self {
            table_at: u64::from_le_bytes(*table_at),
            table_sum: u32::from_le_bytes(*table_sum),
        })
    }
}

/// The byte range of a matrix, and its checksums.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub start: u64,
    pub length: u64,
    pub sums: Vec<u32>,
}

impl Entry {
    /// Appends its line to a table.
    pub fn write(&self, name: &str, table: &mut String) {
        let sums: Vec<String> = self.sums.iter().map(|sum| format!("{sum:x}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{} {} {} {name}", self.start, self.length, sums.join(","));
    }

    fn read(line: &str) -> Option<(String, Self)> {
        let mut words = line.splitn(4, ' ');
        let start = words.next()?.parse().ok()?;
        let length = words.next()?.parse().ok()?;
        let sums = words.next()?.split(',').map(|sum| u32::from_str_radix(sum, 16).ok());
        let sums = sums.collect::<Option<_>>()?;
        Some((words.next()?.to_owned(), Self { start, length, sums }))
    }
}

/// The checksums of a matrix, computed by all threads.
pub fn sums(bytes: &[u8]) -> Vec<u32> {
    let mut sums = vec![0; bytes.len().div_ceil(SUMMED)];
    team::run_over(&mut sums, 1, &|range, out| {
        let at = range * SUMMED;
        out[0] = crc32fast::hash(&bytes[at..bytes.len().min(at + SUMMED)]);
    });
    sums
}

/// A mapped file of packed weights with a valid table.
pub struct PackedFile {
    bytes: Bytes,
    entries: HashMap<String, Entry>,
}

impl PackedFile {
    /// Maps the file; `None` if it does not exist, is truncated, or has another key.
    pub fn open(path: &Path, key: &str) -> Option<Self> {
        // Opened for writing if possible, so that its modification time can mark it as used.
        let writable = File::options().read(true).append(true).open(path);
        let file = writable.or_else(|_| File::open(path)).ok()?;
        // SAFETY: the map is read-only and private to this process. Hearth never writes to such a
        // file once it has its final name; writes by other programs cannot be prevented, as with
        // the model's own file.
        let map = unsafe { Mmap::map(&file) }.ok()?;
        let bytes = Bytes::from_owner(map);
        let header = Header::read(&bytes)?;
        let table = bytes.get(usize::try_from(header.table_at).ok()?..)?;
        if crc32fast::hash(table) != header.table_sum {
            return None;
        }
        let mut lines = std::str::from_utf8(table).ok()?.lines();
        if lines.next() != Some(key) {
            return None;
        }
        let entries = lines.map(Entry::read).collect::<Option<HashMap<_, _>>>()?;
        let fits = |entry: &Entry| {
            let end = entry.start.checked_add(entry.length);
            let ranges = usize::try_from(entry.length).map(|length| length.div_ceil(SUMMED));
            end.is_some_and(|end| end <= header.table_at) && ranges == Ok(entry.sums.len())
        };
        if !entries.values().all(fits) {
            return None;
        }
        // If this fails, the file only seems older than it is.
        let _ = file.set_modified(SystemTime::now());
        Some(Self { bytes, entries })
    }

    /// A matrix of `length` bytes; `None` if it is missing or corrupt.
    pub fn get(&self, name: &str, length: usize) -> Option<Bytes> {
        let entry = self.entries.get(name).filter(|entry| entry.length == length as u64)?;
        let start = entry.start as usize;
        let bytes = self.bytes.slice(start..start + length);
        let valid = AtomicBool::new(true);
        team::run(entry.sums.len(), &|range| {
            let at = range * SUMMED;
            if crc32fast::hash(&bytes[at..length.min(at + SUMMED)]) != entry.sums[range] {
                valid.store(false, Ordering::Relaxed);
            }
        });
        valid.into_inner().then_some(bytes)
    }
}

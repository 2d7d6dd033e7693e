//! A memory-mapped file of packed weights.
//!
//! The file is a [`Header`], then the matrices, each at a multiple of [`ALIGN`] bytes, then the
//! table as text: the key, then one line per matrix with its offset, its length, the checksums of
//! its ranges, and its name.

use bytes::Bytes;
use hearth_kernels::team;
use memmap2::Mmap;
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Alignment of matrices in bytes: a cache line, which is also enough for SIMD loads.
pub const ALIGN: u64 = 64;

/// Bytes of a range with one checksum.
const RANGE_BYTES: usize = 1 << 20;

/// Magic bytes; the last is the format version.
const MAGIC: &[u8; 8] = b"hearth:3";

/// The header, stored in little-endian byte order.
#[derive(Clone, Copy)]
pub struct Header {
    /// Offset of the table, which extends to the end of the file.
    pub table_offset: u64,
    /// CRC-32 of the table.
    pub table_checksum: u32,
}

impl Header {
    /// Size of the header.
    pub const BYTES: usize = ALIGN as usize;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.table_offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.table_checksum.to_le_bytes());
        bytes
    }

    fn read(file: &[u8]) -> Option<Self> {
        let (magic, rest) = file.split_first_chunk()?;
        let (table_offset, rest) = rest.split_first_chunk()?;
        let (table_checksum, _) = rest.split_first_chunk()?;
        (magic == MAGIC).then(|| Self {
            table_offset: u64::from_le_bytes(*table_offset),
            table_checksum: u32::from_le_bytes(*table_checksum),
        })
    }
}

/// The byte range of a matrix, and its checksums.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub start: u64,
    pub length: u64,
    /// The CRC-32 of each range of [`RANGE_BYTES`].
    pub checksums: Vec<u32>,
}

impl Entry {
    /// Appends the line of this entry to a table.
    pub fn write(&self, name: &str, table: &mut String) {
        let checksums: Vec<String> = self.checksums.iter().map(|sum| format!("{sum:x}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{} {} {} {name}", self.start, self.length, checksums.join(","));
    }

    /// Parses a line of the table: the name of a matrix and its entry.
    fn read(line: &str) -> Option<(String, Self)> {
        let mut words = line.splitn(4, ' ');
        let start = words.next()?.parse().ok()?;
        let length = words.next()?.parse().ok()?;
        let checksums = words.next()?.split(',').map(|sum| u32::from_str_radix(sum, 16).ok());
        let checksums = checksums.collect::<Option<_>>()?;
        let entry = Self {
            start,
            length,
            checksums,
        };
        Some((words.next()?.to_owned(), entry))
    }
}

/// Computes the checksums of a matrix on all threads.
pub fn checksums(bytes: &[u8]) -> Vec<u32> {
    let mut checksums = vec![0; bytes.len().div_ceil(RANGE_BYTES)];
    team::run_over(&mut checksums, 1, &|range, out| {
        let start = range * RANGE_BYTES;
        out[0] = crc32fast::hash(&bytes[start..bytes.len().min(start + RANGE_BYTES)]);
    });
    checksums
}

/// A memory-mapped file of packed weights with a valid table.
pub struct PackedFile {
    bytes: Bytes,
    entries: HashMap<String, Entry>,
}

impl PackedFile {
    /// Maps a file. `None` if it does not exist, is truncated or corrupt, or has another key.
    pub fn open(path: &Path, key: &str) -> Option<Self> {
        // Opened for writing if possible, to set the modification time to the time of last use.
        let writable = File::options().read(true).append(true).open(path);
        let file = writable.or_else(|_| File::open(path)).ok()?;
        // SAFETY: the map is read-only and private to this process. Hearth does not write to a file
        // with a final name. Writes by other programs cannot be prevented, as for the model's file.
        let map = unsafe { Mmap::map(&file) }.ok()?;
        let bytes = Bytes::from_owner(map);
        let header = Header::read(&bytes)?;
        let table = bytes.get(usize::try_from(header.table_offset).ok()?..)?;
        if crc32fast::hash(table) != header.table_checksum {
            return None;
        }
        let mut lines = std::str::from_utf8(table).ok()?.lines();
        if lines.next() != Some(key) {
            return None;
        }
        let entries = lines.map(Entry::read).collect::<Option<HashMap<_, _>>>()?;
        let fits = |entry: &Entry| {
            let end = entry.start.checked_add(entry.length);
            let ranges = usize::try_from(entry.length).map(|length| length.div_ceil(RANGE_BYTES));
            end.is_some_and(|end| end <= header.table_offset) && ranges == Ok(entry.checksums.len())
        };
        if !entries.values().all(fits) {
            return None;
        }
        // If this fails, the file may be deleted earlier than others.
        let _ = file.set_modified(SystemTime::now());
        Some(Self { bytes, entries })
    }

    /// Returns a matrix of `length` bytes; `None` if it is missing, has another length or is
    /// corrupt.
    pub fn get(&self, name: &str, length: usize) -> Option<Bytes> {
        let entry = self.entries.get(name).filter(|entry| entry.length == length as u64)?;
        let start = entry.start as usize;
        let bytes = self.bytes.slice(start..start + length);
        let is_valid = AtomicBool::new(true);
        team::run(entry.checksums.len(), &|range| {
            let start = range * RANGE_BYTES;
            if crc32fast::hash(&bytes[start..length.min(start + RANGE_BYTES)]) != entry.checksums[range] {
                is_valid.store(false, Ordering::Relaxed);
            }
        });
        is_valid.into_inner().then_some(bytes)
    }
}

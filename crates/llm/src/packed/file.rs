//! A file of packed weights, mapped.
//!
//! It begins with a [`Head`]; then come the matrices, each at a multiple of [`ALIGN`] bytes, and
//! last the table, which is text: the key, then a line for each matrix with its place, its length,
//! the sums of its chunks, and its name.

use bytes::Bytes;
use hearth_kernels::team;
use memmap2::Mmap;
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Where matrices begin: with a cache line, and so with a vector.
pub const ALIGN: u64 = 64;

/// Bytes that have a sum of their own.
const CHUNK: usize = 1 << 20;

/// What the file begins with. The last sign goes up with every change of what follows.
const MAGIC: &[u8; 8] = b"hearth:3";

/// What lies where; little-endian.
#[derive(Clone, Copy)]
pub struct Head {
    /// Where the table begins; it goes to the end of the file.
    pub table_at: u64,
    /// The sum of its bytes.
    pub table_sum: u32,
}

impl Head {
    /// Bytes that it takes.
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

/// Where a matrix lies, and what tells that it is as it was written.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub start: u64,
    pub length: u64,
    pub sums: Vec<u32>,
}

impl Entry {
    /// Adds its line to a table.
    pub fn write(&self, name: &str, table: &mut String) {
        let sums: Vec<String> = self.sums.iter().map(|sum| format!("{sum:x}")).collect();
        // Writing to a text does not fail.
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

/// The sums of a matrix, made by all threads.
pub fn sums(bytes: &[u8]) -> Vec<u32> {
    let mut sums = vec![0; bytes.len().div_ceil(CHUNK)];
    team::run_over(&mut sums, 1, &|chunk, out| {
        out[0] = crc32fast::hash(&bytes[chunk * CHUNK..][..CHUNK.min(bytes.len() - chunk * CHUNK)]);
    });
    sums
}

/// A file of packed weights, mapped, whose table was checked.
pub struct PackedFile {
    bytes: Bytes,
    entries: HashMap<String, Entry>,
}

impl PackedFile {
    /// Maps it; none where it is not there, not whole, or not of this key.
    pub fn open(path: &Path, key: &str) -> Option<Self> {
        // What may be written to may be marked as used, for those who look for what is not.
        let writable = File::options().read(true).append(true).open(path);
        let file = writable.or_else(|_| File::open(path)).ok()?;
        // SAFETY: the map is read-only and private to us. Hearth never writes to such a file once
        // it has its name; what somebody else does to it cannot be prevented, as with the model's
        // own file.
        let map = unsafe { Mmap::map(&file) }.ok()?;
        let bytes = Bytes::from_owner(map);
        let head = Head::read(&bytes)?;
        let table = bytes.get(usize::try_from(head.table_at).ok()?..)?;
        if crc32fast::hash(table) != head.table_sum {
            return None;
        }
        let mut lines = std::str::from_utf8(table).ok()?.lines();
        if lines.next() != Some(key) {
            return None;
        }
        let entries = lines.map(Entry::read).collect::<Option<HashMap<_, _>>>()?;
        let fits = |entry: &Entry| {
            let end = entry.start.checked_add(entry.length);
            let chunks = usize::try_from(entry.length).map(|length| length.div_ceil(CHUNK));
            end.is_some_and(|end| end <= head.table_at) && chunks == Ok(entry.sums.len())
        };
        if !entries.values().all(fits) {
            return None;
        }
        // Where that cannot be, the file only seems older than it is.
        let _ = file.set_modified(SystemTime::now());
        Some(Self { bytes, entries })
    }

    /// A matrix of so many bytes; none where it is not there, or not as it was written.
    pub fn get(&self, name: &str, length: usize) -> Option<Bytes> {
        let entry = self.entries.get(name).filter(|entry| entry.length == length as u64)?;
        let start = entry.start as usize;
        let bytes = self.bytes.slice(start..start + length);
        let sound = AtomicBool::new(true);
        team::run(entry.sums.len(), &|chunk| {
            let at = chunk * CHUNK;
            if crc32fast::hash(&bytes[at..length.min(at + CHUNK)]) != entry.sums[chunk] {
                sound.store(false, Ordering::Relaxed);
            }
        });
        sound.into_inner().then_some(bytes)
    }
}

//! The bytes of a file: a memory map, or a page-aligned copy in memory.

use memmap2::{Mmap, MmapMut};
use std::fs::File;

/// The mapped bytes of one file.
#[derive(Debug)]
pub(super) struct FileMap {
    bytes: Mmap,
    /// Whether released pages are read from a file again.
    #[cfg_attr(not(unix), allow(dead_code))]
    file_backed: bool,
}

impl FileMap {
    /// Maps a file.
    pub fn map(file: &File) -> std::io::Result<Self> {
        // SAFETY: the map is read-only and private to this process. Truncating or rewriting the
        // file while it is mapped cannot be prevented; as with every reader of mapped weights, it
        // can crash the worker. The window maps no file, and headers are read without a map.
        let bytes = unsafe { Mmap::map(file)? };
        Ok(Self {
            bytes,
            file_backed: true,
        })
    }

    /// Copies bytes to a page-aligned anonymous map.
    pub fn copy(bytes: &[u8]) -> std::io::Result<Self> {
        // An empty map is an error.
        let mut map = MmapMut::map_anon(bytes.len().max(1))?;
        map[..bytes.len()].copy_from_slice(bytes);
        Ok(Self {
            bytes: map.make_read_only()?,
            file_backed: false,
        })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Releases the pages of a range; the next access reads them from the file again. No-op if not
    /// backed by a file.
    #[cfg(unix)]
    pub fn release(&self, start: usize, len: usize) {
        if self.file_backed && len > 0 {
            // SAFETY: the pages are a read-only map of a file, so a later read sees the same bytes,
            // read again.
            let advised = unsafe {
                self.bytes
                    .unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, len)
            };
            // Ignored advice only costs memory.
            drop(advised);
        }
    }

    /// No-op on this system.
    #[cfg(not(unix))]
    pub fn release(&self, _start: usize, _len: usize) {}
}

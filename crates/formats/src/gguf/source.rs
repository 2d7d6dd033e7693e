//! The bytes of a file: a memory map, or a copy in memory with the alignment of one.

use memmap2::{Mmap, MmapMut};
use std::fs::File;

/// The bytes of one file.
#[derive(Debug)]
pub(super) struct Source {
    bytes: Mmap,
    /// Whether pages that are let go come back from a file.
    #[cfg_attr(not(unix), allow(dead_code))]
    file_backed: bool,
}

impl Source {
    /// Maps a file.
    pub fn map(file: &File) -> std::io::Result<Self> {
        // SAFETY: the map is read-only and private to us. That nobody else shortens or rewrites the file while it is mapped
        // cannot be enforced; every reader of mapped weights lives with that, and here it can end a worker. The window maps
        // none, and headers are read without a map.
        let bytes = unsafe { Mmap::map(file)? };
        Ok(Self {
            bytes,
            file_backed: true,
        })
    }

    /// Copies bytes to the beginning of a page, so that they are aligned as those of a map are.
    pub fn copy(bytes: &[u8]) -> std::io::Result<Self> {
        // A map cannot be empty.
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

    /// Lets the pages of a range go; they are read from the file again when touched. Does nothing where that cannot be.
    #[cfg(unix)]
    pub fn release(&self, start: usize, len: usize) {
        if self.file_backed && len > 0 {
            // SAFETY: the pages are a read-only map of a file, so a later read sees the same bytes, read again.
            let advised = unsafe {
                self.bytes
                    .unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, len)
            };
            // Advice that the system does not take costs memory, nothing else.
            drop(advised);
        }
    }

    /// Does nothing on this system.
    #[cfg(not(unix))]
    pub fn release(&self, _start: usize, _len: usize) {}
}

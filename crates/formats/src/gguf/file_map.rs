//! The bytes of a file: a memory map, or a page-aligned copy in memory.

use memmap2::{Mmap, MmapMut};
use std::fs::File;

/// The mapped bytes of one file.
#[derive(Debug)]
pub(super) struct FileMap {
    bytes: Mmap,
    /// Whether released pages can be read from the file again.
    #[cfg_attr(not(unix), allow(dead_code))]
    file_backed: bool,
}

impl FileMap {
    /// Maps a file.
    pub fn map(file: &File) -> std::io::Result<Self> {
        // SAFETY: the map is read-only and private to this process. Another program can truncate or
        // rewrite the file while it is mapped, which can crash the worker, as any reader of mapped
        // weights. The window's process maps no file, and headers are read without a map.
        let bytes = unsafe { Mmap::map(file)? };
        Ok(Self {
            bytes,
            file_backed: true,
        })
    }

    /// Copies bytes to a page-aligned anonymous map.
    pub fn copy(bytes: &[u8]) -> std::io::Result<Self> {
        // An empty map would be an error.
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
            // SAFETY: the pages are a read-only map of a file, so the next access reads the same
            // bytes again.
            let result = unsafe {
                self.bytes
                    .unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, len)
            };
            // A failure only costs memory.
            drop(result);
        }
    }

    /// No-op on this system.
    #[cfg(not(unix))]
    pub fn release(&self, _start: usize, _len: usize) {}
}

//! Writes packed weights to a file and maps them.

use super::file::{ALIGN, Entry, Header, checksums};
use super::{UnpackedMatrix, folder};
use bytes::Bytes;
use hearth_kernels::{Layout, matrix, packed};
use memmap2::MmapOptions;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Approximate bytes that are packed and written at a time.
const GROUP_BYTES: usize = 4 << 20;

/// Writes a file under a temporary name. The file is renamed when it is complete, and deleted if
/// the writer is dropped before.
pub struct Writer {
    file: File,
    temporary_path: PathBuf,
    path: PathBuf,
    table: String,
    /// The end of the last matrix.
    end: u64,
    /// Buffer for a group of packed rows.
    group: Vec<u8>,
}

impl Writer {
    /// Starts a file with this key, of about `size` bytes. May delete older files.
    ///
    /// # Errors
    /// If the folder cannot be written to, or there is not enough disk space.
    pub fn new(path: PathBuf, key: String, size: u64) -> io::Result<Self> {
        let temporary_path = folder::reserve(&path, size)?;
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&temporary_path)?;
        // The lock marks the file as being written. On a file system without locks, an abandoned
        // file is not deleted.
        let _ = file.try_lock();
        let header_result = file.write_all(&[0; Header::BYTES]);
        // Dropping the writer deletes the file if the header cannot be written.
        let writer = Self {
            file,
            temporary_path,
            path,
            table: key + "\n",
            end: Header::BYTES as u64,
            group: Vec::new(),
        };
        header_result.map(|()| writer)
    }

    /// Packs a matrix and appends it to the file. Returns its map.
    ///
    /// # Errors
    /// If it cannot be written, or the number of bytes does not match its shape.
    pub fn put(&mut self, unpacked: &UnpackedMatrix) -> io::Result<Bytes> {
        let UnpackedMatrix {
            quant,
            rows,
            cols,
            bytes,
            ..
        } = *unpacked;
        let start = self.end.next_multiple_of(ALIGN);
        // Not through a writable map, because a full disk would then be a signal and no error.
        self.file.seek(SeekFrom::Start(start))?;
        let row_bytes = quant
            .row_bytes(cols)
            .filter(|row_bytes| *row_bytes > 0 && row_bytes * rows == bytes.len());
        let row_bytes = row_bytes.ok_or_else(|| io::Error::other("the bytes of a matrix do not match its shape"))?;
        let group_rows = (GROUP_BYTES / (row_bytes * packed::ROWS)).max(1) * packed::ROWS;
        for group in bytes.chunks(group_rows * row_bytes) {
            if matrix::layout(quant, rows, cols) == Layout::Plain {
                self.file.write_all(group)?;
                continue;
            }
            self.group.clear();
            self.group.resize(group.len(), 0);
            matrix::pack_into(quant, group.len() / row_bytes, cols, group, &mut self.group)
                .map_err(io::Error::other)?;
            self.file.write_all(&self.group)?;
        }
        self.end = start + bytes.len() as u64;
        // SAFETY: the map is read-only and private to this process, and these bytes are not written
        // again.
        let map = unsafe { MmapOptions::new().offset(start).len(bytes.len()).map(&self.file)? };
        let entry = Entry {
            start,
            length: bytes.len() as u64,
            checksums: checksums(&map),
        };
        entry.write(&unpacked.key(), &mut self.table);
        Ok(Bytes::from_owner(map))
    }

    /// Writes the table and renames the file to its final name. A file without matrices is deleted.
    ///
    /// # Errors
    /// If the file cannot be written, or a file with its final name is in use and cannot be
    /// replaced.
    pub fn finish(mut self) -> io::Result<()> {
        if self.end == Header::BYTES as u64 {
            return Ok(());
        }
        let header = Header {
            table_offset: self.end,
            table_checksum: crc32fast::hash(self.table.as_bytes()),
        };
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(self.table.as_bytes())?;
        self.file.rewind()?;
        self.file.write_all(&header.to_bytes())?;
        // Without fsync, since the checksums detect pages that were lost in a power failure.
        fs::rename(&self.temporary_path, &self.path)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Has no effect after the rename. Windows cannot delete a mapped file, so there the next
        // writer deletes it.
        let _ = fs::remove_file(&self.temporary_path);
    }
}

//! Writing packed weights to a file, from which they are used immediately.

use super::file::{ALIGN, Entry, Header, sums};
use super::{Unpacked, folder};
use bytes::Bytes;
use hearth_kernels::{Layout, matrix, packed};
use memmap2::MmapOptions;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Bytes of a row group that is packed and written at once.
const GROUP_BYTES: usize = 4 << 20;

/// A file that is being written under a temporary name. It is renamed when complete, and deleted
/// if dropped before.
pub struct Writer {
    file: File,
    part: PathBuf,
    path: PathBuf,
    table: String,
    end: u64,
    group: Vec<u8>,
}

impl Writer {
    /// Starts the file `path` with this key, of about `size` bytes; may delete older files.
    ///
    /// # Errors
    /// If the folder cannot be written to, or there is not enough disk space.
    pub fn new(path: PathBuf, key: String, size: u64) -> io::Result<Self> {
        let part = folder::reserve(&path, size)?;
        let mut file = File::options().read(true).write(true).create_new(true).open(&part)?;
        // Marks the file as being written. If files cannot be locked, an abandoned one stays.
        let _ = file.try_lock();
        let started = file.write_all(&[0; Header::BYTES]);
        let writer = Self {
            file,
            part,
            path,
            table: key + "\n",
            end: Header::BYTES as u64,
            group: Vec::new(),
        };
        started.map(|()| writer)
    }

    /// Packs a matrix to the end of the file; returns its map.
    ///
    /// # Errors
    /// If it cannot be written, or the number of bytes does not match its shape.
    pub fn put(&mut self, unpacked: &Unpacked) -> io::Result<Bytes> {
        let Unpacked {
            name,
            quant,
            rows,
            cols,
            bytes,
        } = *unpacked;
        let start = self.end.next_multiple_of(ALIGN);
        // Written, not stored through a map: a full disk is then an error and not a signal.
        self.file.seek(SeekFrom::Start(start))?;
        let row = quant
            .row_bytes(cols)
            .filter(|row| *row > 0 && row * rows == bytes.len());
        let row = row.ok_or_else(|| io::Error::other("the bytes of a matrix do not match its shape"))?;
        let rows_a_group = (GROUP_BYTES / (row * packed::ROWS)).max(1) * packed::ROWS;
        for bytes in bytes.chunks(rows_a_group * row) {
            if matrix::layout(quant, rows, cols) == Layout::Plain {
                self.file.write_all(bytes)?;
                continue;
            }
            self.group.clear();
            self.group.resize(bytes.len(), 0);
            matrix::pack_into(quant, bytes.len() / row, cols, bytes, &mut self.group).map_err(io::Error::other)?;
            self.file.write_all(&self.group)?;
        }
        self.end = start + bytes.len() as u64;
        // SAFETY: the map is read-only and private to this process, and these bytes are not written
        // again.
        let map = unsafe { MmapOptions::new().offset(start).len(bytes.len()).map(&self.file)? };
        let entry = Entry {
            start,
            length: bytes.len() as u64,
            sums: sums(&map),
        };
        entry.write(name, &mut self.table);
        Ok(Bytes::from_owner(map))
    }

    /// Writes the table and renames the file to its final name. A file without matrices is deleted.
    ///
    /// # Errors
    /// If it cannot be written, or a file of this name is in use and cannot be replaced.
    pub fn finish(mut self) -> io::Result<()> {
        if self.end == Header::BYTES as u64 {
            return Ok(());
        }
        let header = Header {
            table_at: self.end,
            table_sum: crc32fast::hash(self.table.as_bytes()),
        };
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(self.table.as_bytes())?;
        self.file.rewind()?;
        self.file.write_all(&header.to_bytes())?;
        // No fsync: the checksums detect pages lost in a power cut.
        fs::rename(&self.part, &self.path)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Does nothing after the rename. Windows cannot delete a mapped file; then the next writer
        // does.
        let _ = fs::remove_file(&self.part);
    }
}

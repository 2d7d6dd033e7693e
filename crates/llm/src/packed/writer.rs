//! Writing packed weights into a file, from which they are used at once.

use super::file::{ALIGN, Entry, Head, sums};
use super::{Unpacked, folder};
use bytes::Bytes;
use hearth_kernels::{Layout, matrix, packed};
use memmap2::MmapOptions;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Bytes that are packed before they are written.
const PIECE: usize = 4 << 20;

/// A file that is being written. It gets its name when it is whole; what is dropped before is
/// removed.
pub struct Writer {
    file: File,
    part: PathBuf,
    path: PathBuf,
    table: String,
    end: u64,
    piece: Vec<u8>,
}

impl Writer {
    /// Begins a file for this key, of about `size` bytes, that shall be called `path`; older ones
    /// may have to go for it.
    ///
    /// # Errors
    /// The folder cannot be written to, or there is not enough room.
    pub fn new(path: PathBuf, key: String, size: u64) -> io::Result<Self> {
        let part = folder::make_room(&path, size)?;
        let mut file = File::options().read(true).write(true).create_new(true).open(&part)?;
        // Tells others that somebody is at it. Where files cannot be locked, a part that was left
        // stays.
        let _ = file.try_lock();
        let begun = file.write_all(&[0; Head::BYTES]);
        let writer = Self {
            file,
            part,
            path,
            table: key + "\n",
            end: Head::BYTES as u64,
            piece: Vec::new(),
        };
        begun.map(|()| writer)
    }

    /// Packs a matrix to the end of the file, and maps it there.
    ///
    /// # Errors
    /// It cannot be written, or its bytes are not such a matrix.
    pub fn put(&mut self, unpacked: &Unpacked) -> io::Result<Bytes> {
        let Unpacked {
            name,
            quant,
            rows,
            cols,
            bytes,
        } = *unpacked;
        let start = self.end.next_multiple_of(ALIGN);
        // By writing, and not through a map: a full disk is then an error, and not the end of the
        // process.
        self.file.seek(SeekFrom::Start(start))?;
        let row = quant
            .row_bytes(cols)
            .filter(|row| *row > 0 && row * rows == bytes.len());
        let row = row.ok_or_else(|| io::Error::other("a matrix has not the bytes it should"))?;
        let rows_a_piece = (PIECE / (row * packed::ROWS)).max(1) * packed::ROWS;
        for bytes in bytes.chunks(rows_a_piece * row) {
            if matrix::layout(quant, rows, cols) == Layout::Plain {
                self.file.write_all(bytes)?;
                continue;
            }
            self.piece.clear();
            self.piece.resize(bytes.len(), 0);
            matrix::pack_into(quant, bytes.len() / row, cols, bytes, &mut self.piece).map_err(io::Error::other)?;
            self.file.write_all(&self.piece)?;
        }
        self.end = start + bytes.len() as u64;
        // SAFETY: the map is read-only and private to us, and nothing is written to these bytes
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

    /// Writes the table and gives the file its name. A file without a matrix is of no use and goes.
    ///
    /// # Errors
    /// It cannot be written, or a file of this name is in use and cannot be replaced.
    pub fn finish(mut self) -> io::Result<()> {
        if self.end == Head::BYTES as u64 {
            return Ok(());
        }
        let head = Head {
            table_at: self.end,
            table_sum: crc32fast::hash(self.table.as_bytes()),
        };
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(self.table.as_bytes())?;
        self.file.rewind()?;
        self.file.write_all(&head.to_bytes())?;
        // Not synced: what a power cut leaves half written, the sums find.
        fs::rename(&self.part, &self.path)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // It is not there any more once it has its name. Windows keeps what is mapped; then the
        // next writer clears it away.
        let _ = fs::remove_file(&self.part);
    }
}

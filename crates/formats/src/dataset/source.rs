//! The bytes of a dataset, from a file or memory, with cancellation and row size limits.

use super::DatasetProblem;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

/// Size of the read buffer: large enough to amortize system calls.
const BUFFER: usize = 256 * 1024;

/// Bytes read between two calls of the cancel callback.
const CANCEL_CHECK_EVERY: u64 = 1 << 20;

/// Rows read between two calls of the cancel callback.
const CANCEL_CHECK_ROWS: u32 = 256;

/// Maximum bytes of text of a row.
pub(super) const MAX_ROW_BYTES: usize = 64 << 20;

/// The UTF-8 byte order mark that some programs write; not part of the text.
pub(super) const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bytes of a dataset; can be read from the start several times.
pub(super) struct Source<'a> {
    bytes: Storage,
    pub meter: Meter<'a>,
}

enum Storage {
    File(File),
    Bytes(Bytes),
}

/// Counts bytes read, limits the size of a row, and calls the cancel callback.
pub(super) struct Meter<'a> {
    should_continue: RefCell<&'a mut dyn FnMut() -> bool>,
    cancelled: Cell<bool>,
    overlong: Cell<bool>,
    /// Bytes read so far.
    read: Cell<u64>,
    /// The smaller of the two thresholds below.
    due: Cell<u64>,
    check_at: Cell<u64>,
    row_ends_at: Cell<u64>,
    rows_since_check: Cell<u32>,
}

impl<'a> Meter<'a> {
    fn new(should_continue: &'a mut dyn FnMut() -> bool) -> Self {
        Self {
            should_continue: RefCell::new(should_continue),
            cancelled: Cell::new(false),
            overlong: Cell::new(false),
            read: Cell::new(0),
            due: Cell::new(CANCEL_CHECK_EVERY),
            check_at: Cell::new(CANCEL_CHECK_EVERY),
            row_ends_at: Cell::new(u64::MAX),
            rows_since_check: Cell::new(0),
        }
    }

    /// Calls the cancel callback.
    ///
    /// # Errors
    /// [`DatasetProblem::Cancelled`] if it returns `false`.
    pub fn check_cancelled(&self) -> Result<(), DatasetProblem> {
        self.rows_since_check.set(0);
        if self.cancelled.get() || !(self.should_continue.borrow_mut())() {
            self.cancelled.set(true);
            return Err(DatasetProblem::Cancelled);
        }
        Ok(())
    }

    /// Counts a row, and calls the cancel callback every [`CANCEL_CHECK_ROWS`] rows: rows may be
    /// slow without many bytes.
    pub fn count_row(&self) -> Result<(), DatasetProblem> {
        let rows = self.rows_since_check.get() + 1;
        self.rows_since_check.set(rows);
        if rows < CANCEL_CHECK_ROWS {
            Ok(())
        } else {
            self.check_cancelled()
        }
    }

    /// Begins a row of at most [`MAX_ROW_BYTES`] bytes, plus the bytes that a reader may read
    /// ahead.
    pub fn begin_row(&self) {
        self.set_row_end(self.read.get() + (MAX_ROW_BYTES + BUFFER) as u64);
    }

    fn set_row_end(&self, end: u64) {
        self.row_ends_at.set(end);
        self.due.set(self.check_at.get().min(end));
    }

    /// Whether a row exceeded the limit.
    pub fn is_overlong(&self) -> bool {
        self.overlong.get()
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }

    #[inline]
    fn count(&self, bytes: usize) {
        let read = self.read.get() + bytes as u64;
        self.read.set(read);
        if read >= self.due.get() {
            self.reach_threshold(read);
        }
    }

    #[cold]
    fn reach_threshold(&self, read: u64) {
        if read >= self.row_ends_at.get() {
            self.overlong.set(true);
        }
        if read >= self.check_at.get() {
            self.check_at.set(read + CANCEL_CHECK_EVERY);
            // The meter stores the cancellation.
            let _ = self.check_cancelled();
        }
        self.due.set(self.check_at.get().min(self.row_ends_at.get()));
    }

    /// Checks that reading may continue.
    ///
    /// # Errors
    /// If reading was cancelled or the row is too long.
    #[inline]
    fn check(&self) -> io::Result<()> {
        if self.cancelled.get() || self.overlong.get() {
            return Err(io::Error::other("cancelled, or the row is too long"));
        }
        Ok(())
    }
}

/// A reader whose bytes a [`Meter`] counts.
struct Metered<'s, 'a, R> {
    reader: R,
    meter: &'s Meter<'a>,
}

impl<R: BufRead> Read for Metered<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.meter.check()?;
        let length = buffer.len().min(BUFFER);
        let read = self.reader.read(&mut buffer[..length])?;
        self.meter.count(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Metered<'_, '_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.meter.check()?;
        // A file in memory is one buffer, which would be consumed at once.
        let bytes = self.reader.fill_buf()?;
        Ok(&bytes[..bytes.len().min(BUFFER)])
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
        self.meter.count(count);
    }
}

impl<'a> Source<'a> {
    pub fn open(path: &Path, should_continue: &'a mut dyn FnMut() -> bool) -> Result<Self, DatasetProblem> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(DatasetProblem::NotADataset("a folder"));
        }
        Ok(Self {
            bytes: Storage::File(file),
            meter: Meter::new(should_continue),
        })
    }

    pub fn from_bytes(bytes: Vec<u8>, should_continue: &'a mut dyn FnMut() -> bool) -> Self {
        Self {
            bytes: Storage::Bytes(bytes.into()),
            meter: Meter::new(should_continue),
        }
    }

    /// A reader from the start.
    pub fn raw(&self) -> io::Result<Box<dyn BufRead + '_>> {
        self.meter.set_row_end(u64::MAX);
        let meter = &self.meter;
        Ok(match &self.bytes {
            Storage::File(file) => {
                let mut file = file;
                file.rewind()?;
                let reader = BufReader::with_capacity(BUFFER, file);
                Box::new(Metered { reader, meter })
            }
            Storage::Bytes(bytes) => Box::new(Metered {
                reader: Cursor::new(bytes),
                meter,
            }),
        })
    }

    /// A reader of the text from the start, without a byte order mark. Not yet validated as UTF-8.
    pub fn text(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let mut reader = self.raw()?;
        if reader.fill_buf()?.starts_with(UTF8_MARK) {
            reader.consume(UTF8_MARK.len());
        }
        Ok(reader)
    }

    /// Up to `bytes` bytes from the start.
    pub fn beginning(&self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut beginning = Vec::new();
        self.raw()?.take(bytes as u64).read_to_end(&mut beginning)?;
        Ok(beginning)
    }

    /// Length in bytes; 0 if unknown.
    pub fn len(&self) -> io::Result<u64> {
        Ok(match &self.bytes {
            Storage::File(file) => file.metadata()?.len(),
            Storage::Bytes(bytes) => bytes.len() as u64,
        })
    }

    /// The same bytes for positioned reads.
    pub fn random_access(&self) -> io::Result<RandomAccess> {
        let length = self.len()?;
        Ok(match &self.bytes {
            Storage::File(file) => RandomAccess::File(file.try_clone()?, length),
            Storage::Bytes(bytes) => RandomAccess::Bytes(bytes.clone()),
        })
    }
}

/// Positioned reads.
pub(super) enum RandomAccess {
    File(File, u64),
    Bytes(Bytes),
}

impl RandomAccess {
    pub fn len(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Reads up to `max_bytes` bytes from offset `from`; fewer at the end of the file. Allocates no
    /// more than the file has.
    ///
    /// # Errors
    /// If reading fails.
    pub fn read(&self, from: u64, max_bytes: usize) -> io::Result<Bytes> {
        let available = self.len().saturating_sub(from).min(max_bytes as u64) as usize;
        match self {
            Self::File(file, _) => {
                let mut file = file;
                file.seek(SeekFrom::Start(from))?;
                let mut bytes = Vec::with_capacity(available);
                file.take(available as u64).read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
            Self::Bytes(bytes) => {
                let from = (from as usize).min(bytes.len());
                Ok(bytes.slice(from..from + available))
            }
        }
    }
}

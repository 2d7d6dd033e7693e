//! Where the bytes come from: a file, or memory. Every read is counted, and asks now and then whether to go on.

use super::DatasetProblem;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes a read from the disk takes at once: large enough that the system's own cost does not show.
const BUFFER: usize = 256 * 1024;

/// Bytes that are read between two calls of the cancel callback.
const ASKED_EVERY: u64 = 1 << 20;

/// Rows that are read between two calls of the cancel callback.
const ROWS_ASKED_EVERY: u32 = 256;

/// Bytes of text that a row may have.
pub(super) const LONGEST_ROW: usize = 64 << 20;

/// The byte order mark, with which some programs begin a text in UTF-8. No part of the text.
pub(super) const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// A dataset's bytes, to be read from the beginning as often as needed.
pub(super) struct Source<'a> {
    bytes: Storage,
    pub meter: Meter<'a>,
}

enum Storage {
    File(File),
    Bytes(Bytes),
}

/// Counts what is read, bounds a row of it, and asks whether to go on.
pub(super) struct Meter<'a> {
    go_on: RefCell<&'a mut dyn FnMut() -> bool>,
    cancelled: Cell<bool>,
    overlong: Cell<bool>,
    /// Bytes so far.
    read: Cell<u64>,
    /// The number of bytes at which something is to be done: the smaller of the two below.
    due: Cell<u64>,
    ask_at: Cell<u64>,
    row_ends_at: Cell<u64>,
    rows_since_asked: Cell<u32>,
}

impl<'a> Meter<'a> {
    fn new(go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self {
            go_on: RefCell::new(go_on),
            cancelled: Cell::new(false),
            overlong: Cell::new(false),
            read: Cell::new(0),
            due: Cell::new(ASKED_EVERY),
            ask_at: Cell::new(ASKED_EVERY),
            row_ends_at: Cell::new(u64::MAX),
            rows_since_asked: Cell::new(0),
        }
    }

    /// Calls the cancel callback.
    ///
    /// # Errors
    /// If it says no.
    pub fn ask(&self) -> Result<(), DatasetProblem> {
        self.rows_since_asked.set(0);
        if self.cancelled.get() || !(self.go_on.borrow_mut())() {
            self.cancelled.set(true);
            return Err(DatasetProblem::Cancelled);
        }
        Ok(())
    }

    /// Counts a row, for rows that take more time than bytes; as [`Meter::ask`].
    pub fn count_row(&self) -> Result<(), DatasetProblem> {
        let rows = self.rows_since_asked.get() + 1;
        self.rows_since_asked.set(rows);
        if rows < ROWS_ASKED_EVERY { Ok(()) } else { self.ask() }
    }

    /// Begins a row of at most [`LONGEST_ROW`] bytes beside what a reader has read ahead.
    pub fn begin_row(&self) {
        self.set_row_end(self.read.get() + (LONGEST_ROW + BUFFER) as u64);
    }

    fn set_row_end(&self, end: u64) {
        self.row_ends_at.set(end);
        self.due.set(self.ask_at.get().min(end));
    }

    /// Whether a row was longer than it may be.
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
            self.look(read);
        }
    }

    #[cold]
    fn look(&self, read: u64) {
        if read >= self.row_ends_at.get() {
            self.overlong.set(true);
        }
        if read >= self.ask_at.get() {
            self.ask_at.set(read + ASKED_EVERY);
            // It is remembered.
            let _ = self.ask();
        }
        self.due.set(self.ask_at.get().min(self.row_ends_at.get()));
    }

    /// # Errors
    /// If nothing more is to be read.
    #[inline]
    fn check(&self) -> io::Result<()> {
        if self.cancelled.get() || self.overlong.get() {
            return Err(io::Error::other("reading ends here"));
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
        let most = buffer.len().min(BUFFER);
        let read = self.reader.read(&mut buffer[..most])?;
        self.meter.count(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Metered<'_, '_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.meter.check()?;
        // All of a file in memory is one buffer, which would be consumed at once.
        let bytes = self.reader.fill_buf()?;
        Ok(&bytes[..bytes.len().min(BUFFER)])
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
        self.meter.count(count);
    }
}

impl<'a> Source<'a> {
    pub fn open(path: &Path, go_on: &'a mut dyn FnMut() -> bool) -> Result<Self, DatasetProblem> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(DatasetProblem::NotADataset("a folder"));
        }
        Ok(Self {
            bytes: Storage::File(file),
            meter: Meter::new(go_on),
        })
    }

    pub fn from_bytes(bytes: Vec<u8>, go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self {
            bytes: Storage::Bytes(bytes.into()),
            meter: Meter::new(go_on),
        }
    }

    /// All of it from the beginning.
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

    /// Its text from the beginning, without a byte order mark. Not yet known to be UTF-8.
    pub fn text(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let mut reader = self.raw()?;
        if reader.fill_buf()?.starts_with(UTF8_MARK) {
            reader.consume(UTF8_MARK.len());
        }
        Ok(reader)
    }

    /// The first bytes, as many as asked for if there are so many.
    pub fn beginning(&self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut beginning = Vec::new();
        self.raw()?.take(bytes as u64).read_to_end(&mut beginning)?;
        Ok(beginning)
    }

    /// Its length in bytes; 0 where the system does not know it.
    pub fn len(&self) -> io::Result<u64> {
        Ok(match &self.bytes {
            Storage::File(file) => file.metadata()?.len(),
            Storage::Bytes(bytes) => bytes.len() as u64,
        })
    }

    /// The same bytes, to be read by their places.
    pub fn places(&self) -> io::Result<Places> {
        let length = self.len()?;
        Ok(match &self.bytes {
            Storage::File(file) => Places::File(file.try_clone()?, length),
            Storage::Bytes(bytes) => Places::Bytes(bytes.clone()),
        })
    }
}

/// Bytes that are read by their places.
pub(super) enum Places {
    File(File, u64),
    Bytes(Bytes),
}

impl Places {
    pub fn len(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// As many bytes as there are from a place on, `most` at most. Room is only asked for what is in the file.
    ///
    /// # Errors
    /// Of reading.
    pub fn read(&self, from: u64, most: usize) -> io::Result<Bytes> {
        let there = self.len().saturating_sub(from).min(most as u64) as usize;
        match self {
            Self::File(file, _) => {
                let mut file = file;
                file.seek(SeekFrom::Start(from))?;
                let mut bytes = Vec::with_capacity(there);
                file.take(there as u64).read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
            Self::Bytes(bytes) => {
                let from = (from as usize).min(bytes.len());
                Ok(bytes.slice(from..from + there))
            }
        }
    }
}

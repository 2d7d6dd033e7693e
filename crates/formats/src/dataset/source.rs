//! Where the bytes come from: a file, or memory.

use super::DatasetProblem;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;

/// Bytes a read from the disk takes at once: large enough that the system's own cost does not show.
const BUFFER: usize = 256 * 1024;

/// The byte order mark, with which some programs begin a text in UTF-8. No part of the text.
pub(super) const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// A dataset's bytes, to be read from the beginning as often as needed.
pub(super) enum Source {
    File(File),
    Bytes(Bytes),
}

impl Source {
    pub fn open(path: &Path) -> Result<Self, DatasetProblem> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(DatasetProblem::NotADataset("a folder"));
        }
        Ok(Self::File(file))
    }

    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// All of it from the beginning.
    pub fn raw(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(match self {
            Self::File(file) => {
                let mut file = file;
                file.rewind()?;
                Box::new(BufReader::with_capacity(BUFFER, file))
            }
            Self::Bytes(bytes) => Box::new(Cursor::new(bytes)),
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
}

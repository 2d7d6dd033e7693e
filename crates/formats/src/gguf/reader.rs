//! A sequential, buffered reader of a header, within the limits of [`super::limits`].

use super::GgufProblem;
use super::limits::MAX_HEADER;
use std::borrow::Cow;
use std::io::{ErrorKind, Read};

/// Buffer size in bytes.
const BUFFER: usize = 64 << 10;

/// Reader of a header. Memory grows with the bytes read, never with a claimed length. The file may
/// be sparse, and may be truncated while it is read.
pub(super) struct HeaderReader<R> {
    file: R,
    /// Length of the file according to the file system.
    file_len: u64,
    /// Bytes consumed by the caller.
    position: u64,
    buffer: Box<[u8]>,
    /// Bytes of the buffer that are consumed.
    consumed: usize,
    /// Bytes of the buffer that are filled.
    filled: usize,
}

impl<R: Read> HeaderReader<R> {
    pub fn new(file: R, file_len: u64) -> Self {
        Self {
            file,
            file_len,
            position: 0,
            buffer: vec![0; BUFFER].into(),
            consumed: 0,
            filled: 0,
        }
    }

    /// Bytes consumed so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Refuses a count of items of at least `min_bytes` bytes if it exceeds the rest of the file,
    /// `max_count`, or the header limit.
    pub fn check_count(&self, count: u64, min_bytes: u64, max_count: u64, what: &str) -> Result<(), GgufProblem> {
        let truncated = || GgufProblem::Truncated {
            what: format!("{what} (it claims {count} of them)"),
        };
        let len = count.checked_mul(min_bytes).ok_or_else(truncated)?;
        let end = self.position.checked_add(len).filter(|&end| end <= self.file_len);
        let end = end.ok_or_else(truncated)?;
        let too_large = |found: String, limit: u64| {
            Err(GgufProblem::TooLarge {
                what: what.to_owned(),
                found,
                most: limit.to_string(),
            })
        };
        if count > max_count {
            return too_large(format!("{count} of them"), max_count);
        }
        if end > MAX_HEADER {
            return too_large(
                format!("{count} of them, which make the header {end} bytes long"),
                MAX_HEADER,
            );
        }
        Ok(())
    }

    /// Refuses a length of the next item that exceeds the file or the header limit.
    fn check_len(&self, len: u64, what: &str) -> Result<(), GgufProblem> {
        match self.position.checked_add(len) {
            Some(end) if end <= self.file_len.min(MAX_HEADER) => Ok(()),
            Some(end) if end <= self.file_len => Err(GgufProblem::TooLarge {
                what: what.to_owned(),
                found: format!("it makes the header {end} bytes long"),
                most: MAX_HEADER.to_string(),
            }),
            _ => Err(GgufProblem::Truncated { what: what.to_owned() }),
        }
    }

    /// The next bytes, at least one, without consuming them.
    pub fn peek(&mut self, what: &str) -> Result<&[u8], GgufProblem> {
        self.fill(what)?;
        Ok(&self.buffer[self.consumed..self.filled])
    }

    /// Refills the buffer if all of it is consumed.
    fn fill(&mut self, what: &str) -> Result<(), GgufProblem> {
        while self.consumed == self.filled {
            self.consumed = 0;
            self.filled = 0;
            match self.file.read(&mut self.buffer) {
                Ok(0) => return Err(GgufProblem::Truncated { what: what.to_owned() }),
                Ok(count) => self.filled = count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Consumes between 1 and `max` bytes of the buffer, which is refilled first if necessary.
    /// `max` must not be 0.
    fn take_up_to(&mut self, max: usize, what: &str) -> Result<&[u8], GgufProblem> {
        self.fill(what)?;
        let start = self.consumed;
        let count = max.min(self.filled - start);
        self.consumed += count;
        self.position += count as u64;
        Ok(&self.buffer[start..start + count])
    }

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufProblem> {
        self.check_len(N as u64, what)?;
        let mut array = [0; N];
        let mut len = 0;
        while len < N {
            let bytes = self.take_up_to(N - len, what)?;
            array[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        }
        Ok(array)
    }

    pub fn scalar<const N: usize, T>(&mut self, what: &str, convert: fn([u8; N]) -> T) -> Result<T, GgufProblem> {
        self.array(what).map(convert)
    }

    pub fn scalars<const N: usize, T>(
        &mut self,
        count: u64,
        what: &str,
        convert: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, GgufProblem> {
        self.check_count(count, N as u64, u64::MAX, what)?;
        let mut scalars = Vec::new();
        let mut remaining = count;
        while remaining > 0 {
            // Scalars that are completely in the buffer are converted together. One across its end
            // is read alone.
            let buffered = (self.filled - self.consumed) / N;
            if buffered == 0 {
                scalars.push(self.scalar(what, convert)?);
                remaining -= 1;
                continue;
            }
            let batch = usize::try_from(remaining).map_or(buffered, |remaining| remaining.min(buffered));
            let (chunks, _) = self.take_up_to(batch * N, what)?.as_chunks::<N>();
            scalars.extend(chunks.iter().map(|&chunk| convert(chunk)));
            remaining -= batch as u64;
        }
        Ok(scalars)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32, GgufProblem> {
        self.scalar(what, u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64, GgufProblem> {
        self.scalar(what, u64::from_le_bytes)
    }

    /// Reads a length-prefixed string of at most `max_len` bytes. Borrows it if it is completely in
    /// the buffer.
    pub fn string(&mut self, max_len: u64, what: &str) -> Result<Cow<'_, str>, GgufProblem> {
        let len = self.u64(what)?;
        if len > max_len && self.position.checked_add(len).is_some_and(|end| end <= self.file_len) {
            return Err(GgufProblem::TooLarge {
                what: what.to_owned(),
                found: format!("a string of {len} bytes"),
                most: max_len.to_string(),
            });
        }
        self.check_len(len, what)?;
        let not_utf8 = || GgufProblem::NotUtf8 { what: what.to_owned() };
        // At most the header limit, which fits in `usize` on every system.
        let len = len as usize;
        if len <= self.filled - self.consumed {
            if len == 0 {
                return Ok(Cow::Borrowed(""));
            }
            let text = std::str::from_utf8(self.take_up_to(len, what)?);
            return text.map(Cow::Borrowed).map_err(|_| not_utf8());
        }
        let mut bytes = Vec::new();
        while bytes.len() < len {
            bytes.extend_from_slice(self.take_up_to(len - bytes.len(), what)?);
        }
        String::from_utf8(bytes).map(Cow::Owned).map_err(|_| not_utf8())
    }
}

//! Reads a header forward, piece by piece, within the limits of [`super::limits`].

use super::GgufProblem;
use super::limits::MAX_HEADER;
use std::borrow::Cow;
use std::io::{ErrorKind, Read};

/// Bytes read from the file at once.
const BUFFER: usize = 64 << 10;

/// A header that is being read. It takes memory for bytes that the file yielded, never for a length that it claims: a file
/// may be sparse, and may be cut while it is read.
pub(super) struct HeaderReader<R> {
    file: R,
    /// The length of the file, from the system.
    file_len: u64,
    /// Bytes that the caller has taken.
    position: u64,
    buffer: Box<[u8]>,
    /// Bytes of the buffer that are taken, and that are read.
    taken: usize,
    filled: usize,
}

impl<R: Read> HeaderReader<R> {
    pub fn new(file: R, file_len: u64) -> Self {
        Self {
            file,
            file_len,
            position: 0,
            buffer: vec![0; BUFFER].into(),
            taken: 0,
            filled: 0,
        }
    }

    /// Bytes of the header so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Refuses a count of things that the rest of the file cannot hold, or that no header has.
    pub fn check_count(&self, count: u64, smallest: u64, most: u64, what: &str) -> Result<(), GgufProblem> {
        let cut_off = || GgufProblem::Truncated {
            what: format!("{what} (it claims {count} of them)"),
        };
        let len = count.checked_mul(smallest).ok_or_else(cut_off)?;
        let end = self.position.checked_add(len).filter(|&end| end <= self.file_len);
        let end = end.ok_or_else(cut_off)?;
        let too_large = |found: String, most: u64| {
            Err(GgufProblem::TooLarge {
                what: what.to_owned(),
                found,
                most: most.to_string(),
            })
        };
        if count > most {
            return too_large(format!("{count} of them"), most);
        }
        if end > MAX_HEADER {
            return too_large(
                format!("{count} of them, which take the header to {end} bytes"),
                MAX_HEADER,
            );
        }
        Ok(())
    }

    /// Refuses bytes that are not in the file or beyond the limit of a header.
    fn check(&self, len: u64, what: &str) -> Result<(), GgufProblem> {
        match self.position.checked_add(len) {
            Some(end) if end <= self.file_len.min(MAX_HEADER) => Ok(()),
            Some(end) if end <= self.file_len => Err(GgufProblem::TooLarge {
                what: what.to_owned(),
                found: format!("it takes the header to {end} bytes"),
                most: MAX_HEADER.to_string(),
            }),
            _ => Err(GgufProblem::Truncated { what: what.to_owned() }),
        }
    }

    /// The next bytes, between one and `most` of them; `most` is not 0.
    fn some(&mut self, most: usize, what: &str) -> Result<&[u8], GgufProblem> {
        while self.taken == self.filled {
            self.taken = 0;
            self.filled = 0;
            match self.file.read(&mut self.buffer) {
                Ok(0) => return Err(GgufProblem::Truncated { what: what.to_owned() }),
                Ok(count) => self.filled = count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let start = self.taken;
        let count = most.min(self.filled - start);
        self.taken += count;
        self.position += count as u64;
        Ok(&self.buffer[start..start + count])
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufProblem> {
        self.check(N as u64, what)?;
        let mut bytes = [0; N];
        let mut done = 0;
        while done < N {
            let some = self.some(N - done, what)?;
            let count = some.len();
            bytes[done..done + count].copy_from_slice(some);
            done += count;
        }
        Ok(bytes)
    }

    pub fn number<const N: usize, T>(&mut self, what: &str, convert: fn([u8; N]) -> T) -> Result<T, GgufProblem> {
        self.array(what).map(convert)
    }

    pub fn numbers<const N: usize, T>(
        &mut self,
        count: u64,
        what: &str,
        convert: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, GgufProblem> {
        self.check_count(count, N as u64, u64::MAX, what)?;
        let mut numbers = Vec::new();
        let mut left = count;
        while left > 0 {
            // Elements that are complete in the buffer are read together, one that is split is read alone.
            let whole = (self.filled - self.taken) / N;
            if whole == 0 {
                numbers.push(self.number(what, convert)?);
                left -= 1;
                continue;
            }
            let whole = usize::try_from(left).map_or(whole, |left| left.min(whole));
            let (chunks, _) = self.some(whole * N, what)?.as_chunks::<N>();
            numbers.extend(chunks.iter().map(|&chunk| convert(chunk)));
            left -= whole as u64;
        }
        Ok(numbers)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32, GgufProblem> {
        self.number(what, u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64, GgufProblem> {
        self.number(what, u64::from_le_bytes)
    }

    /// A text of at most `longest` bytes; borrowed where it is whole in the buffer.
    pub fn text(&mut self, longest: u64, what: &str) -> Result<Cow<'_, str>, GgufProblem> {
        let len = self.u64(what)?;
        if len > longest && self.position.checked_add(len).is_some_and(|end| end <= self.file_len) {
            return Err(GgufProblem::TooLarge {
                what: what.to_owned(),
                found: format!("a text of {len} bytes"),
                most: longest.to_string(),
            });
        }
        self.check(len, what)?;
        let not_utf8 = || GgufProblem::NotUtf8 { what: what.to_owned() };
        // Within the limit of a header, which is less than any system's usize.
        let len = len as usize;
        if len <= self.filled - self.taken {
            if len == 0 {
                return Ok(Cow::Borrowed(""));
            }
            let text = std::str::from_utf8(self.some(len, what)?);
            return text.map(Cow::Borrowed).map_err(|_| not_utf8());
        }
        let mut bytes = Vec::new();
        while bytes.len() < len {
            bytes.extend_from_slice(self.some(len - bytes.len(), what)?);
        }
        String::from_utf8(bytes).map(Cow::Owned).map_err(|_| not_utf8())
    }
}

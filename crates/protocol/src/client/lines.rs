//! The lines of a pipe.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Maximum bytes of a line. The longest message, [`Event::Finished`](crate::Event::Finished), holds
/// one id per token; a million of them fit in half of it.
const MAX_LINE: usize = 16 << 20;

/// The lines of a stream. `next` is cancellation safe.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// Maximum bytes of a line.
    limit: usize,
    /// Whether of a longer line only the last bytes are kept; otherwise it is an error.
    cuts: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Messages: lines of at most [`MAX_LINE`] bytes, that end in a line feed.
    pub fn messages(reader: R) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            limit: MAX_LINE,
            cuts: false,
        }
    }

    /// Texts of any length, of which the last `limit` bytes are kept: an error follows what was
    /// written before it without a line feed. The last text may lack a line feed.
    pub fn texts(reader: R, limit: usize) -> Self {
        Self {
            limit,
            cuts: true,
            ..Self::messages(reader)
        }
    }

    /// The next line. `None` means the end of the stream.
    ///
    /// # Errors
    /// The stream failed, or a message is too long.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let buffered = self.reader.fill_buf().await?;
            if buffered.is_empty() {
                // A last message without a line feed is truncated.
                let rest = std::mem::take(&mut self.line);
                return Ok((self.cuts && !rest.is_empty()).then_some(rest));
            }
            let end = buffered.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(buffered.len(), |end| end + 1);
            self.line.extend_from_slice(&buffered[..taken]);
            self.reader.consume(taken);
            if self.cuts {
                self.line.drain(..self.line.len().saturating_sub(self.limit));
            }
            if self.line.len() > self.limit {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"));
            }
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(mut lines: Lines<&[u8]>) -> io::Result<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        while let Some(line) = lines.next().await? {
            all.push(line);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn a_long_text_is_cut_and_the_next_one_follows() {
        let long = "x".repeat(100_000);
        let stream = format!("first\n{long}\nthe allocation failed");
        let lines = all(Lines::texts(stream.as_bytes(), 10)).await.expect("no error");
        assert_eq!(lines, [&b"first\n"[..], b"xxxxxxxxx\n", b"ion failed"]);
    }

    #[tokio::test]
    async fn a_message_is_whole_or_refused() {
        let lines = all(Lines::messages(&b"{}\n{"[..])).await.expect("no error");
        assert_eq!(lines, [b"{}\n"]);
        let long = vec![b'x'; MAX_LINE + 1];
        assert!(all(Lines::messages(&long[..])).await.is_err());
    }
}

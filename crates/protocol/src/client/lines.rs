//! The lines of a pipe.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Maximum bytes of a line. The longest message, [`Event::Finished`](crate::Event::Finished), has
/// one id per token; a million ids take half of the limit.
const MAX_LINE_BYTES: usize = 16 << 20;

/// The lines of a stream. `next` is cancellation safe.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    max_bytes: usize,
    /// Whether a longer line is truncated to its last bytes; otherwise it is an error.
    is_log: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads messages: lines of at most [`MAX_LINE_BYTES`] that end in a line feed.
    pub fn for_messages(reader: R) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            max_bytes: MAX_LINE_BYTES,
            is_log: false,
        }
    }

    /// Reads log lines of any length, truncated to their last `max_bytes` bytes: an error message
    /// may follow other output in the same line. The last line may lack a line feed.
    pub fn for_log(reader: R, max_bytes: usize) -> Self {
        Self {
            max_bytes,
            is_log: true,
            ..Self::for_messages(reader)
        }
    }

    /// The next line. `None` means the end of the stream.
    ///
    /// # Errors
    /// The stream failed, or a message is too long.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let buffer = self.reader.fill_buf().await?;
            if buffer.is_empty() {
                // A last message without a line feed is incomplete.
                let rest = std::mem::take(&mut self.line);
                return Ok((self.is_log && !rest.is_empty()).then_some(rest));
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let length = end.map_or(buffer.len(), |end| end + 1);
            self.line.extend_from_slice(&buffer[..length]);
            self.reader.consume(length);
            if self.is_log {
                self.line.drain(..self.line.len().saturating_sub(self.max_bytes));
            }
            if self.line.len() > self.max_bytes {
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

    async fn read_all(mut lines: Lines<&[u8]>) -> io::Result<Vec<Vec<u8>>> {
        let mut all_lines = Vec::new();
        while let Some(line) = lines.next().await? {
            all_lines.push(line);
        }
        Ok(all_lines)
    }

    #[tokio::test]
    async fn a_long_log_line_is_truncated_and_the_next_one_is_read() {
        let long_line = "x".repeat(100_000);
        let stream = format!("first\n{long_line}\nthe allocation failed");
        let lines = read_all(Lines::for_log(stream.as_bytes(), 10)).await.expect("no error");
        assert_eq!(lines, [&b"first\n"[..], b"xxxxxxxxx\n", b"ion failed"]);
    }

    #[tokio::test]
    async fn a_message_is_whole_or_refused() {
        let lines = read_all(Lines::for_messages(&b"{}\n{"[..])).await.expect("no error");
        assert_eq!(lines, [b"{}\n"]);
        let long_line = vec![b'x'; MAX_LINE_BYTES + 1];
        assert!(read_all(Lines::for_messages(&long_line[..])).await.is_err());
    }
}

//! The lines of a pipe.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Maximum bytes of a line. The longest message, [`Event::Finished`](crate::Event::Finished), holds
/// one id per token; a million of them fit in half of it.
const MAX_LINE: usize = 16 << 20;

/// The lines of a stream, each at most [`MAX_LINE`]. `next` is cancellation safe.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(reader: R) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
        }
    }

    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let buffered = self.reader.fill_buf().await?;
            if buffered.is_empty() {
                // A last line without a line feed is truncated.
                return Ok(None);
            }
            let end = buffered.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(buffered.len(), |end| end + 1);
            self.line.extend_from_slice(&buffered[..taken]);
            self.reader.consume(taken);
            if self.line.len() > MAX_LINE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"));
            }
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

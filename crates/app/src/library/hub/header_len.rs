//! The length of a GGUF header, from its first bytes.
//!
//! A walk without copies: the file may be hostile, and this process reads no model's contents. See
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md> for the format.

/// Most metadata keys, as in the reader of files.
const MAX_KEYS: u64 = 1 << 16;

/// Most tensors, as in the reader of files.
const MAX_TENSORS: u64 = 1 << 17;

/// Why there is no length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// The header is longer than the bytes.
    More,
    /// The bytes are not the beginning of a GGUF file.
    Invalid,
}

/// Length of the header at the beginning of these bytes, without padding.
pub(super) fn header_len(bytes: &[u8]) -> Result<usize, Unfinished> {
    let mut walk = Walk { bytes, at: 0 };
    if walk.take(4)? != b"GGUF" || !(2..=3).contains(&walk.u32()?) {
        return Err(Unfinished::Invalid);
    }
    let (tensors, keys) = (walk.u64()?, walk.u64()?);
    if tensors > MAX_TENSORS || keys > MAX_KEYS {
        return Err(Unfinished::Invalid);
    }
    for _ in 0..keys {
        walk.text()?;
        let kind = walk.u32()?;
        walk.value(kind)?;
    }
    for _ in 0..tensors {
        walk.text()?;
        let dimensions = walk.u32()?;
        if dimensions > 4 {
            return Err(Unfinished::Invalid);
        }
        walk.skip(u64::from(dimensions) * 8 + 4 + 8)?;
    }
    Ok(walk.at)
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Unfinished> {
        let end = self.at.checked_add(count).ok_or(Unfinished::Invalid)?;
        let taken = self.bytes.get(self.at..end).ok_or(Unfinished::More)?;
        self.at = end;
        Ok(taken)
    }

    fn skip(&mut self, count: u64) -> Result<(), Unfinished> {
        self.take(usize::try_from(count).map_err(|_| Unfinished::Invalid)?)
            .map(drop)
    }

    fn u32(&mut self) -> Result<u32, Unfinished> {
        let bytes = self.take(4)?.try_into().map_err(|_| Unfinished::More)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, Unfinished> {
        let bytes = self.take(8)?.try_into().map_err(|_| Unfinished::More)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn text(&mut self) -> Result<(), Unfinished> {
        let len = self.u64()?;
        self.skip(len)
    }

    /// Skips a value of this type; arrays do not nest.
    fn value(&mut self, kind: u32) -> Result<(), Unfinished> {
        match kind {
            TEXT => self.text(),
            ARRAY => {
                let (kind, count) = (self.u32()?, self.u64()?);
                match kind {
                    // Each takes 8 bytes at least, so that the loop ends with the bytes.
                    TEXT => (0..count).try_for_each(|_| self.text()),
                    kind => self.skip(size(kind)?.checked_mul(count).ok_or(Unfinished::Invalid)?),
                }
            }
            kind => self.skip(size(kind)?),
        }
    }
}

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Size of a number or flag in bytes.
fn size(kind: u32) -> Result<u64, Unfinished> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        _ => Err(Unfinished::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
    }

    /// A header with a value of every kind and one tensor.
    fn header() -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(1_u64.to_le_bytes());
        let key = |kind: u32, value: &[u8]| [&text("key")[..], &kind.to_le_bytes(), value].concat();
        let list = |kind: u32, count: u64, values: &[u8]| {
            let head = [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
            key(ARRAY, &[&head[..], values].concat())
        };
        let keys = [
            key(TEXT, &text("value")),
            key(4, &[0; 4]),
            key(7, &[1]),
            key(10, &[0; 8]),
            list(TEXT, 2, &[text("a"), text("")].concat()),
            list(6, 3, &[0; 12]),
        ];
        bytes.extend((keys.len() as u64).to_le_bytes());
        bytes.extend(keys.concat());
        bytes.extend(text("tensor"));
        bytes.extend(2_u32.to_le_bytes());
        bytes.extend([0; 2 * 8 + 4 + 8]);
        bytes
    }

    #[test]
    fn a_header_ends_where_its_last_tensor_does() {
        let header = header();
        let file = [&header[..], &[1; 100]].concat();
        assert_eq!(header_len(&file), Ok(header.len()));
        for end in 0..header.len() {
            assert_eq!(header_len(&header[..end]), Err(Unfinished::More), "{end}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        for bytes in [&b"<htm"[..], b"GGUF\x01\0\0\0", b"GGUF\x09\0\0\0"] {
            assert_eq!(header_len(bytes), Err(Unfinished::Invalid), "{bytes:?}");
        }
        let many = [&b"GGUF\x03\0\0\0"[..], &[0xff; 16]].concat();
        assert_eq!(header_len(&many), Err(Unfinished::Invalid));
    }

    proptest! {
        #[test]
        fn mutated_headers_end_within_the_bytes(at in 0_usize..200, byte: u8) {
            let mut bytes = header();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(len) = header_len(&bytes) {
                prop_assert!(len <= bytes.len());
            }
        }
    }
}

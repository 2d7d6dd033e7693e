//! The length of a GGUF header and the end of the tensors that it describes, from the first bytes
//! of a file.
//!
//! The header is walked without copies: the file may be hostile, and this process reads no model's
//! contents. See
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md> for the format.

use hearth_formats::gguf::TensorType;

/// Most metadata keys, as in the reader of files.
const MAX_KEYS: u64 = 1 << 16;

/// Most tensors, as in the reader of files.
const MAX_TENSORS: u64 = 1 << 17;

/// Metadata key of the alignment of tensor data.
const ALIGNMENT_KEY: &[u8] = b"general.alignment";

/// Alignment of a file without [`ALIGNMENT_KEY`].
const DEFAULT_ALIGNMENT: u64 = 32;

/// Largest alignment, as in the reader of files.
const MAX_ALIGNMENT: u64 = 1 << 30;

/// The reason why bytes have no header length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum HeaderLenError {
    /// The header is longer than the bytes.
    Incomplete,
    /// The bytes are not the beginning of a GGUF file.
    Invalid,
}

/// The lengths that follow from a file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Extent {
    /// Length of the header without padding.
    pub header: usize,
    /// End of the last tensor in the file. `None` means that the header has a tensor of an unknown
    /// type, or an invalid one.
    pub end: Option<u64>,
}

/// Length of the header at the beginning of these bytes, without padding.
pub(super) fn header_len(bytes: &[u8]) -> Result<usize, HeaderLenError> {
    extent(bytes).map(|extent| extent.header)
}

/// The extent of the file that begins with these bytes.
///
/// # Errors
/// The bytes are not the whole header of a GGUF file.
pub(in super::super) fn extent(bytes: &[u8]) -> Result<Extent, HeaderLenError> {
    let mut walk = Walk { bytes, at: 0 };
    if walk.take(4)? != b"GGUF" || !(2..=3).contains(&walk.u32()?) {
        return Err(HeaderLenError::Invalid);
    }
    let (tensors, keys) = (walk.u64()?, walk.u64()?);
    if tensors > MAX_TENSORS || keys > MAX_KEYS {
        return Err(HeaderLenError::Invalid);
    }
    let mut alignment = DEFAULT_ALIGNMENT;
    for _ in 0..keys {
        let key = walk.text()?;
        let kind = walk.u32()?;
        match (key, kind) {
            (ALIGNMENT_KEY, 4) => alignment = u64::from(walk.u32()?),
            (ALIGNMENT_KEY, 10) => alignment = walk.u64()?,
            _ => walk.value(kind)?,
        }
    }
    let mut data = Some(0);
    for _ in 0..tensors {
        let end = walk.tensor()?;
        data = data.zip(end).map(|(data, end): (u64, u64)| data.max(end));
    }
    let is_valid = alignment.is_power_of_two() && alignment <= MAX_ALIGNMENT;
    let start = is_valid.then(|| (walk.at as u64).next_multiple_of(alignment));
    let end = match tensors {
        0 => Some(walk.at as u64),
        _ => start.zip(data).and_then(|(start, data)| start.checked_add(data)),
    };
    Ok(Extent { header: walk.at, end })
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], HeaderLenError> {
        let end = self.at.checked_add(count).ok_or(HeaderLenError::Invalid)?;
        let bytes = self.bytes.get(self.at..end).ok_or(HeaderLenError::Incomplete)?;
        self.at = end;
        Ok(bytes)
    }

    fn skip(&mut self, count: u64) -> Result<(), HeaderLenError> {
        self.take(usize::try_from(count).map_err(|_| HeaderLenError::Invalid)?)
            .map(drop)
    }

    fn u32(&mut self) -> Result<u32, HeaderLenError> {
        let bytes = self.take(4)?.try_into().map_err(|_| HeaderLenError::Incomplete)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, HeaderLenError> {
        let bytes = self.take(8)?.try_into().map_err(|_| HeaderLenError::Incomplete)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn text(&mut self) -> Result<&'a [u8], HeaderLenError> {
        let len = self.u64()?;
        self.take(usize::try_from(len).map_err(|_| HeaderLenError::Invalid)?)
    }

    /// The end of a tensor, relative to the start of the tensor data; `None` if its type is
    /// unknown or its shape invalid.
    fn tensor(&mut self) -> Result<Option<u64>, HeaderLenError> {
        self.text()?;
        let dimensions = self.u32()?;
        if dimensions > 4 {
            return Err(HeaderLenError::Invalid);
        }
        let mut shape = [0; 4];
        let shape = &mut shape[..dimensions as usize];
        for size in shape.iter_mut() {
            *size = self.u64()?;
        }
        let kind = TensorType::from_id(self.u32()?);
        let offset = self.u64()?;
        let len = kind.and_then(|kind| kind.byte_len(shape).ok());
        Ok(len.and_then(|len| offset.checked_add(len)))
    }

    /// Skips a value of this type; arrays do not nest.
    fn value(&mut self, kind: u32) -> Result<(), HeaderLenError> {
        match kind {
            TEXT => self.text().map(drop),
            ARRAY => {
                let (kind, count) = (self.u32()?, self.u64()?);
                match kind {
                    // Each takes 8 bytes at least, so that the loop ends with the bytes.
                    TEXT => (0..count).try_for_each(|_| self.text().map(drop)),
                    kind => self.skip(size(kind)?.checked_mul(count).ok_or(HeaderLenError::Invalid)?),
                }
            }
            kind => self.skip(size(kind)?),
        }
    }
}

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Size of a number or flag in bytes.
fn size(kind: u32) -> Result<u64, HeaderLenError> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        _ => Err(HeaderLenError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::GgufHeader;
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
            assert_eq!(header_len(&header[..end]), Err(HeaderLenError::Incomplete), "{end}");
        }
    }

    #[test]
    fn the_end_of_the_last_tensor_is_that_of_the_reader() {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/models/");
        let files = std::fs::read_dir(fixtures).expect("fixtures");
        let paths = files.map(|entry| entry.expect("an entry").path());
        let mut count = 0;
        for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "gguf")) {
            let bytes = std::fs::read(&path).expect("a file");
            let end = extent(&bytes).expect("a header").end.expect("known types");
            let read = |len: u64| GgufHeader::from_reader(bytes.as_slice(), len);
            assert!(read(end).is_ok(), "{}", path.display());
            let error = read(end - 1).expect_err("it is cut");
            assert!(error.problem.is_incomplete(), "{error}");
            count += 1;
        }
        assert!(count > 3, "{count}");
    }

    #[test]
    fn other_files_are_refused() {
        for bytes in [&b"<htm"[..], b"GGUF\x01\0\0\0", b"GGUF\x09\0\0\0"] {
            assert_eq!(header_len(bytes), Err(HeaderLenError::Invalid), "{bytes:?}");
        }
        let many = [&b"GGUF\x03\0\0\0"[..], &[0xff; 16]].concat();
        assert_eq!(header_len(&many), Err(HeaderLenError::Invalid));
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

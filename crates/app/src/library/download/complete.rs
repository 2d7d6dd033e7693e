//! Checks that a downloaded file has all of its tensors: the length that the server reports may be
//! too short for them. Only lengths in the header are read, because the file may be hostile.

use crate::library::{
    Flaw,
    hub::{HeaderLenError, extent},
};
use hearth_formats::{adapter::PEFT_TENSORS, is_web_page};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use std::{
    fmt,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

/// Bytes of a GGUF header in the first read; most vocabularies need more.
const FIRST: u64 = 2 << 20;

/// Most bytes of a GGUF header, as in the reader of files.
const MAX_HEADER: u64 = 128 << 20;

/// Most bytes of the header of a safetensors file, as in the reader of adapters.
const MAX_TABLE: u64 = 8 << 20;

/// Bytes at the start of a file in which a web page is recognized.
const START: u64 = 256;

/// Returns the flaw of a complete download, if it has one. `target` is its final path; `is_hashed`
/// means that it matches its published hash, so that it may be of any format.
///
/// # Errors
/// The file cannot be read.
pub fn flaw(file: &mut File, target: &Path, is_hashed: bool) -> io::Result<Option<Flaw>> {
    let len = file.metadata()?.len();
    if len == 0 {
        return Ok(Some(Flaw::Empty));
    }
    let start = read(file, START)?;
    if is_web_page(&start) {
        return Ok(Some(Flaw::WebPage));
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let expected_len = match name.as_ref() {
        PEFT_TENSORS => safetensors(file)?,
        _ if start.starts_with(b"GGUF") => gguf(file, len)?,
        _ if is_hashed => return Ok(None),
        _ => return Ok(Some(Flaw::NotGguf)),
    };
    Ok(match expected_len {
        ExpectedLen::Bytes(end) if end > len => Some(Flaw::MissingTensors { length: len, end }),
        ExpectedLen::Longer => Some(Flaw::MissingHeader { length: len }),
        ExpectedLen::Bytes(_) | ExpectedLen::Unknown => None,
    })
}

/// The expected length of a file.
enum ExpectedLen {
    Bytes(u64),
    /// Longer than the file: the header itself is cut.
    Longer,
    /// Not known, because the header is invalid; the file's reader reports the error.
    Unknown,
}

/// The first bytes of a file.
fn read(file: &mut File, max_len: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(max_len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn gguf(file: &mut File, len: u64) -> io::Result<ExpectedLen> {
    let mut read_len = FIRST;
    loop {
        read_len = read_len.min(MAX_HEADER);
        match extent(&read(file, read_len)?) {
            Ok(extent) => return Ok(extent.end.map_or(ExpectedLen::Unknown, ExpectedLen::Bytes)),
            Err(HeaderLenError::Incomplete) if read_len >= len => return Ok(ExpectedLen::Longer),
            Err(HeaderLenError::Incomplete) if read_len < MAX_HEADER => read_len *= 2,
            Err(_) => return Ok(ExpectedLen::Unknown),
        }
    }
}

fn safetensors(file: &mut File) -> io::Result<ExpectedLen> {
    let mut bytes = read(file, 8)?;
    let Ok(length) = <[u8; 8]>::try_from(bytes.as_slice()).map(u64::from_le_bytes) else {
        return Ok(ExpectedLen::Longer);
    };
    if length > MAX_TABLE {
        return Ok(ExpectedLen::Unknown);
    }
    bytes.clear();
    file.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Ok(ExpectedLen::Longer);
    }
    let end = serde_json::from_slice::<DataEnd>(&bytes).ok();
    Ok(match end.and_then(|DataEnd(end)| end.checked_add(8 + length)) {
        Some(end) => ExpectedLen::Bytes(end),
        None => ExpectedLen::Unknown,
    })
}

/// The end of the last tensor's data, from the JSON of a safetensors header.
struct DataEnd(u64);

impl<'de> Deserialize<'de> for DataEnd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Ends;
        impl<'de> Visitor<'de> for Ends {
            type Value = DataEnd;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a table of tensors")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<DataEnd, M::Error> {
                let mut last = 0;
                while map.next_key::<IgnoredAny>()?.is_some() {
                    let Entry { data_offsets } = map.next_value()?;
                    last = data_offsets.map_or(last, |(_, end)| last.max(end));
                }
                Ok(DataEnd(last))
            }
        }
        from.deserialize_map(Ends)
    }
}

/// An entry of the header's table of tensors. The entry `__metadata__` has no offsets.
#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    data_offsets: Option<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn check(name: &str, bytes: &[u8], is_hashed: bool) -> Option<Flaw> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("it is written");
        flaw(&mut file, Path::new(name), is_hashed).expect("it is read")
    }

    fn fixture(path: &str) -> Vec<u8> {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/");
        std::fs::read(format!("{fixtures}{path}")).expect("a fixture")
    }

    fn is_incomplete(flaw: Option<Flaw>) -> bool {
        matches!(flaw, Some(Flaw::MissingTensors { .. } | Flaw::MissingHeader { .. }))
    }

    #[test]
    fn a_file_whose_last_tensor_lies_beyond_its_end_is_incomplete() {
        let table = br#"{"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},
            "a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let tensors = [&(table.len() as u64).to_le_bytes()[..], table, &[0; 12]].concat();
        for (name, bytes) in [("m.gguf", fixture("models/llama.gguf")), (PEFT_TENSORS, tensors)] {
            assert_eq!(check(name, &bytes, false), None, "{name}");
            for cut in [bytes.len() - 1, bytes.len() / 2, 40, 9] {
                for is_hashed in [false, true] {
                    let flaw = check(name, &bytes[..cut], is_hashed);
                    assert!(is_incomplete(flaw.clone()), "{name}, {cut}: {flaw:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_checked(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0..300_u64) {
            check("m.gguf", &[b"GGUF\x03\0\0\0", &bytes[..]].concat(), true);
            check(PEFT_TENSORS, &[&len.to_le_bytes(), &bytes[..]].concat(), true);
        }
    }

    #[test]
    fn what_is_no_model_has_its_own_message() {
        for (bytes, flaw) in [
            (&b""[..], Flaw::Empty),
            (b"<!DOCTYPE html><title>Log in</title>", Flaw::WebPage),
            (b"PK\x03\x04", Flaw::NotGguf),
        ] {
            assert_eq!(check("m.gguf", bytes, false), Some(flaw));
        }
        // A file that matches its published hash may have any format.
        for bytes in [&b"PK\x03\x04"[..], b"GGUF\x09\0\0\0"] {
            assert_eq!(check("m.gguf", bytes, true), None);
        }
    }
}

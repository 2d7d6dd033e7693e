//! Parse one GGUF file's header: metadata and tensor table. Nothing is believed before it is checked.

use super::limits::{MAX_KEYS, MAX_NAME, MAX_TENSORS, MAX_TEXT};
use super::reader::HeaderReader;
use super::{Array, GgufProblem, Metadata, Strings, TensorType, Value};
use std::collections::{HashMap, HashSet};
use std::io::Read;

/// `GGUF`, as the first four bytes stand in the file.
pub(super) const MAGIC: [u8; 4] = *b"GGUF";

/// Where tensor data is placed unless `general.alignment` says otherwise.
pub(super) const DEFAULT_ALIGNMENT: u64 = 32;

/// The key of the alignment of tensor data.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// The most dimensions of a tensor.
pub(super) const MAX_DIMENSIONS: usize = 4;

/// What a header says, with offsets from the beginning of the file.
pub(super) struct Header {
    pub metadata: Metadata,
    pub tensors: Vec<TensorEntry>,
    /// Its bytes.
    pub len: u64,
}

/// One line of the tensor table, checked.
pub(super) struct TensorEntry {
    pub name: String,
    pub shape: Vec<u64>,
    pub kind: TensorType,
    pub start: usize,
    pub len: usize,
}

/// Parses the header of a file of `file_len` bytes, of which `file` yields the beginning. Memory grows with the bytes
/// that were read, never with a length that the file claims.
pub(super) fn parse(file: impl Read, file_len: u64) -> Result<Header, GgufProblem> {
    let mut at = HeaderReader::new(file, file_len);
    match at.array("its first four bytes") {
        Ok(MAGIC) => {}
        Err(GgufProblem::Io(error)) => return Err(error.into()),
        _ => return Err(GgufProblem::NotGguf),
    }
    let version = at.u32("its version")?;
    match version {
        2 | 3 => {}
        // A small number in the other byte order has its low half empty.
        _ if version & 0xffff == 0 => return Err(GgufProblem::BigEndian),
        _ => return Err(GgufProblem::Version(version)),
    }
    let tensor_count = at.u64("the number of its tensors")?;
    let key_count = at.u64("the number of its metadata keys")?;

    let metadata = read_metadata(&mut at, key_count)?;
    let alignment = read_alignment(&metadata)?;
    let listed = read_tensor_table(&mut at, tensor_count)?;

    let data = at.position().next_multiple_of(alignment);
    let tensors = listed
        .into_iter()
        .map(|tensor| tensor.place(data, alignment, file_len))
        .collect::<Result<Vec<_>, _>>()?;
    refuse_overlaps(&tensors)?;
    let len = at.position();
    Ok(Header { metadata, tensors, len })
}

fn read_metadata(at: &mut HeaderReader<impl Read>, count: u64) -> Result<Metadata, GgufProblem> {
    // A key takes at least its length, its type and one byte of value.
    at.check_count(count, 8 + 4 + 1, MAX_KEYS, "its metadata keys")?;
    let mut metadata = Metadata::new();
    for _ in 0..count {
        let key = at.text(MAX_NAME, "a metadata key")?.into_owned();
        let shown = shorten(&key);
        if metadata.get(&key).is_some() {
            return Err(GgufProblem::metadata(shown, "it is there twice"));
        }
        let value_type = at.u32(&format!("the metadata key '{shown}'"))?;
        let value = read_value(at, &shown, value_type)?;
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn read_value(at: &mut HeaderReader<impl Read>, key: &str, value_type: u32) -> Result<Value, GgufProblem> {
    let what = format!("the metadata key '{key}'");
    let what = what.as_str();
    Ok(match value_type {
        0 => Value::U8(at.number(what, u8::from_le_bytes)?),
        1 => Value::I8(at.number(what, i8::from_le_bytes)?),
        2 => Value::U16(at.number(what, u16::from_le_bytes)?),
        3 => Value::I16(at.number(what, i16::from_le_bytes)?),
        4 => Value::U32(at.number(what, u32::from_le_bytes)?),
        5 => Value::I32(at.number(what, i32::from_le_bytes)?),
        6 => Value::F32(at.number(what, f32::from_le_bytes)?),
        7 => Value::Bool(boolean(at.number(what, u8::from_le_bytes)?, key)?),
        8 => Value::Str(at.text(MAX_TEXT, what)?.into_owned()),
        9 => Value::Array(read_array(at, key)?),
        10 => Value::U64(at.number(what, u64::from_le_bytes)?),
        11 => Value::I64(at.number(what, i64::from_le_bytes)?),
        12 => Value::F64(at.number(what, f64::from_le_bytes)?),
        other => return Err(GgufProblem::metadata(key, format!("its value type {other} is unknown"))),
    })
}

fn read_array(at: &mut HeaderReader<impl Read>, key: &str) -> Result<Array, GgufProblem> {
    let what = format!("the metadata key '{key}'");
    let what = what.as_str();
    let element_type = at.u32(what)?;
    let count = at.u64(what)?;
    Ok(match element_type {
        0 => Array::U8(at.numbers(count, what, u8::from_le_bytes)?),
        1 => Array::I8(at.numbers(count, what, i8::from_le_bytes)?),
        2 => Array::U16(at.numbers(count, what, u16::from_le_bytes)?),
        3 => Array::I16(at.numbers(count, what, i16::from_le_bytes)?),
        4 => Array::U32(at.numbers(count, what, u32::from_le_bytes)?),
        5 => Array::I32(at.numbers(count, what, i32::from_le_bytes)?),
        6 => Array::F32(at.numbers(count, what, f32::from_le_bytes)?),
        7 => {
            let bytes = at.numbers(count, what, u8::from_le_bytes)?;
            Array::Bool(
                bytes
                    .into_iter()
                    .map(|byte| boolean(byte, key))
                    .collect::<Result<_, _>>()?,
            )
        }
        8 => {
            at.check_count(count, 8, u64::MAX, what)?;
            let mut texts = Strings::new();
            for _ in 0..count {
                texts.push(&at.text(MAX_TEXT, what)?);
            }
            Array::Str(texts)
        }
        9 => {
            return Err(GgufProblem::metadata(
                key,
                "it is an array of arrays, which no known model uses",
            ));
        }
        10 => Array::U64(at.numbers(count, what, u64::from_le_bytes)?),
        11 => Array::I64(at.numbers(count, what, i64::from_le_bytes)?),
        12 => Array::F64(at.numbers(count, what, f64::from_le_bytes)?),
        other => {
            return Err(GgufProblem::metadata(
                key,
                format!("its element type {other} is unknown"),
            ));
        }
    })
}

fn boolean(byte: u8, key: &str) -> Result<bool, GgufProblem> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(GgufProblem::metadata(key, format!("a boolean is 0 or 1, not {other}"))),
    }
}

/// The alignment of tensor data that the metadata asks for.
pub(super) fn read_alignment(metadata: &Metadata) -> Result<u64, GgufProblem> {
    // Beyond a large page an alignment only serves to overflow sums.
    const LARGEST: u64 = 1 << 30;
    let alignment = metadata.u64(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > LARGEST {
        let why = format!("an alignment is a power of two of at most {LARGEST}, not {alignment}");
        return Err(GgufProblem::metadata(ALIGNMENT_KEY, why));
    }
    Ok(alignment)
}

/// One line of the tensor table, as it stands.
struct ListedTensor {
    name: String,
    shape: Vec<u64>,
    kind: TensorType,
    offset: u64,
}

fn read_tensor_table(at: &mut HeaderReader<impl Read>, count: u64) -> Result<Vec<ListedTensor>, GgufProblem> {
    // A line takes at least: length of the name, number of dimensions, one dimension, type, offset.
    at.check_count(count, 8 + 4 + 8 + 4 + 8, MAX_TENSORS, "its tensor table")?;
    let mut names = HashSet::new();
    let mut tensors = Vec::new();
    for number in 1..=count {
        let name = at
            .text(MAX_NAME, &format!("the name of tensor {number} of {count}"))?
            .into_owned();
        let shown = shorten(&name);
        if name.is_empty() {
            let why = format!("as number {number} of the table its name has 0 bytes");
            return Err(GgufProblem::tensor(shown, why));
        }
        if !names.insert(name.clone()) {
            return Err(GgufProblem::tensor(shown, "it is there twice"));
        }
        let what = format!("the tensor table at '{shown}'");
        let dimensions = at.u32(&what)? as usize;
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            let why = format!("it has {dimensions} dimensions; a tensor has 1 to {MAX_DIMENSIONS}");
            return Err(GgufProblem::tensor(shown, why));
        }
        let shape = (0..dimensions).map(|_| at.u64(&what)).collect::<Result<Vec<_>, _>>()?;
        let kind = TensorType::read(at.u32(&what)?, &shown)?;
        let offset = at.u64(&what)?;
        tensors.push(ListedTensor {
            name,
            shape,
            kind,
            offset,
        });
    }
    Ok(tensors)
}

impl ListedTensor {
    /// Finds the tensor's bytes in a file whose tensor data begins at `data`.
    fn place(self, data: u64, alignment: u64, file_len: u64) -> Result<TensorEntry, GgufProblem> {
        let Self {
            name,
            shape,
            kind,
            offset,
        } = self;
        let refuse = |why: String| Err(GgufProblem::tensor(shorten(&name), why));
        let len = match kind.byte_len(&shape) {
            Ok(len) => len,
            Err(why) => return refuse(why),
        };
        if offset % alignment != 0 {
            return refuse(format!(
                "its offset {offset} is no multiple of the alignment {alignment}"
            ));
        }
        let start = data.checked_add(offset);
        let end = start
            .and_then(|start| start.checked_add(len))
            .filter(|&end| end <= file_len);
        let (Some(start), Some(_)) = (start, end) else {
            return refuse(format!(
                "its {len} bytes from offset {offset} reach beyond the end of the file"
            ));
        };
        match (usize::try_from(start), usize::try_from(len)) {
            (Ok(start), Ok(len)) => Ok(TensorEntry {
                name,
                shape,
                kind,
                start,
                len,
            }),
            _ => refuse("this system cannot address a file of this size".to_owned()),
        }
    }
}

fn refuse_overlaps(tensors: &[TensorEntry]) -> Result<(), GgufProblem> {
    let mut by_start: Vec<_> = tensors.iter().filter(|tensor| tensor.len > 0).collect();
    by_start.sort_by_key(|tensor| tensor.start);
    for pair in by_start.windows(2) {
        if pair[0].start + pair[0].len > pair[1].start {
            let why = format!("its data overlaps that of '{}'", shorten(&pair[0].name));
            return Err(GgufProblem::tensor(shorten(&pair[1].name), why));
        }
    }
    Ok(())
}

/// Finds tensors by name.
pub(super) fn index<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<String, usize> {
    names
        .enumerate()
        .map(|(place, name)| (name.to_owned(), place))
        .collect()
}

/// A name, cut to what fits an error's text.
fn shorten(name: &str) -> String {
    const SHOWN: usize = 40;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

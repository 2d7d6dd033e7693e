//! Parses the header of one GGUF file: metadata and tensor table. Every field is validated before
//! use.

use super::limits::{MAX_KEYS, MAX_NAME, MAX_TENSORS, MAX_TEXT};
use super::reader::HeaderReader;
use super::{Array, GgufProblem, Metadata, Strings, TensorType, Value};
use crate::web_page::is_web_page;
use std::collections::{HashMap, HashSet};
use std::io::Read;

/// Magic number: the first four bytes of the file.
pub(super) const MAGIC: [u8; 4] = *b"GGUF";

/// Alignment of tensor data if `general.alignment` is absent.
pub(super) const DEFAULT_ALIGNMENT: u64 = 32;

/// Metadata key of the alignment of tensor data.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// Maximum number of dimensions of a tensor.
pub(super) const MAX_DIMENSIONS: usize = 4;

/// A parsed header, with offsets from the start of the file.
pub(super) struct Header {
    pub metadata: Metadata,
    pub tensors: Vec<TensorEntry>,
    /// Length in bytes.
    pub len: u64,
}

/// A validated entry of the tensor table.
pub(super) struct TensorEntry {
    pub name: String,
    pub shape: Vec<u64>,
    pub kind: TensorType,
    pub start: usize,
    pub len: usize,
}

/// Parses the header of a file of `file_len` bytes, read from `file`. Memory grows with the bytes
/// read, never with a length claimed by the file.
pub(super) fn parse(file: impl Read, file_len: u64) -> Result<Header, GgufProblem> {
    if file_len == 0 {
        return Err(GgufProblem::Empty);
    }
    let mut reader = HeaderReader::new(file, file_len);
    let is_page = is_web_page(reader.peek("its first bytes").unwrap_or_default());
    match reader.array("its first four bytes") {
        Ok(MAGIC) => {}
        Err(GgufProblem::Io(error)) => return Err(error.into()),
        _ if is_page => return Err(GgufProblem::WebPage),
        _ => return Err(GgufProblem::NotGguf),
    }
    let version = reader.u32("its version")?;
    match version {
        2 | 3 => {}
        // A byte-swapped small number has zeros in its low half.
        _ if version & 0xffff == 0 => return Err(GgufProblem::BigEndian),
        _ => return Err(GgufProblem::Version(version)),
    }
    let tensor_count = reader.u64("the number of its tensors")?;
    let key_count = reader.u64("the number of its metadata keys")?;

    let metadata = read_metadata(&mut reader, key_count)?;
    let alignment = read_alignment(&metadata)?;
    let entries = read_tensor_table(&mut reader, tensor_count)?;

    let data_start = reader.position().next_multiple_of(alignment);
    let tensors = entries
        .into_iter()
        .map(|entry| entry.locate(data_start, alignment))
        .collect::<Result<Vec<_>, _>>()?;
    check_end(&tensors, file_len)?;
    let tensors = tensors
        .into_iter()
        .map(LocatedTensor::into_entry)
        .collect::<Result<Vec<_>, _>>()?;
    check_overlaps(&tensors)?;
    let len = reader.position();
    Ok(Header { metadata, tensors, len })
}

fn read_metadata(reader: &mut HeaderReader<impl Read>, count: u64) -> Result<Metadata, GgufProblem> {
    // An entry has at least a key length, a type and one byte of value.
    reader.check_count(count, 8 + 4 + 1, MAX_KEYS, "its metadata keys")?;
    let mut metadata = Metadata::new();
    for _ in 0..count {
        let key = reader.string(MAX_NAME, "a metadata key")?.into_owned();
        let short_key = shorten(&key);
        if metadata.get(&key).is_some() {
            return Err(GgufProblem::metadata(short_key, "it is present twice"));
        }
        let value_type = reader.u32(&format!("the metadata key '{short_key}'"))?;
        let value = read_value(reader, &short_key, value_type)?;
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn read_value(reader: &mut HeaderReader<impl Read>, key: &str, value_type: u32) -> Result<Value, GgufProblem> {
    let what = format!("the metadata key '{key}'");
    let what = what.as_str();
    Ok(match value_type {
        0 => Value::U8(reader.scalar(what, u8::from_le_bytes)?),
        1 => Value::I8(reader.scalar(what, i8::from_le_bytes)?),
        2 => Value::U16(reader.scalar(what, u16::from_le_bytes)?),
        3 => Value::I16(reader.scalar(what, i16::from_le_bytes)?),
        4 => Value::U32(reader.scalar(what, u32::from_le_bytes)?),
        5 => Value::I32(reader.scalar(what, i32::from_le_bytes)?),
        6 => Value::F32(reader.scalar(what, f32::from_le_bytes)?),
        7 => Value::Bool(boolean(reader.scalar(what, u8::from_le_bytes)?, key)?),
        8 => Value::Str(reader.string(MAX_TEXT, what)?.into_owned()),
        9 => Value::Array(read_array(reader, key)?),
        10 => Value::U64(reader.scalar(what, u64::from_le_bytes)?),
        11 => Value::I64(reader.scalar(what, i64::from_le_bytes)?),
        12 => Value::F64(reader.scalar(what, f64::from_le_bytes)?),
        other => return Err(GgufProblem::metadata(key, format!("its value type {other} is unknown"))),
    })
}

fn read_array(reader: &mut HeaderReader<impl Read>, key: &str) -> Result<Array, GgufProblem> {
    let what = format!("the metadata key '{key}'");
    let what = what.as_str();
    let element_type = reader.u32(what)?;
    let count = reader.u64(what)?;
    Ok(match element_type {
        0 => Array::U8(reader.scalars(count, what, u8::from_le_bytes)?),
        1 => Array::I8(reader.scalars(count, what, i8::from_le_bytes)?),
        2 => Array::U16(reader.scalars(count, what, u16::from_le_bytes)?),
        3 => Array::I16(reader.scalars(count, what, i16::from_le_bytes)?),
        4 => Array::U32(reader.scalars(count, what, u32::from_le_bytes)?),
        5 => Array::I32(reader.scalars(count, what, i32::from_le_bytes)?),
        6 => Array::F32(reader.scalars(count, what, f32::from_le_bytes)?),
        7 => {
            let bytes = reader.scalars(count, what, u8::from_le_bytes)?;
            Array::Bool(
                bytes
                    .into_iter()
                    .map(|byte| boolean(byte, key))
                    .collect::<Result<_, _>>()?,
            )
        }
        8 => {
            reader.check_count(count, 8, u64::MAX, what)?;
            let mut texts = Strings::new();
            for _ in 0..count {
                texts.push(&reader.string(MAX_TEXT, what)?);
            }
            Array::Str(texts)
        }
        9 => {
            return Err(GgufProblem::metadata(
                key,
                "it is an array of arrays, which no known model uses",
            ));
        }
        10 => Array::U64(reader.scalars(count, what, u64::from_le_bytes)?),
        11 => Array::I64(reader.scalars(count, what, i64::from_le_bytes)?),
        12 => Array::F64(reader.scalars(count, what, f64::from_le_bytes)?),
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
        other => Err(GgufProblem::metadata(
            key,
            format!("a boolean must be 0 or 1, not {other}"),
        )),
    }
}

/// The alignment of tensor data according to the metadata.
pub(super) fn read_alignment(metadata: &Metadata) -> Result<u64, GgufProblem> {
    // Larger than any page. Bounds the offsets that are aligned.
    const MAX_ALIGNMENT: u64 = 1 << 30;
    let alignment = metadata.u64(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
        let why = format!("an alignment must be a power of two of at most {MAX_ALIGNMENT}, not {alignment}");
        return Err(GgufProblem::metadata(ALIGNMENT_KEY, why));
    }
    Ok(alignment)
}

/// An entry of the tensor table, not yet validated.
struct TableEntry {
    name: String,
    shape: Vec<u64>,
    kind: TensorType,
    offset: u64,
}

fn read_tensor_table(reader: &mut HeaderReader<impl Read>, count: u64) -> Result<Vec<TableEntry>, GgufProblem> {
    // An entry has at least a name length, a dimension count, one dimension, a type and an offset.
    reader.check_count(count, 8 + 4 + 8 + 4 + 8, MAX_TENSORS, "its tensor table")?;
    let mut names = HashSet::new();
    let mut tensors = Vec::new();
    for number in 1..=count {
        let name = reader
            .string(MAX_NAME, &format!("the name of tensor {number} of {count}"))?
            .into_owned();
        let short_name = shorten(&name);
        if name.is_empty() {
            let why = format!("entry {number} of the tensor table has an empty name");
            return Err(GgufProblem::tensor(short_name, why));
        }
        if !names.insert(name.clone()) {
            return Err(GgufProblem::tensor(short_name, "it is present twice"));
        }
        let what = format!("the tensor table at '{short_name}'");
        let dimensions = reader.u32(&what)? as usize;
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            let why = format!("it has {dimensions} dimensions instead of 1 to {MAX_DIMENSIONS}");
            return Err(GgufProblem::tensor(short_name, why));
        }
        let shape = (0..dimensions)
            .map(|_| reader.u64(&what))
            .collect::<Result<Vec<_>, _>>()?;
        let kind = TensorType::read(reader.u32(&what)?, &short_name)?;
        let offset = reader.u64(&what)?;
        tensors.push(TableEntry {
            name,
            shape,
            kind,
            offset,
        });
    }
    Ok(tensors)
}

/// A tensor with its byte range, which may exceed the file.
struct LocatedTensor {
    name: String,
    shape: Vec<u64>,
    kind: TensorType,
    start: u64,
    len: u64,
}

impl TableEntry {
    /// Computes the tensor's byte range in a file whose tensor data starts at `data_start`.
    fn locate(self, data_start: u64, alignment: u64) -> Result<LocatedTensor, GgufProblem> {
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
                "its offset {offset} is not a multiple of the alignment {alignment}"
            ));
        }
        match data_start
            .checked_add(offset)
            .filter(|start| start.checked_add(len).is_some())
        {
            Some(start) => Ok(LocatedTensor {
                name,
                shape,
                kind,
                start,
                len,
            }),
            None => refuse(format!(
                "its {len} bytes from offset {offset} reach beyond the end of the file, and of any file"
            )),
        }
    }
}

impl LocatedTensor {
    /// The end of the data. [`TableEntry::locate`] checked that the sum does not overflow.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }

    fn into_entry(self) -> Result<TensorEntry, GgufProblem> {
        match (usize::try_from(self.start), usize::try_from(self.len)) {
            (Ok(start), Ok(len)) => Ok(TensorEntry {
                name: self.name,
                shape: self.shape,
                kind: self.kind,
                start,
                len,
            }),
            _ => {
                let why = "this system cannot address a file of this size".to_owned();
                Err(GgufProblem::tensor(shorten(&self.name), why))
            }
        }
    }
}

/// Refuses a file that ends before the data of its last tensor.
fn check_end(tensors: &[LocatedTensor], file_len: u64) -> Result<(), GgufProblem> {
    match tensors.iter().max_by_key(|tensor| tensor.end()) {
        Some(last) if last.end() > file_len => Err(GgufProblem::Incomplete {
            tensor: shorten(&last.name),
            needs: last.end(),
            has: file_len,
        }),
        _ => Ok(()),
    }
}

fn check_overlaps(tensors: &[TensorEntry]) -> Result<(), GgufProblem> {
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

/// Maps names to their indices.
pub(super) fn index<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<String, usize> {
    names
        .enumerate()
        .map(|(index, name)| (name.to_owned(), index))
        .collect()
}

/// Truncates a name for an error message.
fn shorten(name: &str) -> String {
    const MAX_CHARACTERS: usize = 40;
    crate::shortened::shortened(name, MAX_CHARACTERS)
}

//! Reads one GGUF file's header: metadata and tensor table. Nothing is believed before it is checked.

use super::{Array, GgufProblem, Metadata, Strings, TensorType, Value};
use std::collections::{HashMap, HashSet};

/// `GGUF`, as the first four bytes stand in the file.
pub(super) const MAGIC: [u8; 4] = *b"GGUF";

/// Where tensor data is placed unless `general.alignment` says otherwise.
pub(super) const DEFAULT_ALIGNMENT: u64 = 32;

/// The key of the alignment of tensor data.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// The most dimensions of a tensor.
pub(super) const MAX_DIMENSIONS: usize = 4;

/// The longest key and tensor name in bytes; the format says 65535 for keys and 64 for names.
pub(super) const MAX_NAME: usize = 65535;

/// What a header says, with offsets from the beginning of the file.
pub(super) struct Header {
    pub metadata: Metadata,
    pub tensors: Vec<TensorEntry>,
}

/// One line of the tensor table, checked.
pub(super) struct TensorEntry {
    pub name: String,
    pub shape: Vec<u64>,
    pub kind: TensorType,
    pub start: usize,
    pub len: usize,
}

/// Reads the header of a whole file.
pub(super) fn parse(file: &[u8]) -> Result<Header, GgufProblem> {
    let mut at = Cursor { file, position: 0 };
    if at.take(4, "its first four bytes").ok() != Some(&MAGIC) {
        return Err(GgufProblem::NotGguf);
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

    let data = (at.position as u64).next_multiple_of(alignment);
    let tensors = listed
        .into_iter()
        .map(|tensor| tensor.place(data, alignment, file.len() as u64))
        .collect::<Result<Vec<_>, _>>()?;
    refuse_overlaps(&tensors)?;
    Ok(Header { metadata, tensors })
}

fn read_metadata(at: &mut Cursor<'_>, count: u64) -> Result<Metadata, GgufProblem> {
    // A key takes at least its length, its type and one byte of value.
    at.check_count(count, 8 + 4 + 1, "its metadata keys")?;
    let mut metadata = Metadata::new();
    for _ in 0..count {
        let key = at.text("a metadata key")?;
        if key.len() > MAX_NAME {
            return Err(GgufProblem::metadata(
                shorten(key),
                format!("it is longer than {MAX_NAME} bytes"),
            ));
        }
        if metadata.get(key).is_some() {
            return Err(GgufProblem::metadata(key, "it is there twice"));
        }
        let value_type = at.u32(&format!("the metadata key '{key}'"))?;
        let value = read_value(at, key, value_type)?;
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn read_value(at: &mut Cursor<'_>, key: &str, value_type: u32) -> Result<Value, GgufProblem> {
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
        8 => Value::Str(at.text(what)?.to_owned()),
        9 => Value::Array(read_array(at, key)?),
        10 => Value::U64(at.number(what, u64::from_le_bytes)?),
        11 => Value::I64(at.number(what, i64::from_le_bytes)?),
        12 => Value::F64(at.number(what, f64::from_le_bytes)?),
        other => return Err(GgufProblem::metadata(key, format!("its value type {other} is unknown"))),
    })
}

fn read_array(at: &mut Cursor<'_>, key: &str) -> Result<Array, GgufProblem> {
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
            at.check_count(count, 8, what)?;
            let mut texts = Strings::new();
            for _ in 0..count {
                texts.push(at.text(what)?);
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

fn read_tensor_table(at: &mut Cursor<'_>, count: u64) -> Result<Vec<ListedTensor>, GgufProblem> {
    // A line takes at least: length of the name, number of dimensions, one dimension, type, offset.
    at.check_count(count, 8 + 4 + 8 + 4 + 8, "its tensor table")?;
    let mut names = HashSet::new();
    let mut tensors = Vec::new();
    for number in 1..=count {
        let name = at.text(&format!("the name of tensor {number} of {count}"))?;
        if name.is_empty() || name.len() > MAX_NAME {
            let why = format!("as number {number} of the table its name has {} bytes", name.len());
            return Err(GgufProblem::tensor(shorten(name), why));
        }
        if !names.insert(name) {
            return Err(GgufProblem::tensor(name, "it is there twice"));
        }
        let what = format!("the tensor table at '{name}'");
        let dimensions = at.u32(&what)? as usize;
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            let why = format!("it has {dimensions} dimensions; a tensor has 1 to {MAX_DIMENSIONS}");
            return Err(GgufProblem::tensor(name, why));
        }
        let shape = (0..dimensions).map(|_| at.u64(&what)).collect::<Result<Vec<_>, _>>()?;
        let kind = TensorType::read(at.u32(&what)?, name)?;
        let offset = at.u64(&what)?;
        tensors.push(ListedTensor {
            name: name.to_owned(),
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
        let len = match kind.byte_len(&shape) {
            Ok(len) => len,
            Err(why) => return Err(GgufProblem::tensor(name, why)),
        };
        if offset % alignment != 0 {
            let why = format!("its offset {offset} is no multiple of the alignment {alignment}");
            return Err(GgufProblem::tensor(name, why));
        }
        let start = data.checked_add(offset);
        let end = start
            .and_then(|start| start.checked_add(len))
            .filter(|&end| end <= file_len);
        match (start, end) {
            // Both lie inside the file, whose length is a usize.
            (Some(start), Some(_)) => Ok(TensorEntry {
                name,
                shape,
                kind,
                start: start as usize,
                len: len as usize,
            }),
            _ => {
                let why = format!("its {len} bytes from offset {offset} reach beyond the end of the file");
                Err(GgufProblem::tensor(name, why))
            }
        }
    }
}

fn refuse_overlaps(tensors: &[TensorEntry]) -> Result<(), GgufProblem> {
    let mut by_start: Vec<_> = tensors.iter().filter(|tensor| tensor.len > 0).collect();
    by_start.sort_by_key(|tensor| tensor.start);
    for pair in by_start.windows(2) {
        if pair[0].start + pair[0].len > pair[1].start {
            let why = format!("its data overlaps that of '{}'", pair[0].name);
            return Err(GgufProblem::tensor(&pair[1].name, why));
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

/// A name that is too long for an error's text.
fn shorten(name: &str) -> String {
    const SHOWN: usize = 40;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// Reads forward through a file and never past its end.
struct Cursor<'a> {
    file: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: u64, what: &str) -> Result<&'a [u8], GgufProblem> {
        let rest = &self.file[self.position..];
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(bytes) => {
                self.position += bytes.len();
                Ok(bytes)
            }
            None => Err(GgufProblem::Truncated { what: what.to_owned() }),
        }
    }

    /// Refuses a count of things that the rest of the file cannot hold, before memory is asked for.
    fn check_count(&self, count: u64, smallest: u64, what: &str) -> Result<(), GgufProblem> {
        let rest = (self.file.len() - self.position) as u64;
        match count.checked_mul(smallest) {
            Some(bytes) if bytes <= rest => Ok(()),
            _ => Err(GgufProblem::Truncated {
                what: format!("{what} (it claims {count} of them)"),
            }),
        }
    }

    fn number<const N: usize, T>(&mut self, what: &str, convert: fn([u8; N]) -> T) -> Result<T, GgufProblem> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64, what)?);
        Ok(convert(bytes))
    }

    fn numbers<const N: usize, T>(
        &mut self,
        count: u64,
        what: &str,
        convert: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, GgufProblem> {
        self.check_count(count, N as u64, what)?;
        let (chunks, _) = self.take(count * N as u64, what)?.as_chunks::<N>();
        Ok(chunks.iter().map(|&chunk| convert(chunk)).collect())
    }

    fn u32(&mut self, what: &str) -> Result<u32, GgufProblem> {
        self.number(what, u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, GgufProblem> {
        self.number(what, u64::from_le_bytes)
    }

    fn text(&mut self, what: &str) -> Result<&'a str, GgufProblem> {
        let len = self.u64(what)?;
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| GgufProblem::NotUtf8 { what: what.to_owned() })
    }
}

//! Writes GGUF files: the header at once, then the tensors' data one after the other, so that no model need be in memory.

use super::limits::{MAX_HEADER, MAX_KEYS, MAX_NAME, MAX_TENSORS, MAX_TEXT};
use super::parse::{MAGIC, MAX_DIMENSIONS, read_alignment};
use super::{Array, GgufError, GgufProblem, Metadata, TensorType, Value};
use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

/// What the table is to say of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorHeader {
    /// Its name.
    pub name: String,
    /// Its dimensions, row length first.
    pub shape: Vec<u64>,
    /// How its data is laid out.
    pub kind: TensorType,
}

/// Writes one file. After the header each tensor's data comes by [`GgufWriter::tensor`], in the order of the table, then
/// [`GgufWriter::finish`].
#[derive(Debug)]
pub struct GgufWriter<W: Write> {
    out: W,
    alignment: u64,
    /// Name and bytes of the tensors that are still to come, last first.
    waiting: Vec<(String, u64)>,
}

impl<W: Write> GgufWriter<W> {
    /// Writes the header: metadata and tensor table.
    ///
    /// # Errors
    /// Where something may not stand in a GGUF file (a name twice, a row that does not fill its blocks), or writing fails.
    pub fn begin(mut out: W, metadata: &Metadata, tensors: &[TensorHeader]) -> Result<Self, GgufError> {
        let alignment = read_alignment(metadata).map_err(fail)?;
        check_metadata(metadata).map_err(fail)?;
        let lens = check_table(tensors).map_err(fail)?;

        let mut header = Vec::new();
        header.extend(MAGIC);
        header.extend(3u32.to_le_bytes());
        header.extend((tensors.len() as u64).to_le_bytes());
        header.extend((metadata.len() as u64).to_le_bytes());
        for (key, value) in metadata.iter() {
            put_text(&mut header, key);
            put_value(&mut header, value);
        }
        let mut offset = 0u64;
        for (tensor, &len) in tensors.iter().zip(&lens) {
            put_text(&mut header, &tensor.name);
            header.extend((tensor.shape.len() as u32).to_le_bytes());
            for dimension in &tensor.shape {
                header.extend(dimension.to_le_bytes());
            }
            header.extend(tensor.kind.id().to_le_bytes());
            header.extend(offset.to_le_bytes());
            let end = offset
                .checked_add(len)
                .and_then(|end| end.checked_next_multiple_of(alignment));
            offset = end.ok_or_else(|| fail(GgufProblem::tensor(&tensor.name, "the file would be too large")))?;
        }
        if header.len() as u64 > MAX_HEADER {
            return Err(fail(too_large("its header", header.len(), MAX_HEADER)));
        }
        header.resize(header.len().next_multiple_of(alignment as usize), 0);
        out.write_all(&header).map_err(|error| fail(error.into()))?;

        let mut waiting: Vec<_> = tensors.iter().map(|tensor| tensor.name.clone()).zip(lens).collect();
        waiting.reverse();
        Ok(Self {
            out,
            alignment,
            waiting,
        })
    }

    /// Writes the data of the next tensor of the table.
    ///
    /// # Errors
    /// Where the table has no further tensor, the data is not as long as the tensor, or writing fails.
    pub fn tensor(&mut self, data: &[u8]) -> Result<(), GgufError> {
        let Some((name, len)) = self.waiting.pop() else {
            return Err(fail(GgufProblem::tensor("", "the table has no further tensor")));
        };
        if data.len() as u64 != len {
            return Err(fail(GgufProblem::tensor(
                name,
                format!("its data has {} bytes instead of {len}", data.len()),
            )));
        }
        let padding = vec![0; (len.next_multiple_of(self.alignment) - len) as usize];
        self.out
            .write_all(data)
            .and_then(|()| self.out.write_all(&padding))
            .map_err(|error| fail(error.into()))
    }

    /// Ends the file and gives back what it was written to.
    ///
    /// # Errors
    /// Where a tensor's data has not come, or writing fails.
    pub fn finish(mut self) -> Result<W, GgufError> {
        if let Some((name, _)) = self.waiting.pop() {
            return Err(fail(GgufProblem::tensor(name, "its data was never written")));
        }
        self.out.flush().map_err(|error| fail(error.into()))?;
        Ok(self.out)
    }
}

/// A writer does not know its file's name; whoever does may put it in.
fn fail(problem: GgufProblem) -> GgufError {
    GgufError {
        file: PathBuf::from("the GGUF file being written"),
        problem,
    }
}

/// What a reader refuses for its size.
fn too_large(what: &str, found: usize, most: u64) -> GgufProblem {
    GgufProblem::TooLarge {
        what: what.to_owned(),
        found: found.to_string(),
        most: most.to_string(),
    }
}

/// Refuses metadata that no reader takes.
fn check_metadata(metadata: &Metadata) -> Result<(), GgufProblem> {
    let check = |what: &str, found: usize, most: u64| match found as u64 > most {
        true => Err(too_large(what, found, most)),
        false => Ok(()),
    };
    check("the number of its metadata keys", metadata.len(), MAX_KEYS)?;
    for (key, value) in metadata.iter() {
        check("the length of a metadata key", key.len(), MAX_NAME)?;
        let longest = match value {
            Value::Str(text) => text.len(),
            Value::Array(Array::Str(texts)) => texts.iter().map(str::len).max().unwrap_or(0),
            _ => 0,
        };
        check(&format!("the metadata key '{key}'"), longest, MAX_TEXT)?;
    }
    Ok(())
}

/// Checks the table and tells each tensor's bytes.
fn check_table(tensors: &[TensorHeader]) -> Result<Vec<u64>, GgufProblem> {
    if tensors.len() as u64 > MAX_TENSORS {
        return Err(too_large("the number of its tensors", tensors.len(), MAX_TENSORS));
    }
    let mut names = HashSet::new();
    tensors
        .iter()
        .map(|tensor| {
            let refuse = |why: String| Err(GgufProblem::tensor(&tensor.name, why));
            if tensor.name.is_empty() || tensor.name.len() as u64 > MAX_NAME {
                return refuse(format!("its name has {} bytes", tensor.name.len()));
            }
            if !names.insert(&tensor.name) {
                return refuse("it is there twice".to_owned());
            }
            if tensor.shape.is_empty() || tensor.shape.len() > MAX_DIMENSIONS {
                return refuse(format!(
                    "it has {} dimensions; a tensor has 1 to {MAX_DIMENSIONS}",
                    tensor.shape.len()
                ));
            }
            tensor.kind.byte_len(&tensor.shape).or_else(refuse)
        })
        .collect()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    /// A type id, then the little-endian bytes.
    macro_rules! put {
        ($id:expr, $value:expr) => {{
            out.extend(u32::to_le_bytes($id));
            out.extend($value.to_le_bytes());
        }};
    }
    match value {
        Value::U8(v) => put!(0, v),
        Value::I8(v) => put!(1, v),
        Value::U16(v) => put!(2, v),
        Value::I16(v) => put!(3, v),
        Value::U32(v) => put!(4, v),
        Value::I32(v) => put!(5, v),
        Value::F32(v) => put!(6, v),
        Value::Bool(v) => put!(7, u8::from(*v)),
        Value::Str(v) => {
            out.extend(8u32.to_le_bytes());
            put_text(out, v);
        }
        Value::Array(array) => {
            out.extend(9u32.to_le_bytes());
            put_array(out, array);
        }
        Value::U64(v) => put!(10, v),
        Value::I64(v) => put!(11, v),
        Value::F64(v) => put!(12, v),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    /// The elements' type id, their number, their little-endian bytes.
    macro_rules! put {
        ($id:expr, $values:expr) => {{
            out.extend(u32::to_le_bytes($id));
            out.extend(($values.len() as u64).to_le_bytes());
            for value in $values {
                out.extend(value.to_le_bytes());
            }
        }};
    }
    match array {
        Array::U8(v) => put!(0, v),
        Array::I8(v) => put!(1, v),
        Array::U16(v) => put!(2, v),
        Array::I16(v) => put!(3, v),
        Array::U32(v) => put!(4, v),
        Array::I32(v) => put!(5, v),
        Array::F32(v) => put!(6, v),
        Array::Bool(v) => {
            let bytes: Vec<u8> = v.iter().map(|&v| v.into()).collect();
            put!(7, &bytes);
        }
        Array::Str(v) => {
            out.extend(8u32.to_le_bytes());
            out.extend((v.len() as u64).to_le_bytes());
            for text in v.iter() {
                put_text(out, text);
            }
        }
        Array::U64(v) => put!(10, v),
        Array::I64(v) => put!(11, v),
        Array::F64(v) => put!(12, v),
    }
}

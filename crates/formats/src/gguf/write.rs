//! Writing of GGUF files: the header first, then tensor by tensor, so that the model need not fit
//! in memory.

use super::limits::{MAX_HEADER, MAX_KEYS, MAX_NAME, MAX_TENSORS, MAX_TEXT};
use super::parse::{MAGIC, MAX_DIMENSIONS, read_alignment};
use super::{Array, GgufError, GgufProblem, Metadata, TensorType, Value};
use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

/// A tensor table entry to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorHeader {
    /// Name.
    pub name: String,
    /// Dimensions, row length first.
    pub shape: Vec<u64>,
    /// Data type.
    pub kind: TensorType,
}

/// Writer of one file: [`GgufWriter::begin`], [`GgufWriter::tensor`] for each tensor in table
/// order, then [`GgufWriter::finish`].
#[derive(Debug)]
pub struct GgufWriter<W: Write> {
    out: W,
    alignment: u64,
    /// Names and lengths of the tensors that are not yet written, last first.
    remaining: Vec<(String, u64)>,
}

impl<W: Write> GgufWriter<W> {
    /// Writes the header: metadata and tensor table.
    ///
    /// # Errors
    /// If the header is invalid (a duplicate name, a row that is not a multiple of the block size)
    /// or exceeds a limit, or writing fails.
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
            put_string(&mut header, key);
            write_value(&mut header, value);
        }
        let mut offset = 0u64;
        for (tensor, &len) in tensors.iter().zip(&lens) {
            put_string(&mut header, &tensor.name);
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

        let mut remaining: Vec<_> = tensors.iter().map(|tensor| tensor.name.clone()).zip(lens).collect();
        remaining.reverse();
        Ok(Self {
            out,
            alignment,
            remaining,
        })
    }

    /// Writes the data of the next tensor of the table.
    ///
    /// # Errors
    /// If all tensors of the table were written, the length of the data does not match, or writing
    /// fails.
    pub fn tensor(&mut self, data: &[u8]) -> Result<(), GgufError> {
        let Some((name, len)) = self.remaining.pop() else {
            return Err(fail(GgufProblem::tensor(
                "",
                "all tensors of the table were already written",
            )));
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

    /// Finishes the file and returns the underlying writer.
    ///
    /// # Errors
    /// If a tensor's data was not written, or writing fails.
    pub fn finish(mut self) -> Result<W, GgufError> {
        if let Some((name, _)) = self.remaining.pop() {
            return Err(fail(GgufProblem::tensor(name, "its data was not written")));
        }
        self.out.flush().map_err(|error| fail(error.into()))?;
        Ok(self.out)
    }
}

/// An error without the file's path, which the writer does not know. The caller may set it.
fn fail(problem: GgufProblem) -> GgufError {
    GgufError {
        file: PathBuf::from("the GGUF file being written"),
        problem,
    }
}

/// The error for a header that exceeds a limit.
fn too_large(what: &str, found: usize, limit: u64) -> GgufProblem {
    GgufProblem::TooLarge {
        what: what.to_owned(),
        found: found.to_string(),
        most: limit.to_string(),
    }
}

/// Refuses metadata that exceeds the reader's limits.
fn check_metadata(metadata: &Metadata) -> Result<(), GgufProblem> {
    let check = |what: &str, found: usize, limit: u64| {
        if found as u64 > limit {
            Err(too_large(what, found, limit))
        } else {
            Ok(())
        }
    };
    check("the number of its metadata keys", metadata.len(), MAX_KEYS)?;
    for (key, value) in metadata.iter() {
        check("the length of a metadata key", key.len(), MAX_NAME)?;
        let max_len = match value {
            Value::Str(text) => text.len(),
            Value::Array(Array::Str(texts)) => texts.iter().map(str::len).max().unwrap_or(0),
            _ => 0,
        };
        check(&format!("the metadata key '{key}'"), max_len, MAX_TEXT)?;
    }
    Ok(())
}

/// Validates the tensor table and returns each tensor's length in bytes.
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
                return refuse("it is present twice".to_owned());
            }
            if tensor.shape.is_empty() || tensor.shape.len() > MAX_DIMENSIONS {
                return refuse(format!(
                    "it has {} dimensions instead of 1 to {MAX_DIMENSIONS}",
                    tensor.shape.len()
                ));
            }
            tensor.kind.byte_len(&tensor.shape).or_else(refuse)
        })
        .collect()
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    /// Writes the type ID and the little-endian bytes.
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
            put_string(out, v);
        }
        Value::Array(array) => {
            out.extend(9u32.to_le_bytes());
            write_array(out, array);
        }
        Value::U64(v) => put!(10, v),
        Value::I64(v) => put!(11, v),
        Value::F64(v) => put!(12, v),
    }
}

fn write_array(out: &mut Vec<u8>, array: &Array) {
    /// Writes the element type ID, the count and the little-endian bytes.
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
                put_string(out, text);
            }
        }
        Array::U64(v) => put!(10, v),
        Array::I64(v) => put!(11, v),
        Array::F64(v) => put!(12, v),
    }
}

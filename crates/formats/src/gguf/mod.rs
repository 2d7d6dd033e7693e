//! GGUF, the file format of local models: metadata, then a table of tensors, then their data.
//!
//! [`GgufFile`] reads a file's header and what is asked for of its data. [`Gguf`] maps it besides, so that the tensors' bytes
//! are used where they lie. Neither believes a length: a header is read forward, within limits, before anything is mapped.
//! [`GgufWriter`] writes one. Little-endian, versions 2 and 3.

mod error;
mod file;
mod header;
mod identity;
mod limits;
mod metadata;
mod parse;
mod reader;
mod source;
mod split;
mod tensor_type;
mod value;
mod write;

pub use error::{GgufError, GgufProblem};
pub use file::{GgufFile, TensorData};
pub use header::{GgufHeader, TensorInfo};
pub use identity::Identity;
pub use metadata::{Found, Metadata};
pub use tensor_type::TensorType;
pub use value::{Array, Strings, Value};
pub use write::{GgufWriter, TensorHeader};

use file::open_parts;
use header::PartInfo;
use source::Source;
use std::borrow::Cow;
use std::ops::Deref;
use std::path::Path;

/// One model's file, or files, mapped and checked. It may be shared between threads.
#[derive(Debug)]
pub struct Gguf {
    header: GgufHeader,
    parts: Vec<Source>,
}

impl Deref for Gguf {
    type Target = GgufHeader;

    fn deref(&self) -> &GgufHeader {
        &self.header
    }
}

/// One tensor of a file.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// What the table says of it.
    pub info: &'a TensorInfo,
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Its data, as it lies in the file: [`TensorInfo::byte_len`] bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl Gguf {
    /// Reads a model's header and maps it. Of a split model any part may be named; the others are found by their names.
    ///
    /// # Errors
    /// Where the file cannot be read or mapped, or where anything in it cannot be right.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        let (header, files) = open_parts(path.as_ref())?;
        let map = |(file, about): (std::fs::File, &PartInfo)| {
            let source = Source::map(&file)?;
            match (source.bytes().len() as u64) < about.len {
                true => Err(GgufProblem::Truncated {
                    what: "its tensor data (it was cut while it was opened)".to_owned(),
                }),
                false => Ok(source),
            }
        };
        let parts = files.into_iter().zip(&header.parts).map(map).collect::<Result<_, _>>();
        match parts {
            Ok(parts) => Ok(Self { header, parts }),
            Err(problem) => Err(header.error(problem)),
        }
    }

    /// Reads a file that is already in memory.
    ///
    /// # Errors
    /// As [`Gguf::open`]; a part of a split model is refused.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, GgufError> {
        let header = GgufHeader::from_reader(bytes.as_slice(), bytes.len() as u64)?;
        match Source::copy(&bytes) {
            Ok(source) => Ok(Self {
                header,
                parts: vec![source],
            }),
            Err(error) => Err(header.error(error.into())),
        }
    }

    /// A tensor by name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let info = self.info(name)?;
        Some(Tensor {
            info,
            bytes: &self.parts[info.part].bytes()[info.start..info.start + info.byte_len],
        })
    }

    /// Tells this file from others by what can be read of it at once; none for a file in memory.
    pub fn identity(&self) -> Option<Identity> {
        Identity::of(&self.header.parts, &self.parts)
    }

    /// Lets the mapped pages of a tensor go, once its bytes were copied elsewhere; they are read from the file again when
    /// touched. Does nothing for a file in memory, and on systems that have no such advice.
    pub fn release(&self, tensor: &TensorInfo) {
        if let Some(part) = self.parts.get(tensor.part) {
            // An info from another file could point anywhere.
            let end = tensor.start.saturating_add(tensor.byte_len).min(part.bytes().len());
            part.release(tensor.start, end.saturating_sub(tensor.start));
        }
    }

    /// As [`Gguf::release`], for all tensors at once.
    pub fn release_all(&self) {
        for part in &self.parts {
            part.release(0, part.bytes().len());
        }
    }
}

impl TensorData for Gguf {
    fn read(&self, tensor: &TensorInfo, start: usize, len: usize) -> Result<Cow<'_, [u8]>, GgufProblem> {
        let from = file::position(tensor, start, len)?;
        let part = self.parts.get(tensor.part).map(Source::bytes);
        match part.and_then(|part| part.get(from..from + len)) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            // An info from another file could point anywhere.
            None => Err(GgufProblem::tensor(&tensor.name, "it is not in this file")),
        }
    }
}

//! GGUF, the file format of local models: metadata, then a table of tensors, then their data.
//! Little-endian files of versions 2 and 3.
//!
//! [`GgufFile`] reads the header, and tensor data on demand. [`Gguf`] also maps the file, so that
//! tensor data is used in place. Neither trusts a length in the file: the header is read
//! sequentially, within limits, before anything is mapped. [`GgufWriter`] writes a file.

mod error;
mod file;
mod file_map;
mod header;
mod identity;
mod limits;
mod metadata;
mod parse;
mod reader;
mod split;
mod tensor_type;
mod value;
mod write;

pub use error::{GgufError, GgufProblem};
pub use file::{GgufFile, TensorData};
pub use header::{GgufHeader, TensorInfo};
pub use identity::Identity;
pub use metadata::{Found, Metadata};
pub use split::{each_part_file, is_first_part, part_files};
pub use tensor_type::TensorType;
pub use value::{Array, Strings, Value};
pub use write::{GgufWriter, TensorHeader};

use file::open_parts;
use file_map::FileMap;
use header::PartInfo;
use std::borrow::Cow;
use std::ops::Deref;
use std::path::Path;

/// The mapped and validated file of a model, or its files if it is split.
#[derive(Debug)]
pub struct Gguf {
    header: GgufHeader,
    parts: Vec<FileMap>,
}

impl Deref for Gguf {
    type Target = GgufHeader;

    fn deref(&self) -> &GgufHeader {
        &self.header
    }
}

/// A tensor of a file.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// The entry in the tensor table.
    pub info: &'a TensorInfo,
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// The raw data: [`TensorInfo::byte_len`] bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl Gguf {
    /// Reads a model's header and maps its files. For a split model `path` may be any part; the
    /// others are found by their names.
    ///
    /// # Errors
    /// If the file cannot be read or mapped, or is invalid.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        let (header, files) = open_parts(path.as_ref())?;
        let map = |(file, info): (std::fs::File, &PartInfo)| {
            let file_map = FileMap::map(&file)?;
            if (file_map.bytes().len() as u64) < info.len {
                Err(GgufProblem::Truncated {
                    what: "its tensor data (it was truncated while it was opened)".to_owned(),
                })
            } else {
                Ok(file_map)
            }
        };
        let parts = files.into_iter().zip(&header.parts).map(map).collect::<Result<_, _>>();
        match parts {
            Ok(parts) => Ok(Self { header, parts }),
            Err(problem) => Err(header.error(problem)),
        }
    }

    /// Reads a file from memory.
    ///
    /// # Errors
    /// As for [`Gguf::open`], and if it is a part of a split model.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, GgufError> {
        let header = GgufHeader::from_reader(bytes.as_slice(), bytes.len() as u64)?;
        match FileMap::copy(&bytes) {
            Ok(file_map) => Ok(Self {
                header,
                parts: vec![file_map],
            }),
            Err(error) => Err(header.error(error.into())),
        }
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let info = self.info(name)?;
        Some(Tensor {
            info,
            bytes: &self.parts[info.part].bytes()[info.start..info.start + info.byte_len],
        })
    }

    /// The identity of this file; `None` for a file in memory.
    pub fn identity(&self) -> Option<Identity> {
        Identity::from_parts(&self.header.parts, &self.parts)
    }

    /// Releases the mapped pages of a tensor whose bytes were copied elsewhere. The next access
    /// reads them from the file again. No-op for a file in memory, and on systems other than Unix.
    pub fn release(&self, tensor: &TensorInfo) {
        if let Some(part) = self.parts.get(tensor.part) {
            // The info may come from another file.
            let end = tensor.start.saturating_add(tensor.byte_len).min(part.bytes().len());
            part.release(tensor.start, end.saturating_sub(tensor.start));
        }
    }

    /// As [`Gguf::release`], for all tensors.
    pub fn release_all(&self) {
        for part in &self.parts {
            part.release(0, part.bytes().len());
        }
    }
}

impl TensorData for Gguf {
    fn read(&self, tensor: &TensorInfo, start: usize, len: usize) -> Result<Cow<'_, [u8]>, GgufProblem> {
        let offset = file::file_offset(tensor, start, len)?;
        let part = self.parts.get(tensor.part).map(FileMap::bytes);
        match part.and_then(|part| part.get(offset..offset + len)) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            // The info may come from another file.
            None => Err(GgufProblem::tensor(&tensor.name, "it is not in this file")),
        }
    }
}

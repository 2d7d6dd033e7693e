//! A model's file, read on demand and not mapped.

use super::header::PartInfo;
use super::limits::{MAX_HEADER, MAX_TENSORS};
use super::parse::{self, Header};
use super::split::{self, Part};
use super::{GgufError, GgufHeader, GgufProblem, Metadata, TensorInfo};
use crate::regular::{open_regular, read_exact_at};
use std::borrow::Cow;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::Path;

/// A GGUF with readable tensor data.
pub trait TensorData: Deref<Target = GgufHeader> {
    /// Reads `len` bytes of a tensor's data from offset `start`.
    ///
    /// # Errors
    /// If the range exceeds the tensor, or reading fails.
    fn read(&self, tensor: &TensorInfo, start: usize, len: usize) -> Result<Cow<'_, [u8]>, GgufProblem>;
}

/// The file of a model, or its files if it is split: the header in memory, data read on demand.
/// Since nothing is mapped, reading a truncated file fails instead of causing SIGBUS.
#[derive(Debug)]
pub struct GgufFile {
    header: GgufHeader,
    files: Vec<File>,
}

impl GgufFile {
    /// Reads a model's header. For a split model `path` may be any part; the others are found by
    /// their names.
    ///
    /// # Errors
    /// If it is not a regular file, cannot be read, or has an invalid header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        let (header, files) = open_parts(path.as_ref())?;
        Ok(Self { header, files })
    }
}

impl Deref for GgufFile {
    type Target = GgufHeader;

    fn deref(&self) -> &GgufHeader {
        &self.header
    }
}

impl TensorData for GgufFile {
    fn read(&self, tensor: &TensorInfo, start: usize, len: usize) -> Result<Cow<'_, [u8]>, GgufProblem> {
        let offset = file_offset(tensor, start, len)?;
        let Some(file) = self.files.get(tensor.part) else {
            return Err(GgufProblem::tensor(&tensor.name, "it is not in this file"));
        };
        let mut bytes = vec![0; len];
        read_exact_at(file, &mut bytes, offset as u64)?;
        Ok(Cow::Owned(bytes))
    }
}

/// The file offset of `len` bytes of a tensor from offset `start`.
pub(super) fn file_offset(tensor: &TensorInfo, start: usize, len: usize) -> Result<usize, GgufProblem> {
    match start.checked_add(len) {
        Some(end) if end <= tensor.byte_len => Ok(tensor.start + start),
        _ => {
            let why = format!(
                "it has {} bytes; {len} bytes from {start} were requested",
                tensor.byte_len
            );
            Err(GgufProblem::tensor(&tensor.name, why))
        }
    }
}

/// Opens all parts of a model and reads their headers.
pub(super) fn open_parts(path: &Path) -> Result<(GgufHeader, Vec<File>), GgufError> {
    let error = |problem| GgufError {
        file: path.to_owned(),
        problem,
    };
    let mut header_budget = MAX_HEADER;
    let mut opened = OpenPart::open(path, &mut header_budget)?;
    let part = Part::read(&opened.header.metadata).map_err(error)?;
    if part.count == 1 {
        let header = GgufHeader::assemble(path.to_owned(), vec![(opened.info, opened.header)]).map_err(error)?;
        return Ok((header, vec![opened.file]));
    }
    if part.number > 0 {
        // Only the metadata of the first part is used.
        opened.header.metadata = Metadata::new();
    }
    let mut opened = Some(opened);
    let mut parts = Vec::new();
    let mut files = Vec::new();
    let mut tensors = 0;
    for number in 0..part.count {
        let next = match opened.take_if(|_| number == part.number) {
            Some(opened) => opened,
            None => OpenPart::open_sibling(path, part, number, &mut header_budget)?,
        };
        tensors += next.header.tensors.len() as u64;
        if tensors > MAX_TENSORS {
            return Err(error(GgufProblem::TooLarge {
                what: "its tensor table".to_owned(),
                found: format!("at least {tensors} tensors in all parts"),
                most: MAX_TENSORS.to_string(),
            }));
        }
        parts.push((next.info, next.header));
        files.push(next.file);
    }
    let first = split::sibling(path, part, 0).map_err(error)?;
    let header = GgufHeader::assemble(first, parts).map_err(error)?;
    match part.tensors {
        Some(count) if count != header.tensors.len() as u64 => Err(error(GgufProblem::Split(format!(
            "the parts of this split model have {} tensors in total instead of {count}. Download all parts again.",
            header.tensors.len()
        )))),
        _ => Ok((header, files)),
    }
}

/// An open file of a part.
struct OpenPart {
    file: File,
    info: PartInfo,
    header: Header,
}

impl OpenPart {
    /// `header_budget` is the remaining number of bytes for the headers of all parts.
    fn open(path: &Path, header_budget: &mut u64) -> Result<Self, GgufError> {
        let result = open_regular(path)
            .map_err(GgufProblem::Io)
            .and_then(|(file, metadata)| {
                let header = parse::parse(&file, metadata.len())?;
                let remaining = header_budget.checked_sub(header.len);
                *header_budget = remaining.ok_or_else(|| GgufProblem::TooLarge {
                    what: "its header".to_owned(),
                    found: "more bytes in all parts together".to_owned(),
                    most: MAX_HEADER.to_string(),
                })?;
                let info = PartInfo {
                    len: metadata.len(),
                    modified: metadata.modified().ok(),
                };
                Ok(Self { file, info, header })
            });
        result.map_err(|problem| GgufError {
            file: path.to_owned(),
            problem,
        })
    }

    /// Opens part `number` of the model whose part `part` is at `path`.
    fn open_sibling(path: &Path, part: Part, number: u32, header_budget: &mut u64) -> Result<Self, GgufError> {
        let error_in_path = |problem| GgufError {
            file: path.to_owned(),
            problem,
        };
        let sibling = split::sibling(path, part, number).map_err(error_in_path)?;
        let mut opened = match Self::open(&sibling, header_budget) {
            Err(GgufError {
                problem: GgufProblem::Io(error),
                ..
            }) if error.kind() == ErrorKind::NotFound => {
                return Err(error_in_path(GgufProblem::Split(format!(
                    "this is part {} of {} of a split model, but '{}' is missing. Put all parts into one folder.",
                    part.number + 1,
                    part.count,
                    sibling.display()
                ))));
            }
            result => result?,
        };
        let error_in_sibling = |problem| GgufError {
            file: sibling.clone(),
            problem,
        };
        if Part::read(&opened.header.metadata).map_err(error_in_sibling)? != (Part { number, ..part }) {
            return Err(error_in_sibling(GgufProblem::Split(format!(
                "it does not belong to '{}': their numbers of parts or tensors differ. Download all parts \
                 again.",
                path.display()
            ))));
        }
        if number > 0 {
            // Only the metadata of the first part is used.
            opened.header.metadata = Metadata::new();
        }
        Ok(opened)
    }
}

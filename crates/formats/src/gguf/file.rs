//! A model's file, read on demand without mapping it.

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
    /// Returns `len` bytes of a tensor's data from its byte `start`.
    ///
    /// # Errors
    /// If the range exceeds the tensor, or reading fails.
    fn read(&self, tensor: &TensorInfo, start: usize, len: usize) -> Result<Cow<'_, [u8]>, GgufProblem>;
}

/// The file of a model, or its files if it is split: the header in memory, data read on demand.
/// Nothing is mapped, so a file truncated meanwhile causes an error instead of SIGBUS.
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
        let from = position(tensor, start, len)?;
        let Some(file) = self.files.get(tensor.part) else {
            return Err(GgufProblem::tensor(&tensor.name, "it is not in this file"));
        };
        let mut bytes = vec![0; len];
        read_exact_at(file, &mut bytes, from as u64)?;
        Ok(Cow::Owned(bytes))
    }
}

/// The file offset of a byte range of a tensor.
pub(super) fn position(tensor: &TensorInfo, start: usize, len: usize) -> Result<usize, GgufProblem> {
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
    let at_path = |problem| GgufError {
        file: path.to_owned(),
        problem,
    };
    let mut left = MAX_HEADER;
    let mut opened = Opened::part(path, &mut left)?;
    let part = Part::read(&opened.header.metadata).map_err(at_path)?;
    if part.count == 1 {
        let header = GgufHeader::assemble(path.to_owned(), vec![(opened.about, opened.header)]).map_err(at_path)?;
        return Ok((header, vec![opened.file]));
    }
    if part.number > 0 {
        // Only the metadata of the first part is used.
        opened.header.metadata = Metadata::new();
    }
    let mut named = Some((part.number, opened));
    let mut parts = Vec::new();
    let mut files = Vec::new();
    let mut tensors = 0;
    for number in 0..part.count {
        let next = match named.take_if(|(of, _)| *of == number) {
            Some((_, opened)) => opened,
            None => Opened::other(path, part, number, &mut left)?,
        };
        tensors += next.header.tensors.len() as u64;
        if tensors > MAX_TENSORS {
            return Err(at_path(GgufProblem::TooLarge {
                what: "its tensor table".to_owned(),
                found: format!("at least {tensors} tensors in all parts"),
                most: MAX_TENSORS.to_string(),
            }));
        }
        parts.push((next.about, next.header));
        files.push(next.file);
    }
    let first = split::sibling(path, part, 0).map_err(at_path)?;
    let header = GgufHeader::assemble(first, parts).map_err(at_path)?;
    match part.tensors {
        Some(count) if count != header.tensors.len() as u64 => Err(at_path(GgufProblem::Split(format!(
            "the parts of this split model have {} tensors in total instead of {count}. Download all parts again.",
            header.tensors.len()
        )))),
        _ => Ok((header, files)),
    }
}

/// An opened part.
struct Opened {
    file: File,
    about: PartInfo,
    header: Header,
}

impl Opened {
    /// `left` is the remaining byte budget for the headers of all parts.
    fn part(path: &Path, left: &mut u64) -> Result<Self, GgufError> {
        let opened = open_regular(path).map_err(GgufProblem::Io).and_then(|(file, about)| {
            let header = parse::parse(&file, about.len())?;
            *left = left.checked_sub(header.len).ok_or_else(|| GgufProblem::TooLarge {
                what: "its header".to_owned(),
                found: "more bytes in all parts together".to_owned(),
                most: MAX_HEADER.to_string(),
            })?;
            let about = PartInfo {
                len: about.len(),
                modified: about.modified().ok(),
            };
            Ok(Self { file, about, header })
        });
        opened.map_err(|problem| GgufError {
            file: path.to_owned(),
            problem,
        })
    }

    /// Opens part `number` of the model whose part `part` is at `path`.
    fn other(path: &Path, part: Part, number: u32, left: &mut u64) -> Result<Self, GgufError> {
        let at_path = |problem| GgufError {
            file: path.to_owned(),
            problem,
        };
        let other = split::sibling(path, part, number).map_err(at_path)?;
        let mut opened = match Self::part(&other, left) {
            Err(GgufError {
                problem: GgufProblem::Io(error),
                ..
            }) if error.kind() == ErrorKind::NotFound => {
                return Err(at_path(GgufProblem::Split(format!(
                    "this is part {} of {} of a split model, but '{}' is missing. Put all parts into one folder.",
                    part.number + 1,
                    part.count,
                    other.display()
                ))));
            }
            opened => opened?,
        };
        let at_other = |problem| GgufError {
            file: other.clone(),
            problem,
        };
        if Part::read(&opened.header.metadata).map_err(at_other)? != (Part { number, ..part }) {
            return Err(at_other(GgufProblem::Split(format!(
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

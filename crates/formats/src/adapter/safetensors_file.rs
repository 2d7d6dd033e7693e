//! The header of a safetensors file, and reads of its bytes on demand.

use super::AdapterProblem;
use crate::regular::{open_regular, read_exact_at};
use safetensors::tensor::{Metadata, TensorInfo};
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;

/// The largest header that is read, in bytes. For an adapter of all linears of the largest known
/// models it has 300 KB.
const MAX_TABLE_BYTES: u64 = 8 << 20;

/// Bytes of the header's length, with which the file starts.
const LENGTH_BYTES: u64 = 8;

/// Positioned reads from a file or a buffer.
pub(super) trait ReadAt {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Returns `len` bytes from byte `start`.
    fn read(&self, start: u64, len: usize) -> io::Result<Cow<'_, [u8]>>;
}

impl ReadAt for &[u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read(&self, start: u64, len: usize) -> io::Result<Cow<'_, [u8]>> {
        let range = usize::try_from(start)
            .ok()
            .and_then(|start| Some(start..start.checked_add(len)?));
        match range.and_then(|range| self.get(range)) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A file on disk, read without mapping it.
pub(super) struct FileBytes {
    file: File,
    len: u64,
}

impl FileBytes {
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, metadata) = open_regular(path)?;
        Ok(Self {
            file,
            len: metadata.len(),
        })
    }
}

impl ReadAt for FileBytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, start: u64, len: usize) -> io::Result<Cow<'_, [u8]>> {
        let mut bytes = vec![0; len];
        read_exact_at(&self.file, &mut bytes, start)?;
        Ok(Cow::Owned(bytes))
    }
}

/// The validated tensors of a file: their bytes are contiguous and fill the file.
pub(super) struct Table {
    metadata: Metadata,
    /// Offset of the tensor data.
    data: u64,
}

impl Table {
    /// Reads and validates the header; `name` is the file's name, for errors.
    pub fn read(file: &impl ReadAt, name: &'static str) -> Result<Self, AdapterProblem> {
        let corrupt = |reason: String| AdapterProblem::corrupt(name, reason);
        let incomplete = |reason: String| AdapterProblem::Incomplete {
            file: name,
            why: reason,
        };
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => incomplete(format!("it has {} bytes, less than its header", file.len())),
            _ => AdapterProblem::Read(error),
        };
        let mut length = [0; LENGTH_BYTES as usize];
        length.copy_from_slice(&file.read(0, LENGTH_BYTES as usize).map_err(failed)?);
        let length = u64::from_le_bytes(length);
        if length > MAX_TABLE_BYTES {
            return Err(corrupt(format!(
                "its header has {length} bytes; an adapter's has at most {MAX_TABLE_BYTES}"
            )));
        }
        let data = length.checked_add(LENGTH_BYTES).filter(|&data| data <= file.len());
        let data = data.ok_or_else(|| {
            incomplete(format!(
                "its header has {length} bytes, but the file only {}",
                file.len()
            ))
        })?;
        let table = file.read(LENGTH_BYTES, length as usize).map_err(failed)?;
        let metadata: Metadata = serde_json::from_slice(&table).map_err(|error| corrupt(error.to_string()))?;
        match data.checked_add(metadata.data_len() as u64) {
            Some(end) if end == file.len() => Ok(Self { metadata, data }),
            Some(end) if end > file.len() => Err(incomplete(format!(
                "it has {} bytes, and its last tensor ends at byte {end}",
                file.len()
            ))),
            _ => Err(corrupt(format!(
                "its header describes {} bytes of tensors, but the file has {}",
                metadata.data_len(),
                file.len() - data
            ))),
        }
    }

    /// All tensors with their names, in file order.
    pub fn tensors(&self) -> impl Iterator<Item = (String, &TensorInfo)> {
        let names = self.metadata.offset_keys().into_iter();
        names.filter_map(|name| self.metadata.info(&name).map(|info| (name, info)))
    }

    /// The offset of a tensor's bytes in the file, and their count.
    pub fn byte_range(&self, info: &TensorInfo) -> (u64, usize) {
        let (start, end) = info.data_offsets;
        (self.data + start as u64, end - start)
    }
}

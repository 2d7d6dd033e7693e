//! The table of a safetensors file, and its bytes, read where they are asked for.

use super::AdapterProblem;
use super::peft::TENSORS;
use crate::regular::{open_regular, read_exact_at};
use safetensors::tensor::{Metadata, TensorInfo};
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;

/// The largest table that is read, in bytes. An adapter of all linears of the largest known models takes 300 KB.
const MAX_TABLE: u64 = 8 << 20;

/// The table's length comes first.
const LENGTH: u64 = 8;

/// Bytes of a file.
pub(super) trait Bytes {
    /// How many.
    fn len(&self) -> u64;

    /// `len` of them from byte `start`.
    fn read(&self, start: u64, len: usize) -> io::Result<Cow<'_, [u8]>>;
}

impl Bytes for &[u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read(&self, start: u64, len: usize) -> io::Result<Cow<'_, [u8]>> {
        let end = usize::try_from(start)
            .ok()
            .and_then(|start| Some(start..start.checked_add(len)?));
        match end.and_then(|range| self.get(range)) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A file that is read piece by piece, without a map.
pub(super) struct OnDisk {
    file: File,
    len: u64,
}

impl OnDisk {
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, about) = open_regular(path)?;
        Ok(Self { file, len: about.len() })
    }
}

impl Bytes for OnDisk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, start: u64, len: usize) -> io::Result<Cow<'_, [u8]>> {
        let mut bytes = vec![0; len];
        read_exact_at(&self.file, &mut bytes, start)?;
        Ok(Cow::Owned(bytes))
    }
}

/// The tensors of a file, checked: their bytes lie side by side and fill the file.
pub(super) struct Table {
    metadata: Metadata,
    /// Where the tensors' bytes begin.
    data: u64,
}

impl Table {
    pub fn read(file: &impl Bytes) -> Result<Self, AdapterProblem> {
        let damaged = |why: String| AdapterProblem::damaged(TENSORS, why);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it is cut off".to_owned()),
            _ => AdapterProblem::Read(error),
        };
        let mut length = [0; LENGTH as usize];
        length.copy_from_slice(&file.read(0, LENGTH as usize).map_err(failed)?);
        let length = u64::from_le_bytes(length);
        let data = length.checked_add(LENGTH).filter(|&data| data <= file.len());
        let data = data.ok_or_else(|| damaged(format!("its table should have {length} bytes, and it is cut off")))?;
        if length > MAX_TABLE {
            return Err(damaged(format!(
                "its table has {length} bytes, and that of an adapter at most {MAX_TABLE}"
            )));
        }
        let table = file.read(LENGTH, length as usize).map_err(failed)?;
        let metadata: Metadata = serde_json::from_slice(&table).map_err(|error| damaged(error.to_string()))?;
        match data.checked_add(metadata.data_len() as u64) == Some(file.len()) {
            true => Ok(Self { metadata, data }),
            false => Err(damaged(format!(
                "its table has {} bytes of tensors, and it holds {}",
                metadata.data_len(),
                file.len() - data
            ))),
        }
    }

    /// All tensors by name, in the order of their bytes.
    pub fn tensors(&self) -> impl Iterator<Item = (String, &TensorInfo)> {
        let names = self.metadata.offset_keys().into_iter();
        names.filter_map(|name| self.metadata.info(&name).map(|info| (name, info)))
    }

    /// Where a tensor's bytes begin in the file, and how many there are.
    pub fn place(&self, info: &TensorInfo) -> (u64, usize) {
        let (start, end) = info.data_offsets;
        (self.data + start as u64, end - start)
    }
}

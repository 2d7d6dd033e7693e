//! Weights packed for this machine, kept from one load to the next.
//!
//! Packing a model, or copying what keeps its order, costs as much as everything else at a load
//! together. So it goes to a file, one a model and kind of packing, which the next load maps: its
//! tensors then lie in the system's cache of that file, read-only, shared by all processes that run
//! the model, and the system may take the pages back without writing them anywhere. The first load
//! maps what it writes, too. Whatever goes wrong with such a file costs time and nothing else: what
//! it cannot give is packed in memory.

mod file;
mod folder;
mod writer;

use bytes::Bytes;
use file::PackedFile;
use hearth_formats::gguf::Gguf;
use hearth_kernels::{Quant, ShapeError, matrix};
use memmap2::MmapMut;
use std::fs;
use std::path::{Path, PathBuf};
use writer::Writer;

/// A matrix as a model's file has it.
#[derive(Clone, Copy)]
pub(crate) struct Unpacked<'a> {
    pub name: &'a str,
    pub quant: Quant,
    pub rows: usize,
    pub cols: usize,
    pub bytes: &'a [u8],
}

/// The packed weights of one model, from wherever they are had most quickly.
pub(crate) enum PackedWeights {
    /// From an earlier load's file.
    Kept {
        file: PackedFile,
        path: PathBuf,
        /// Whether it had all that was asked of it, as it was written.
        sound: bool,
    },
    /// Packed into a file, for the next load.
    Written(Writer),
    /// Packed in memory.
    InMemory,
}

impl PackedWeights {
    /// Those of this model, kept in `folder`; without one, and for a model that is no file, nothing
    /// is kept.
    pub fn of(gguf: &Gguf, folder: Option<&Path>) -> Self {
        let matrices = gguf.tensors().filter(|tensor| tensor.shape.len() == 2);
        let size = matrices.map(|tensor| tensor.byte_len as u64).sum();
        let Some((folder, identity)) = folder.zip(gguf.identity()) else {
            return Self::InMemory;
        };
        let key = format!("{} {}", identity.hex(), matrix::layout_id());
        let path = folder::file_of(folder, &key);
        match PackedFile::open(&path, &key) {
            Some(file) => Self::Kept {
                file,
                path,
                sound: true,
            },
            None => match Writer::new(path, key, size) {
                Ok(writer) => Self::Written(writer),
                Err(error) => {
                    tracing::info!("packed weights cannot be kept in {}: {error}", folder.display());
                    Self::InMemory
                }
            },
        }
    }

    /// A matrix that an earlier load has packed and found to be sound.
    pub fn kept(&mut self, name: &str, length: usize) -> Option<Bytes> {
        let Self::Kept { file, sound, .. } = self else {
            return None;
        };
        let found = file.get(name, length);
        *sound &= found.is_some();
        found
    }

    /// Packs a matrix, and keeps it if that can be.
    ///
    /// # Errors
    /// Its bytes are not such a matrix.
    pub fn pack(&mut self, matrix: &Unpacked) -> Result<Bytes, ShapeError> {
        if let Self::Written(writer) = self {
            match writer.put(matrix) {
                Ok(packed) => return Ok(packed),
                Err(error) => {
                    tracing::info!("packed weights are not kept: {error}");
                    // What was written is mapped already, and stays so.
                    *self = Self::InMemory;
                }
            }
        }
        in_memory(matrix)
    }

    /// After the last matrix: what was written is there for the next load, and a file that was
    /// damaged, or made when fewer layers lay with the processor, makes room for another.
    pub fn finish(self) {
        match self {
            Self::Kept { path, sound: false, .. } => {
                tracing::info!("{} is not whole and will be made again", path.display());
                // Where it cannot be removed, its pieces that are sound still help.
                let _ = fs::remove_file(path);
            }
            Self::Written(writer) => {
                if let Err(error) = writer.finish() {
                    tracing::info!("packed weights are not kept: {error}");
                }
            }
            Self::Kept { .. } | Self::InMemory => {}
        }
    }
}

/// Packs into memory that begins with a page, as that of a file does, since kernels are quicker
/// where tiles begin with a cache line.
fn in_memory(matrix: &Unpacked) -> Result<Bytes, ShapeError> {
    let Unpacked {
        quant,
        rows,
        cols,
        bytes,
        ..
    } = *matrix;
    if let Ok(mut map) = MmapMut::map_anon(bytes.len().max(1)) {
        // Advice that is not taken costs some speed, nothing else.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        matrix::pack_into(quant, rows, cols, bytes, &mut map[..bytes.len()])?;
        if let Ok(map) = map.make_read_only() {
            return Ok(Bytes::from_owner(map).slice(..bytes.len()));
        }
    }
    Ok(Bytes::from(matrix::pack(quant, rows, cols, bytes)?.1))
}

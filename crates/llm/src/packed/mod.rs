//! Packed weights: matrices repacked for this CPU, cached on disk between loads.
//!
//! Packing (or copying, in the plain layout) takes as long as the rest of a load. So the result is
//! written to a file, one per model and packed layout, which later loads map. The weights are then
//! read-only in the page cache and shared by all processes that run the model, and the system can
//! drop the pages without writing them back. The first load maps the file that it writes. A failure
//! costs only time: matrices that are not in the file are packed in memory.

mod file;
mod folder;
mod writer;

use bytes::Bytes;
use file::PackedFile;
use hearth_formats::gguf::Gguf;
use hearth_kernels::{Quant, ShapeError, matrix};
use memmap2::MmapMut;
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use writer::Writer;

/// A matrix of the model file: a tensor, or consecutive rows of one.
#[derive(Clone, Copy)]
pub(crate) struct UnpackedMatrix<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// Its first row in the tensor.
    pub first_row: usize,
    pub quant: Quant,
    pub rows: usize,
    pub cols: usize,
    pub bytes: &'a [u8],
}

impl UnpackedMatrix<'_> {
    /// Its name in a file of packed weights. Ranges of rows of one tensor differ in their first
    /// row.
    fn key(&self) -> Cow<'_, str> {
        if self.first_row == 0 {
            Cow::Borrowed(self.name)
        } else {
            Cow::Owned(format!("{}@{}", self.name, self.first_row))
        }
    }
}

/// The source of a model's packed weights.
pub(crate) enum PackedWeights {
    /// The file of an earlier load.
    Cached {
        file: PackedFile,
        path: PathBuf,
        /// Whether the file had all matrices that were requested.
        is_complete: bool,
    },
    /// A new file, which later loads use.
    New(Writer),
    /// Packed in memory.
    InMemory,
}

impl PackedWeights {
    /// The packed weights of a model, cached in `folder`. They are not cached if there is no
    /// folder, or if the model is not a file.
    pub fn new(gguf: &Gguf, folder: Option<&Path>) -> Self {
        let matrices = gguf.tensors().filter(|tensor| tensor.shape.len() == 2);
        let size = matrices.map(|tensor| tensor.byte_len as u64).sum();
        let Some((folder, identity)) = folder.zip(gguf.identity()) else {
            return Self::InMemory;
        };
        let key = format!("{} {}", identity.hex(), matrix::layout_id());
        let path = folder::file_of(folder, &key);
        match PackedFile::open(&path, &key) {
            Some(file) => Self::Cached {
                file,
                path,
                is_complete: true,
            },
            None => match Writer::new(path, key, size) {
                Ok(writer) => Self::New(writer),
                Err(error) => {
                    tracing::info!("packed weights cannot be cached in {}: {error}", folder.display());
                    Self::InMemory
                }
            },
        }
    }

    /// A valid matrix from the file of an earlier load; `None` if there is none.
    pub fn cached(&mut self, matrix: &UnpackedMatrix) -> Option<Bytes> {
        let Self::Cached { file, is_complete, .. } = self else {
            return None;
        };
        let cached = file.get(&matrix.key(), matrix.bytes.len());
        *is_complete &= cached.is_some();
        cached
    }

    /// Packs a matrix, into the new file if possible.
    ///
    /// # Errors
    /// If the number of bytes does not match its shape.
    pub fn pack(&mut self, matrix: &UnpackedMatrix) -> Result<Bytes, ShapeError> {
        if let Self::New(writer) = self {
            match writer.put(matrix) {
                Ok(packed) => return Ok(packed),
                Err(error) => {
                    tracing::info!("packed weights are not cached: {error}");
                    // The matrices written so far are mapped and remain valid.
                    *self = Self::InMemory;
                }
            }
        }
        pack_in_memory(matrix)
    }

    /// Ends loading after the last matrix. Completes a new file. Deletes an incomplete file, which
    /// is corrupt or was written with fewer layers on the CPU.
    pub fn finish(self) {
        match self {
            Self::Cached {
                path,
                is_complete: false,
                ..
            } => {
                tracing::info!("{} is incomplete; the next load writes it again", path.display());
                // If it cannot be deleted, later loads use its valid matrices.
                let _ = fs::remove_file(path);
            }
            Self::New(writer) => {
                if let Err(error) = writer.finish() {
                    tracing::info!("packed weights are not cached: {error}");
                }
            }
            Self::Cached { .. } | Self::InMemory => {}
        }
    }
}

/// Packs into page-aligned memory, because kernels are faster if tiles are aligned to cache lines.
fn pack_in_memory(matrix: &UnpackedMatrix) -> Result<Bytes, ShapeError> {
    let UnpackedMatrix {
        quant,
        rows,
        cols,
        bytes,
        ..
    } = *matrix;
    if let Ok(mut map) = MmapMut::map_anon(bytes.len().max(1)) {
        // Without huge pages, kernels are only somewhat slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        matrix::pack_into(quant, rows, cols, bytes, &mut map[..bytes.len()])?;
        if let Ok(map) = map.make_read_only() {
            return Ok(Bytes::from_owner(map).slice(..bytes.len()));
        }
    }
    Ok(Bytes::from(matrix::pack(quant, rows, cols, bytes)?.1))
}

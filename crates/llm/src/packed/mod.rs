//! Packed weights: matrices repacked for this CPU, cached on disk between loads.
//!
//! Packing (or copying, in the plain layout) takes as long as the rest of a load. So the result is
//! written to a file, one per model and packed layout, which later loads map: the tensors are in
//! the page cache, read-only, shared by all processes that run the model, and the system can drop
//! the pages without writing them back. The first load maps the file that it writes. A failure
//! costs only time: matrices that the file does not provide are packed in memory.

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

/// A matrix of the model file.
#[derive(Clone, Copy)]
pub(crate) struct Unpacked<'a> {
    pub name: &'a str,
    pub quant: Quant,
    pub rows: usize,
    pub cols: usize,
    pub bytes: &'a [u8],
}

/// The source of a model's packed weights.
pub(crate) enum PackedWeights {
    /// The file of an earlier load.
    Cached {
        file: PackedFile,
        path: PathBuf,
        /// Whether all matrices requested so far were present and valid.
        valid: bool,
    },
    /// Packed into a new file, for later loads.
    Written(Writer),
    /// Packed in memory.
    InMemory,
}

impl PackedWeights {
    /// The packed weights of this model, cached in `folder`; not cached without a folder, or if the
    /// model is not a file.
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
                valid: true,
            },
            None => match Writer::new(path, key, size) {
                Ok(writer) => Self::Written(writer),
                Err(error) => {
                    tracing::info!("packed weights cannot be cached in {}: {error}", folder.display());
                    Self::InMemory
                }
            },
        }
    }

    /// A valid matrix of an earlier load's file, or `None`.
    pub fn cached(&mut self, name: &str, length: usize) -> Option<Bytes> {
        let Self::Cached { file, valid, .. } = self else {
            return None;
        };
        let found = file.get(name, length);
        *valid &= found.is_some();
        found
    }

    /// Packs a matrix, into the new file if possible.
    ///
    /// # Errors
    /// If the number of bytes does not match its shape.
    pub fn pack(&mut self, matrix: &Unpacked) -> Result<Bytes, ShapeError> {
        if let Self::Written(writer) = self {
            match writer.put(matrix) {
                Ok(packed) => return Ok(packed),
                Err(error) => {
                    tracing::info!("packed weights are not cached: {error}");
                    // Matrices written so far are mapped already, and stay valid.
                    *self = Self::InMemory;
                }
            }
        }
        pack_in_memory(matrix)
    }

    /// Ends loading, after the last matrix: completes a new file, and deletes an invalid one, which
    /// is corrupt or was written with fewer layers on the CPU.
    pub fn finish(self) {
        match self {
            Self::Cached { path, valid: false, .. } => {
                tracing::info!("{} is incomplete; the next load writes it again", path.display());
                // If it cannot be deleted, its valid matrices are still used.
                let _ = fs::remove_file(path);
            }
            Self::Written(writer) => {
                if let Err(error) = writer.finish() {
                    tracing::info!("packed weights are not cached: {error}");
                }
            }
            Self::Cached { .. } | Self::InMemory => {}
        }
    }
}

/// Packs into page-aligned memory, as a mapped file has: kernels are faster if tiles are aligned to
/// cache lines.
fn pack_in_memory(matrix: &Unpacked) -> Result<Bytes, ShapeError> {
    let Unpacked {
        quant,
        rows,
        cols,
        bytes,
        ..
    } = *matrix;
    if let Ok(mut map) = MmapMut::map_anon(bytes.len().max(1)) {
        // If the advice is not taken, this costs only some speed.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        matrix::pack_into(quant, rows, cols, bytes, &mut map[..bytes.len()])?;
        if let Ok(map) = map.make_read_only() {
            return Ok(Bytes::from_owner(map).slice(..bytes.len()));
        }
    }
    Ok(Bytes::from(matrix::pack(quant, rows, cols, bytes)?.1))
}

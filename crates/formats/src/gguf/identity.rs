//! The identity of a file, computed without reading all of it.

use super::file_map::FileMap;
use super::header::PartInfo;
use sha2::{Digest, Sha256};
use std::time::UNIX_EPOCH;

/// Bytes at the start of a part that are hashed completely. They contain the metadata and tensor
/// table, except for the largest vocabularies.
const PREFIX_BYTES: usize = 1 << 20;

/// Number of samples of the rest of a part, evenly spaced.
const SAMPLES: usize = 64;
/// Size of a sample in bytes.
const SAMPLE_BYTES: usize = 4096;

/// A digest of a file's length, modification time and samples of its bytes: the key for caches
/// derived from the file. Independent of its path and name. Does not detect a change between the
/// samples that preserves the modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity([u8; 32]);

impl Identity {
    /// The identity of a file with these parts; `None` if they have no modification time.
    pub(super) fn from_parts(infos: &[PartInfo], maps: &[FileMap]) -> Option<Self> {
        let mut hash = Sha256::new();
        for (info, map) in infos.iter().zip(maps) {
            let modified = info.modified?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let bytes = map.bytes();
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(modified.as_nanos().to_le_bytes());
            let (prefix, rest) = bytes.split_at(bytes.len().min(PREFIX_BYTES));
            hash.update(prefix);
            for sample in 0..SAMPLES {
                // The last sample ends at the end of the file.
                let start = rest.len().saturating_sub(SAMPLE_BYTES) / (SAMPLES - 1) * sample;
                let start = if sample == SAMPLES - 1 {
                    rest.len().saturating_sub(SAMPLE_BYTES)
                } else {
                    start
                };
                hash.update(&rest[start..rest.len().min(start + SAMPLE_BYTES)]);
            }
        }
        Some(Self(hash.finalize().into()))
    }

    /// The digest in hexadecimal.
    pub fn hex(&self) -> String {
        crate::hex(self.0)
    }
}

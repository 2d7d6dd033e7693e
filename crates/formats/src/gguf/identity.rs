//! Identifies a file without reading all of it.

use super::file_map::FileMap;
use super::header::PartInfo;
use sha2::{Digest, Sha256};
use std::time::UNIX_EPOCH;

/// Bytes at the start of a part that are hashed completely: metadata and tensor table, complete
/// except for the largest vocabularies.
const PREFIX_BYTES: usize = 1 << 20;

/// Number and size of the samples of the rest of a part, evenly spaced.
const SAMPLES: usize = 64;
const SAMPLE_BYTES: usize = 4096;

/// A digest of a file's length, modification time and samples of its bytes, as the key for caches
/// derived from the file. Independent of its path and name. Not detected: a change only between the
/// samples with the modification time restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity([u8; 32]);

impl Identity {
    /// The identity of a file with these parts; `None` if they have no modification time.
    pub(super) fn from_parts(about: &[PartInfo], parts: &[FileMap]) -> Option<Self> {
        let mut hash = Sha256::new();
        for (about, part) in about.iter().zip(parts) {
            let written = about.modified?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let bytes = part.bytes();
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(written.as_nanos().to_le_bytes());
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

    /// Formats it in hexadecimal.
    pub fn hex(&self) -> String {
        crate::hex(self.0)
    }
}

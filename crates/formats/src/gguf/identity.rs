//! Telling a file from others without reading it whole.

use super::header::PartInfo;
use super::source::Source;
use sha2::{Digest, Sha256};
use std::time::UNIX_EPOCH;

/// Bytes at the beginning of a part that are taken whole: metadata and table, of all but the largest vocabularies all of them.
const BEGINNING: usize = 1 << 20;

/// Pages of the rest of a part that are looked at, spread evenly.
const SAMPLES: usize = 64;
const SAMPLE: usize = 4096;

/// A digest of a file's lengths, of when it was written, and of samples of its bytes. What is made of a file, and kept, is taken for
/// the file's where this is equal. Where it lies and what it is called play no part.
///
/// Whoever sets the time back by hand and changes nothing but what lies between the samples gets past it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity([u8; 32]);

impl Identity {
    /// That of a file of these parts; none where they do not come from a file system.
    pub(super) fn of(about: &[PartInfo], parts: &[Source]) -> Option<Self> {
        let mut hash = Sha256::new();
        for (about, part) in about.iter().zip(parts) {
            let written = about.modified?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let bytes = part.bytes();
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(written.as_nanos().to_le_bytes());
            let (beginning, rest) = bytes.split_at(bytes.len().min(BEGINNING));
            hash.update(beginning);
            for sample in 0..SAMPLES {
                // The last one ends where the file does.
                let start = rest.len().saturating_sub(SAMPLE) / (SAMPLES - 1) * sample;
                let start = if sample == SAMPLES - 1 {
                    rest.len().saturating_sub(SAMPLE)
                } else {
                    start
                };
                hash.update(&rest[start..rest.len().min(start + SAMPLE)]);
            }
        }
        Some(Self(hash.finalize().into()))
    }

    /// It in hexadecimal.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

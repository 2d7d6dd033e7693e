//! Limits of a header. They bound memory and time for any file, and are about twice what the largest known models need, or more.

/// The largest header in bytes, metadata and tensor table together. A vocabulary of 256k tokens with its scores, types and
/// 500k merges takes 15 to 30 MB; some files carry the tokenizer's JSON besides, another 35 MB.
pub(super) const MAX_HEADER: u64 = 128 << 20;

/// The longest text of the metadata in bytes. The longest known is a whole `tokenizer.json`, 35 MB.
pub(super) const MAX_TEXT: u64 = 64 << 20;

/// The longest key and tensor name in bytes; the format says 65535 for keys and 64 for names.
pub(super) const MAX_NAME: u64 = 65535;

/// The most metadata keys. Models have 20 to 60; one that names all of its training data has some hundreds.
pub(super) const MAX_KEYS: u64 = 1 << 16;

/// The most tensors. The largest known models have about 2,000, and 70,000 where each expert is a tensor of its own.
pub(super) const MAX_TENSORS: u64 = 1 << 17;

//! Limits of a header. They bound memory and time for any file, and are at least about twice the
//! needs of the largest known models.

/// Maximum bytes of a header, metadata and tensor table together. A vocabulary of 256k tokens
/// with its scores, types and 500k merges takes 15 to 30 MB; some files also contain the
/// tokenizer's JSON, another 35 MB.
pub(super) const MAX_HEADER: u64 = 128 << 20;

/// Maximum bytes of a metadata string. The longest known is a complete `tokenizer.json`, 35 MB.
pub(super) const MAX_TEXT: u64 = 64 << 20;

/// Maximum bytes of a key or tensor name. The format allows 65535 for keys and 64 for names.
pub(super) const MAX_NAME: u64 = 65535;

/// Maximum number of metadata keys. Models have 20 to 60, or hundreds if they list their training
/// data.
pub(super) const MAX_KEYS: u64 = 1 << 16;

/// Maximum number of tensors. The largest known models have about 2,000, or 70,000 if each expert
/// is a separate tensor.
pub(super) const MAX_TENSORS: u64 = 1 << 17;

//! Causal attention over a cache of cells or over a batch itself, with grouped query heads, and its gradient.
//!
//! Keys and values lie in tiles of sixteen tokens ([`KvLayer`]), so that scores come out sixteen at a time without a sum
//! across a vector. Scores of up to 128 keys are made for a block of query rows, turned into
//! probabilities with a running maximum (the *online softmax*, <https://arxiv.org/abs/1805.02867>), and spent on the values
//! at once. A block holds all query heads that share a key head, so each key and value is read once for them.

mod backward;
mod bytes;
mod forward;
mod heads;
mod kv;
mod prepare;
mod spans;
mod tiles;

pub use backward::attend_batch_backward;
pub use forward::{attend, attend_batch, attend_batch_keeping};
pub use heads::Heads;
#[cfg(feature = "gpu")]
pub(crate) use kv::{BLOCK, q8_0_gpu_words};
pub use kv::{KvFormat, KvLayer};
pub use prepare::{prepare_backward_in_place, prepare_in_place};
pub use spans::Spans;

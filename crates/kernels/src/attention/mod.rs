//! Causal attention over the KV cache or within a batch, with grouped query heads, and its
//! gradient; within a batch also without a causal mask.
//!
//! Keys and values are stored in tiles of sixteen tokens ([`KvLayer`]), so that sixteen scores are
//! computed at a time without a horizontal sum. For a block of query rows, the scores of up to 128
//! keys are computed, converted to probabilities with a running maximum (online softmax,
//! <https://arxiv.org/abs/1805.02867>), and applied to the values. A block contains all query heads
//! that share a KV head, so that each key and value is read once for all of them.

mod backward;
mod block;
mod bytes;
mod forward;
mod heads;
mod kv;
mod qk_norm_rope;
mod spans;
mod tiles;

pub use backward::attend_batch_backward;
pub use forward::{CachedRows, attend, attend_batch, attend_batch_both_ways, attend_batch_with_lse};
pub use heads::{Heads, Temperature};
#[cfg(feature = "gpu")]
pub(crate) use kv::{BLOCK, q8_0_gpu_words};
pub use kv::{KvFormat, KvLayer};
pub use qk_norm_rope::{QkNormRope, QkNormWidth, qk_norm_rope_backward_in_place, qk_norm_rope_in_place};
pub use spans::{PAGE, Spans};

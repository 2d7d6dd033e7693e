//! The shape of attention, as kernels are told it.

use super::launch::{matrix, same};
use super::{Floats, GpuError};
use crate::attention::Heads;

/// Sees that rows of Q, K and V have the heads that they are said to have.
pub(super) fn check(heads: &Heads, qkv: &Floats) -> Result<(), GpuError> {
    if heads.kv_heads == 0 || heads.head_dim == 0 {
        return Err(GpuError::Size {
            what: "number or width of key heads",
            found: 0,
            expected: 1,
        });
    }
    same(
        "number of query heads beyond multiples of the key heads",
        heads.heads % heads.kv_heads,
        0,
    )?;
    same("width of Q, K and V", qkv.cols, heads.qkv_width())?;
    matrix(qkv, "Q, K and V").map(|_| ())
}

/// How many tokens back a token sees, as a kernel counts.
pub(super) fn window(heads: &Heads) -> usize {
    heads.window.unwrap_or(usize::MAX).min(u32::MAX as usize)
}

//! Checks of an attention layer's shape.

use super::launch::{check_equal, matrix_arg};
use super::{Floats, GpuError};
use crate::attention::Heads;

/// Checks that the width of the rows of Q, K and V matches the heads.
pub(super) fn check(heads: &Heads, qkv: &Floats) -> Result<(), GpuError> {
    if heads.kv_heads == 0 || heads.head_dim == 0 {
        return Err(GpuError::Size {
            what: "number or width of KV heads",
            found: 0,
            expected: 1,
        });
    }
    check_equal("remainder of query heads by KV heads", heads.heads % heads.kv_heads, 0)?;
    check_equal("width of Q, K and V", qkv.cols, heads.qkv_width())?;
    matrix_arg(qkv, "Q, K and V").map(|_| ())
}

/// The softcap as a kernel takes it. Without one, the kernel does not read it.
pub(super) fn softcap(heads: &Heads) -> f32 {
    heads.softcap.unwrap_or(1.0)
}

/// The sliding window as a kernel takes it: `u32::MAX` means none.
pub(super) fn window(heads: &Heads) -> usize {
    heads.window.unwrap_or(usize::MAX).min(u32::MAX as usize)
}

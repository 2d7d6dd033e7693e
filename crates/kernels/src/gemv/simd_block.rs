//! SIMD unpacking of each format's codes and scales, 256 weights at a time.

use bytemuck::Pod;

use crate::blocks::Block;
use crate::lanes::Simd;

/// SIMD decoding of a format. Codes are unpacked as stored (or looked up in the codebook), without
/// subtracting [`SimdBlock::ZERO_POINT`].
///
/// All methods must be marked `#[inline(always)]`; see [`Simd`].
pub(crate) trait SimdBlock: Block {
    /// The blocks of [`QK_K`](crate::blocks::QK_K) weights: one or several.
    type Blocks: Pod;

    /// Subtracted from each code.
    const ZERO_POINT: u8;
    /// `true` if codes are signed bytes.
    const SIGNED: bool = false;

    /// The scale of every 16 weights, and their offset if the format has one.
    fn scales<S: Simd>(s: S, blocks: &Self::Blocks) -> (S::Floats, Option<S::Floats>);

    /// Unpacks the codes of groups `2 pair` and `2 pair + 1`.
    fn codes<S: Simd>(s: S, blocks: &Self::Blocks, pair: usize) -> S::Bytes;
}

/// `-x` in every lane.
#[inline(always)]
pub(crate) fn negate<S: Simd>(s: S, x: S::Floats) -> S::Floats {
    s.mul(x, s.splat(-1.0))
}

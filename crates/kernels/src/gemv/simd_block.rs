//! SIMD unpacking of each format's codes and scales, 256 weights at a time.

use bytemuck::Pod;

use crate::blocks::Block;
use crate::lanes::Simd;

/// SIMD variant of a format. Codes are unpacked as stored (or looked up in the codebook), without
/// subtracting [`SimdBlock::ZERO_POINT`].
///
/// All methods must be marked `#[inline(always)]`; see [`Simd`].
pub(crate) trait SimdBlock: Block {
    /// Blocks of 256 weights.
    type Chunk: Pod;

    /// Subtracted from a code.
    const ZERO_POINT: u8;
    /// Whether codes are signed.
    const SIGNED: bool = false;

    /// Scale of each 16 weights, and the offset if the format has one.
    fn scales<S: Simd>(s: S, chunk: &Self::Chunk) -> (S::Floats, Option<S::Floats>);

    /// Unpacks the codes of groups `2 pair` and `2 pair + 1`.
    fn codes<S: Simd>(s: S, chunk: &Self::Chunk, pair: usize) -> S::Bytes;
}

/// `-x` in every lane.
#[inline(always)]
pub(crate) fn negate<S: Simd>(s: S, x: S::Floats) -> S::Floats {
    s.mul(x, s.splat(-1.0))
}

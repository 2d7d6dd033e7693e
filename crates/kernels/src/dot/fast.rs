//! What a format adds to its specification to be fast: how vectors take its codes and scales out of 256 weights.

use bytemuck::Pod;

use super::simd::Simd;
use crate::blocks::{Bf16, Block, F32, Float, Fp16};

/// A format's fast variant. Codes come as they are stored (or as what a table has for them), not centred: [`Fast::ZERO`] says
/// what to take away.
///
/// All methods are to be marked `#[inline(always)]`; see [`Simd`].
pub(crate) trait Fast: Block {
    /// The blocks of 256 weights.
    type Chunk: Pod;

    /// What is taken from a code to centre it.
    const ZERO: u8;
    /// Whether codes are signed.
    const SIGNED: bool = false;

    /// The scale and, where the format has one, the offset of each 16 weights.
    fn scales<S: Simd>(s: S, chunk: &Self::Chunk) -> (S::Floats, Option<S::Floats>);

    /// Codes of groups `2 pair` and `2 pair + 1`.
    fn codes<S: Simd>(s: S, chunk: &Self::Chunk, pair: usize) -> S::Bytes;
}

/// `-x` in every lane.
#[inline(always)]
pub(crate) fn negate<S: Simd>(s: S, x: S::Floats) -> S::Floats {
    s.mul(x, s.splat(-1.0))
}

/// How vectors take plain weights out of a row.
pub(crate) trait FastFloat: Float {
    /// 16 weights as f32; to be marked `#[inline(always)]`.
    fn load<S: Simd>(s: S, weights: &[Self; 16]) -> S::Floats;
}

impl FastFloat for F32 {
    #[inline(always)]
    fn load<S: Simd>(s: S, weights: &[Self; 16]) -> S::Floats {
        s.stored_floats(bytemuck::cast_ref(weights))
    }
}

impl FastFloat for Fp16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, weights: &[Self; 16]) -> S::Floats {
        s.widen_f16(bytemuck::cast_ref(weights))
    }
}

impl FastFloat for Bf16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, weights: &[Self; 16]) -> S::Floats {
        s.widen_bf16(bytemuck::cast_ref(weights))
    }
}

//! MXFP4: E2M1 codes and an E8M0 scale, a power of two.
//! <https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf>

use super::block::{Block, GROUP, Group, pack_nibbles};
use super::{codebook, fp4};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, ScaleLayout, Unit};

/// ggml's `block_mxfp4`: weight `i` is `2^(e - 128) * value[q[i]]`. Low nibbles hold weights 0 to
/// 15, high nibbles 16 to 31.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Mxfp4 {
    /// Scale: an exponent with the bias 127; 255 means NaN.
    pub e: u8,
    /// Codes.
    pub qs: [u8; GROUP / 2],
}

const _: () = assert!(size_of::<Mxfp4>() == 17);

/// The largest scale of a weight that every kernel multiplies without an infinite intermediate
/// result: weights are below 2^96. Kernels on the CPU apply the weight scale, then the activation
/// scale, to a biased sum of up to 2^23.6; matrix units of a GPU sum activations scaled up to 2^15
/// over up to 2^17 columns.
const MAX_SCALE: u8 = 220;

impl Block for Mxfp4 {
    const GROUPS: usize = 1;

    fn group(&self, _: usize) -> Group {
        Group::symmetric(fp4::half_e8m0(self.e), codebook::group(&fp4::VALUES, &self.qs))
    }

    /// As ggml's `quantize_row_mxfp4_ref`: the scale is the power of two with which the largest
    /// magnitude has E2M1's largest exponent. Its exponent is exact here; ggml's `log2f` rounds up
    /// just below some powers of two.
    fn quantize(x: &[f32]) -> Self {
        let x: &[f32; GROUP] = &x.as_chunks().0[0];
        let exponent = (fp4::max_magnitude(x).to_bits() >> 23) as u8;
        let e = exponent.saturating_sub(2);
        Self {
            e,
            qs: pack_nibbles(&x.map(|x| fp4::nearest(x, fp4::half_e8m0(e)))),
        }
    }

    fn has_bad_scale(&self) -> bool {
        self.e > MAX_SCALE
    }
}

impl SimdBlock for Mxfp4 {
    type Blocks = [Mxfp4; 8];

    const ZERO_POINT: u8 = fp4::ZERO_POINT;

    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &Self::Blocks) -> (S::Floats, Option<S::Floats>) {
        (
            s.load_floats_twice(&blocks.each_ref().map(|block| fp4::half_e8m0(block.e))),
            None,
        )
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, blocks: &Self::Blocks, pair: usize) -> S::Bytes {
        codebook::codes(s, &fp4::UNSIGNED, &blocks[2 * pair].qs, &blocks[2 * pair + 1].qs)
    }
}

impl Packable for Mxfp4 {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::of_block(Unit::HalfE8m0(0), Minimum::None),
        bits: 4,
        zero_point: fp4::ZERO_POINT,
        codebook: Some(&fp4::VALUES),
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::blocks::fp4;
    use crate::gpu::bytes::{SEGMENT, codebook_words, load_nibble, load_u8, load_u32, look_up};
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 16;

    /// The scale of the block at byte `block`, halved.
    #[cube]
    fn scale(words: &[u32], block: usize) -> f32 {
        let e = load_u8(words, block);
        // Two factors that are normal, since devices flush subnormals.
        let low = f32::reinterpret((e / 2u32 + 63u32) << 23u32);
        low * f32::reinterpret((e.div_ceil(2u32) + 63u32) << 23u32)
    }

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        scale(words, block)
            * look_up(
                load_nibble(words, block + 1, i),
                comptime!(codebook_words(&fp4::VALUES)),
            )
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let codes = load_u32(words, block + 1 + 4 * segment);
        let scale = scale(words, block);
        #[unroll]
        for i in 0..SEGMENT {
            let shift = (8 * (i % 4) + 4 * (i / 4)) as u32;
            out[i] = scale * look_up((codes >> shift) & 15u32, comptime!(codebook_words(&fp4::VALUES)));
        }
        out
    }
}

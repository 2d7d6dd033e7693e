//! IQ4_NL: 4-bit codes into a non-linear codebook, and a scale.

use super::block::{Block, GROUP, Group, Half, first_four};
use super::{codebook, iq4};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, ScaleLayout, Unit};

/// ggml's `block_iq4_nl`: weight `i` is `d * value[q[i]]`. Low nibbles hold weights 0 to 15, high
/// nibbles 16 to 31.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Iq4Nl {
    /// Scale.
    pub d: Half,
    /// Codes.
    pub qs: [u8; GROUP / 2],
}

const _: () = assert!(size_of::<Iq4Nl>() == 18);

impl Block for Iq4Nl {
    const GROUPS: usize = 1;

    fn group(&self, _: usize) -> Group {
        Group::symmetric(self.d.to_f32(), codebook::group(&iq4::VALUES, &self.qs))
    }

    fn quantize(x: &[f32]) -> Self {
        let x = &x.as_chunks().0[0];
        let d = Half::from_f32(iq4::fit(x));
        Self {
            d,
            qs: iq4::pack(x, d.to_f32()),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

impl SimdBlock for Iq4Nl {
    type Blocks = [Iq4Nl; 8];

    const ZERO_POINT: u8 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &Self::Blocks) -> (S::Floats, Option<S::Floats>) {
        // The two bytes after a scale are loaded with it and discarded.
        (s.widen_f16_pairs_twice(blocks.each_ref().map(first_four)).0, None)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, blocks: &Self::Blocks, pair: usize) -> S::Bytes {
        codebook::codes(
            s,
            bytemuck::cast_ref(&iq4::VALUES),
            &blocks[2 * pair].qs,
            &blocks[2 * pair + 1].qs,
        )
    }
}

impl Packable for Iq4Nl {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::of_block(Unit::F16(0), Minimum::None),
        bits: 4,
        zero_point: 128,
        codebook: Some(&iq4::VALUES),
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::blocks::iq4;
    use crate::gpu::bytes::{SEGMENT, codebook_words, load_f16, load_nibble, load_u32_even, look_up};
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 16;

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        load_f16(words, block)
            * look_up(
                load_nibble(words, block + 2, i),
                comptime!(codebook_words(&iq4::VALUES)),
            )
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let codes = load_u32_even(words, block + 2 + 4 * segment);
        let scale = load_f16(words, block);
        #[unroll]
        for i in 0..SEGMENT {
            let shift = (8 * (i % 4) + 4 * (i / 4)) as u32;
            out[i] = scale * look_up((codes >> shift) & 15u32, comptime!(codebook_words(&iq4::VALUES)));
        }
        out
    }
}

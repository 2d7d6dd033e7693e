//! IQ4_NL: 4-bit codes into a non-linear codebook, and a scale.

use super::block::{Block, GROUP, Group, Half, first_four};
use super::levels;
use crate::gemv::{Simd, SimdBlock};

/// Weight `i` is `d * level[q[i]]`. Low nibbles hold weights 0 to 15, high nibbles 16 to 31.
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
        Group::symmetric(self.d.to_f32(), levels::group(&self.qs))
    }

    fn quantize(x: &[f32]) -> Self {
        let x = &x.as_chunks().0[0];
        let d = Half::from_f32(levels::fit(x));
        Self {
            d,
            qs: levels::pack(x, d.to_f32()),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

impl SimdBlock for Iq4Nl {
    type Chunk = [Iq4Nl; 8];

    const ZERO_POINT: u8 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn scales<S: Simd>(s: S, chunk: &Self::Chunk) -> (S::Floats, Option<S::Floats>) {
        // The two bytes after a scale are loaded with it and discarded.
        (s.widen_f16_pairs_twice(chunk.each_ref().map(first_four)).0, None)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, chunk: &Self::Chunk, pair: usize) -> S::Bytes {
        levels::codes(s, &chunk[2 * pair].qs, &chunk[2 * pair + 1].qs)
    }
}

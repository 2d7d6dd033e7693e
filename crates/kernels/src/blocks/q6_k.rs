//! Q6_K: 6-bit codes; a signed 8-bit scale per 16 weights; a scale of the scales per 256.

use super::block::{Block, GROUP, Group, HALF_GROUP, Half, QK_K};
use super::search::{signed_code, symmetric, symmetric_unit};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, PartCode, Parts, ScaleLayout, Unit};

/// ggml's `block_q6_K`: weight `i` is `d * scales[i / 16] * (q[i] - 32)`.
///
/// Every 128 weights take 64 bytes of `ql` and 32 bytes of `qh`. The low nibbles of `ql` hold the
/// low bits of groups 0 and 1, the high nibbles the low bits of groups 2 and 3. Bits `2 g` and
/// `2 g + 1` of `qh` hold the top bits of group `g`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q6K {
    /// Low four bits of the codes.
    pub ql: [u8; QK_K / 2],
    /// Top two bits of the codes.
    pub qh: [u8; QK_K / 4],
    /// Scales of 16 weights.
    pub scales: [i8; QK_K / HALF_GROUP],
    /// Scale of the scales.
    pub d: Half,
}

const _: () = assert!(size_of::<Q6K>() == 210);

/// Zero point of the codes.
const ZERO_POINT: u8 = 32;
/// Scales are in `-SCALE_LIMIT..SCALE_LIMIT`.
const SCALE_LIMIT: u8 = 128;

impl Block for Q6K {
    const GROUPS: usize = 8;

    fn group(&self, g: usize) -> Group {
        let (half, g_in_half) = (g / 4, g % 4);
        let low = &self.ql[64 * half + GROUP * (g_in_half % 2)..][..GROUP];
        let high = &self.qh[GROUP * half..][..GROUP];
        let code = |l: usize| {
            let q = (low[l] >> (4 * (g_in_half / 2)) & 0x0f) | (high[l] >> (2 * g_in_half) & 3) << 4;
            q as i8 - ZERO_POINT as i8
        };
        let scale = |j: usize| self.d.to_f32() * f32::from(self.scales[j]);
        Group {
            codes: std::array::from_fn(code),
            scale: [scale(2 * g), scale(2 * g + 1)],
            offset: [0.0; 2],
        }
    }

    fn quantize(x: &[f32]) -> Self {
        let fits: [f32; QK_K / HALF_GROUP] =
            std::array::from_fn(|j| symmetric::<HALF_GROUP>(&x.as_chunks().0[j], ZERO_POINT));
        let d = Half::from_f32(symmetric_unit(&fits, SCALE_LIMIT));
        let scales = fits.map(|fit| signed_code(fit, d.to_f32(), SCALE_LIMIT));
        let codes: [u8; QK_K] = std::array::from_fn(|i| {
            let step = d.to_f32() * f32::from(scales[i / HALF_GROUP]);
            (signed_code(x[i], step, ZERO_POINT) + ZERO_POINT as i8) as u8
        });
        Self {
            ql: std::array::from_fn(|index| {
                let first = 128 * (index / 64) + index % 64;
                (codes[first] & 0x0f) | codes[first + 64] << 4
            }),
            qh: std::array::from_fn(|index| {
                let first = 128 * (index / GROUP) + index % GROUP;
                (0..4).fold(0, |byte, g| byte | (codes[first + GROUP * g] >> 4) << (2 * g))
            }),
            scales,
            d,
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

impl SimdBlock for Q6K {
    type Blocks = Self;

    const ZERO_POINT: u8 = ZERO_POINT;

    #[inline(always)]
    fn scales<S: Simd>(s: S, block: &Self) -> (S::Floats, Option<S::Floats>) {
        (s.mul(s.splat_f16(block.d.bits()), s.load_i8(&block.scales)), None)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, block: &Self, pair: usize) -> S::Bytes {
        let (half, pair_in_half) = (pair / 2, pair as u8 % 2);
        let low: &[[u8; 64]; 2] = bytemuck::cast_ref(&block.ql);
        let high: &[[u8; GROUP]; 2] = bytemuck::cast_ref(&block.qh);
        let low = s.and(s.shift_right(s.load_bytes(&low[half]), [4 * pair_in_half; 4]), 0x0f);
        let by = 4 * pair_in_half;
        let high = s.and(
            s.shift_right(s.load_half_twice(&high[half]), [by, by, by + 2, by + 2]),
            3,
        );
        s.or(low, s.shift_left_4(high))
    }
}

impl Packable for Q6K {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout {
            unit: Unit::F16(208),
            minimum: Minimum::None,
            parts: Some(Parts::bytes_of_halves(192, 16, PartCode::Signed)),
            tiles: 8,
        },
        bits: 6,
        zero_point: ZERO_POINT,
        codebook: None,
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::gpu::bytes::{SEGMENT, load_f16, load_i8, load_u8, load_u32_even};
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 64;

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        // Every 128 weights take 64 bytes of low bits and 32 bytes of top bits; `g` is one of their
        // four groups.
        let part = i / 128;
        let g = (i / 32) % 4;
        let l = i % 32;
        let low = (load_u8(words, block + 64 * part + 32 * (g % 2) + l) >> (4u32 * (g / 2) as u32)) & 15u32;
        let high = (load_u8(words, block + 128 + 32 * part + l) >> (2u32 * g as u32)) & 3u32;
        let scale = load_f16(words, block + 208) * f32::cast_from(load_i8(words, block + 192 + i / 16));
        scale * f32::cast_from((low | (high << 4u32)) as i32 - 32i32)
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let part = segment / 16;
        let second = segment / 8 % 2;
        let l = 4 * (segment % 8);
        let low = load_u32_even(words, block + 64 * part + 32 * second + l);
        let top = load_u32_even(words, block + 128 + 32 * part + l) >> (2 * second) as u32;
        #[unroll]
        for high in 0..2usize {
            // Sixteen weights share a scale.
            let scales = block + 192 + 8 * part + 2 * second + 4 * high + l / 16;
            let scale = load_f16(words, block + 208) * f32::cast_from(load_i8(words, scales));
            #[unroll]
            for i in 0..4usize {
                let shift = (8 * i + 4 * high) as u32;
                let code = ((low >> shift) & 15u32) | (((top >> shift) & 3u32) << 4u32);
                out[4 * high + i] = scale * f32::cast_from(code as i32 - 32i32);
            }
        }
        out
    }
}

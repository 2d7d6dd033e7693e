//! NVFP4: E2M1 codes and an unsigned E4M3 scale per 16 weights. A file may also have a scale of the
//! whole tensor (`NAME.scale`), which a linear layer applies after the product.

use super::block::{Block, GROUP, Group, HALF_GROUP};
use super::fp4;
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, PartCode, Parts, ScaleLayout, Unit};

/// Weights per block.
const WEIGHTS: usize = 2 * GROUP;

/// ggml's `block_nvfp4`: weight `i` is `d[i / 16] / 2 * value[q[i]]`.
///
/// Every eight bytes of `qs` hold 16 weights, the first eight in the low nibbles.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Nvfp4 {
    /// Scales of 16 weights.
    pub d: [u8; WEIGHTS / HALF_GROUP],
    /// Codes.
    pub qs: [[u8; HALF_GROUP / 2]; WEIGHTS / HALF_GROUP],
}

const _: () = assert!(size_of::<Nvfp4>() == 36);

/// E4M3's NaN with the sign bit set, which occurs in no file: marks weights that are too large.
const TOO_LARGE: u8 = 0xff;

impl Nvfp4 {
    /// Looks up the codes of 16 weights in `table`.
    #[inline(always)]
    fn values<T: Copy>(&self, part: usize, table: &[T; 16]) -> [T; HALF_GROUP] {
        let bytes = &self.qs[part];
        std::array::from_fn(|i| {
            if i < HALF_GROUP / 2 {
                table[usize::from(bytes[i] & 0x0f)]
            } else {
                table[usize::from(bytes[i - HALF_GROUP / 2] >> 4)]
            }
        })
    }
}

/// Rounds a scale, which is not negative, to the nearest E4M3 value, halves up; [`TOO_LARGE`] if it
/// would round to more than 448, the largest. ggml's `ggml_fp32_to_ue4m3` rounds all scales from
/// 248 on to 448.
fn to_e4m3(x: f32) -> u8 {
    /// The smallest normal value.
    const NORMAL: f32 = 1.0 / 64.0;
    /// The bits of the largest value.
    const MAX_E4M3: u8 = 0x7e;
    match x {
        // Halfway from 448 to 480, the next value if E4M3 had it.
        _ if x.is_nan() || x >= 464.0 => TOO_LARGE,
        _ if x < NORMAL => ((x * 512.0 + 0.5) as u8).min(7),
        // Three bits of the mantissa remain; a carry increments the exponent, whose bias becomes 7.
        _ => ((((x.to_bits() + (1 << 19)) >> 20) - (120 << 3)) as u8).min(MAX_E4M3),
    }
}

impl Block for Nvfp4 {
    const GROUPS: usize = 2;

    fn group(&self, g: usize) -> Group {
        let values = [2 * g, 2 * g + 1].map(|part| self.values(part, &fp4::VALUES));
        Group {
            codes: bytemuck::cast(values),
            scale: [self.d[2 * g], self.d[2 * g + 1]].map(fp4::half_e4m3),
            offset: [0.0; 2],
        }
    }

    /// As ggml's `quantize_row_nvfp4_ref`, except for scales from 248 on: the scale maps the
    /// largest magnitude of 16 weights to E2M1's largest value.
    fn quantize(x: &[f32]) -> Self {
        let parts: [&[f32; HALF_GROUP]; 4] = std::array::from_fn(|part| &x.as_chunks().0[part]);
        // `fp4::MAX_VALUE` is twice E2M1's largest value.
        let d = parts.map(|x| to_e4m3(fp4::max_magnitude(x) / (fp4::MAX_VALUE / 2.0)));
        let code = |part: usize, i: usize| fp4::nearest(parts[part][i], fp4::half_e4m3(d[part]));
        Self {
            d,
            qs: std::array::from_fn(|part| {
                std::array::from_fn(|i| code(part, i) | code(part, i + HALF_GROUP / 2) << 4)
            }),
        }
    }

    fn has_bad_scale(&self) -> bool {
        self.d.contains(&TOO_LARGE)
    }
}

impl SimdBlock for Nvfp4 {
    type Blocks = [Nvfp4; 4];

    const ZERO_POINT: u8 = fp4::ZERO_POINT;

    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &Self::Blocks) -> (S::Floats, Option<S::Floats>) {
        let scales: [u8; 16] = bytemuck::cast(blocks.each_ref().map(|block| block.d));
        (s.load(&scales.map(fp4::half_e4m3)), None)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, blocks: &Self::Blocks, pair: usize) -> S::Bytes {
        let values: [[u8; HALF_GROUP]; 4] = std::array::from_fn(|part| blocks[pair].values(part, &fp4::UNSIGNED));
        s.load_bytes(bytemuck::cast_ref(&values))
    }
}

impl Packable for Nvfp4 {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout {
            unit: Unit::One,
            minimum: Minimum::None,
            parts: Some(Parts::bytes_of_halves(0, 4, PartCode::HalfE4m3)),
            tiles: 2,
        },
        bits: 4,
        zero_point: fp4::ZERO_POINT,
        codebook: Some(&fp4::VALUES),
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::blocks::fp4;
    use crate::gpu::bytes::{SEGMENT, codebook_words, load_u8, look_up};
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 8;

    /// Half the value of scale `part` of the block at byte `block`.
    #[cube]
    fn scale(words: &[u32], block: usize, part: usize) -> f32 {
        let bits = load_u8(words, block + part) & 0x7fu32;
        let exponent = bits >> 3u32;
        let mantissa = f32::cast_from(bits & 7u32);
        // 2^(exponent - 11) for a mantissa in eighths, without subnormals of f32.
        let normal = (mantissa + 8.0f32) * f32::reinterpret((exponent + 116u32) << 23u32);
        let scale = select(exponent == 0u32, mantissa * f32::reinterpret(117u32 << 23u32), normal);
        // The bits of NaN stand for zero.
        select(bits == 0x7fu32, 0.0f32, scale)
    }

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        let codes = load_u8(words, block + 4 + 8 * (i / 16) + i % 8) >> (4u32 * (i / 8 % 2) as u32);
        scale(words, block, i / 16) * look_up(codes & 15u32, comptime!(codebook_words(&fp4::VALUES)))
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        // Blocks of 36 bytes begin at a word.
        let codes = words[block / 4 + 1 + segment];
        let scale = scale(words, block, segment / 2);
        #[unroll]
        for i in 0..SEGMENT {
            let shift = (8 * (i % 4) + 4 * (i / 4)) as u32;
            out[i] = scale * look_up((codes >> shift) & 15u32, comptime!(codebook_words(&fp4::VALUES)));
        }
        out
    }
}

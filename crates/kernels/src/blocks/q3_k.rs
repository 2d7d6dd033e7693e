//! Q3_K: 3 bits; a signed scale of 6 bits for 16 weights; a scale for those for 256.

use super::block::{Block, CHUNK, GROUP, Group, HALF_GROUP, Half};
use super::search::{signed_code, symmetric};
use super::two_bits;

/// Weight `i` is `d * (s[i / 16] - 32) * (q[i] - 4)`.
///
/// Two bits of a code lie in `qs` as in Q2_K; the third, of weight `l` of group `g`, is bit `g` of `hmask[l]`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q3K {
    /// Third bits.
    pub hmask: [u8; GROUP],
    /// Low two bits of the codes.
    pub qs: [u8; CHUNK / 4],
    /// Sixteen scales: low nibbles of 0 to 7, high nibbles of 8 to 15 in eight bytes, then the top two bits of scale
    /// `j` in bits `2 (j / 4)` and up of byte `8 + j % 4`.
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: Half,
}

const _: () = assert!(size_of::<Q3K>() == 110);

/// What is taken from a code to centre it.
const ZERO: u8 = 4;
/// What is taken from a scale to centre it.
const ZERO_SCALE: u8 = 32;

impl Q3K {
    /// Scale `j` of 16 weights, not centred.
    fn scale(&self, j: usize) -> u8 {
        let low = self.scales[j % 8] >> (4 * (j / 8)) & 0x0f;
        let high = self.scales[8 + j % 4] >> (2 * (j / 4)) & 3;
        low | high << 4
    }
}

impl Block for Q3K {
    const GROUPS: usize = 8;

    fn group(&self, g: usize) -> Group {
        let (d, low) = (self.d.to_f32(), two_bits::group(&self.qs, g));
        let scale = |j| d * f32::from(self.scale(j) as i8 - ZERO_SCALE as i8);
        Group {
            codes: std::array::from_fn(|l| (low[l] | (self.hmask[l] >> g & 1) << 2) as i8 - ZERO as i8),
            scale: [scale(2 * g), scale(2 * g + 1)],
            offset: [0.0; 2],
        }
    }

    fn quantize(x: &[f32]) -> Self {
        let fits: [f32; CHUNK / HALF_GROUP] =
            std::array::from_fn(|j| symmetric(&x[HALF_GROUP * j..][..HALF_GROUP], ZERO as i8));
        let d = Half::from_f32(symmetric_span(&fits, ZERO_SCALE));
        let scales = fits.map(|fit| signed_code(fit, d.to_f32(), ZERO_SCALE as i8));
        let codes: [u8; CHUNK] = std::array::from_fn(|i| {
            let step = d.to_f32() * f32::from(scales[i / HALF_GROUP]);
            (signed_code(x[i], step, ZERO as i8) + ZERO as i8) as u8
        });
        let scales = scales.map(|s| (s + ZERO_SCALE as i8) as u8);
        Self {
            hmask: std::array::from_fn(|l| (0..8).fold(0, |byte, g| byte | (codes[GROUP * g + l] >> 2) << g)),
            qs: two_bits::pack(&codes),
            scales: std::array::from_fn(|at| match at {
                0..8 => (scales[at] & 0x0f) | (scales[at + 8] & 0x0f) << 4,
                _ => (0..4).fold(0, |byte, k| byte | (scales[at - 8 + 4 * k] >> 4) << (2 * k)),
            }),
            d,
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

/// The scale with which signed codes of `-limit..limit` span `scales`: the farthest from zero becomes `-limit`.
pub(super) fn symmetric_span(scales: &[f32], limit: u8) -> f32 {
    scales
        .iter()
        .copied()
        .fold(0.0_f32, |far, s| if s.abs() > far.abs() { s } else { far })
        / -f32::from(limit)
}

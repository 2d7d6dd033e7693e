//! Q5_0: 5 bits and a scale.

use super::block::{Block, GROUP, Group, Half, nibbles, pack_fifth_bits, pack_nibbles, quantize_symmetric};

/// Weight `i` is `d * (q[i] - 16)`. Four bits of a code lie as in Q4_0; the fifth is bit `i` of `qh`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q5_0 {
    /// Scale.
    pub d: Half,
    /// Fifth bits, a little-endian number of 32 bits.
    pub qh: [u8; 4],
    /// Low four bits of the codes.
    pub qs: [u8; GROUP / 2],
}

const _: () = assert!(size_of::<Q5_0>() == 22);

/// What is taken from a code to centre it.
const ZERO: u8 = 16;

impl Block for Q5_0 {
    const GROUPS: usize = 1;

    fn group(&self, _: usize) -> Group {
        let (low, high) = (nibbles(&self.qs), u32::from_le_bytes(self.qh));
        let code = |i: usize| (low[i] | ((high >> i) as u8 & 1) << 4) as i8 - ZERO as i8;
        Group::symmetric(self.d.to_f32(), std::array::from_fn(code))
    }

    fn quantize(x: &[f32]) -> Self {
        let (scale, codes) = quantize_symmetric(x, ZERO);
        Self {
            d: Half::from_f32(scale),
            qh: pack_fifth_bits(&codes),
            qs: pack_nibbles(&codes),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

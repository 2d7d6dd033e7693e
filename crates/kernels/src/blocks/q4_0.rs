//! Q4_0: 4 bits and a scale.

use super::block::{Block, GROUP, Group, Half, nibbles, pack_nibbles, quantize_symmetric};

/// Weight `i` is `d * (q[i] - 8)`. Low nibbles hold weights 0 to 15, high nibbles 16 to 31.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q4_0 {
    /// Scale.
    pub d: Half,
    /// Codes.
    pub qs: [u8; GROUP / 2],
}

const _: () = assert!(size_of::<Q4_0>() == 18);

/// What is taken from a code to centre it.
const ZERO: u8 = 8;

impl Block for Q4_0 {
    const GROUPS: usize = 1;

    fn group(&self, _: usize) -> Group {
        Group::symmetric(self.d.to_f32(), nibbles(&self.qs).map(|q| q as i8 - ZERO as i8))
    }

    fn quantize(x: &[f32]) -> Self {
        let (scale, codes) = quantize_symmetric(x, ZERO);
        Self {
            d: Half::from_f32(scale),
            qs: pack_nibbles(&codes),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

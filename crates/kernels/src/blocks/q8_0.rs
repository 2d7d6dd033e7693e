//! Q8_0: 8 bits and a scale.

use super::block::{Block, GROUP, Group, Half};

/// Weight `i` is `d * qs[i]`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q8_0 {
    /// Scale.
    pub d: Half,
    /// Codes.
    pub qs: [i8; GROUP],
}

const _: () = assert!(size_of::<Q8_0>() == 34);

impl Block for Q8_0 {
    const GROUPS: usize = 1;

    fn group(&self, _: usize) -> Group {
        Group::symmetric(self.d.to_f32(), self.qs)
    }

    fn quantize(x: &[f32]) -> Self {
        let scale = x.iter().fold(0.0_f32, |far, x| far.max(x.abs())) / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        Self {
            d: Half::from_f32(scale),
            qs: std::array::from_fn(|i| (x[i] * inverse).round() as i8),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

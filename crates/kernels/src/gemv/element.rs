//! SIMD loads of unquantized weights.

use crate::blocks::{Bf16, F32, Fp16};
use crate::lanes::{Lanes, WIDTH};
use bytemuck::Pod;

/// A stored element that widens to f32.
pub(crate) trait Element: Pod {
    /// Widens sixteen elements to f32, exactly; must be marked `#[inline(always)]`.
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats;
}

impl Element for f32 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats {
        l.load(x)
    }
}

impl Element for F32 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats {
        l.load(&bytemuck::cast(u32_from_le(bytemuck::cast(*x))))
    }
}

impl Element for Fp16 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats {
        l.load_f16(&u16_from_le(bytemuck::cast(*x)))
    }
}

impl Element for Bf16 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats {
        l.load_bf16(&u16_from_le(bytemuck::cast(*x)))
    }
}

/// Converts little-endian integers to native order. (`array::map` is not always inlined, and then
/// compiled without the vector instructions.)
#[inline(always)]
fn u32_from_le(mut x: [u32; WIDTH]) -> [u32; WIDTH] {
    if cfg!(target_endian = "big") {
        x.iter_mut().for_each(|x| *x = u32::from_le(*x));
    }
    x
}

/// [`u32_from_le`] for 16-bit integers.
#[inline(always)]
fn u16_from_le(mut x: [u16; WIDTH]) -> [u16; WIDTH] {
    if cfg!(target_endian = "big") {
        x.iter_mut().for_each(|x| *x = u16::from_le(*x));
    }
    x
}

//! SIMD loading of unquantized weights.

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
        l.load(&bytemuck::cast(words(bytemuck::cast(*x))))
    }
}

impl Element for Fp16 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats {
        l.load_half(&halves(bytemuck::cast(*x)))
    }
}

impl Element for Bf16 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats {
        l.load_bf16(&halves(bytemuck::cast(*x)))
    }
}

/// Little-endian words in native order. (`array::map` is not always inlined, and then lacks the
/// vector instructions.)
#[inline(always)]
fn words(mut x: [u32; WIDTH]) -> [u32; WIDTH] {
    if cfg!(target_endian = "big") {
        x.iter_mut().for_each(|x| *x = u32::from_le(*x));
    }
    x
}

/// [`words`] of 16 bits.
#[inline(always)]
fn halves(mut x: [u16; WIDTH]) -> [u16; WIDTH] {
    if cfg!(target_endian = "big") {
        x.iter_mut().for_each(|x| *x = u16::from_le(*x));
    }
    x
}

//! What lies in tiles.

use crate::bf16s::narrow;
use crate::lanes::{Lanes, WIDTH};
use bytemuck::{Pod, Zeroable};

/// One or two neighbours of the common dimension, as a product takes them.
pub(crate) trait Factor: Pod + Send + Sync {
    /// Numbers of the common dimension in one.
    const DEPTH: usize;
    /// Whether the chip may have an instruction for two at once; see [`crate::bf16_is_fast`].
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    const PAIRS: bool;
    /// Sixteen, ready to be multiplied.
    type Vector<L: Lanes>: Copy;

    /// The factor of one number, or of two.
    fn of(first: f32, second: f32) -> Self;
    /// Sixteen in order.
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> Self::Vector<L>;
    /// One, sixteen times.
    fn splat<L: Lanes>(l: L, x: Self) -> Self::Vector<L>;
    /// `sum` with the products of `a` and `b` added.
    fn mul_add<L: Lanes>(l: L, a: Self::Vector<L>, b: Self::Vector<L>, sum: L::Floats) -> L::Floats;
}

impl Factor for f32 {
    const DEPTH: usize = 1;
    const PAIRS: bool = false;
    type Vector<L: Lanes> = L::Floats;

    #[inline(always)]
    fn of(first: f32, _: f32) -> Self {
        first
    }

    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats {
        l.load(x)
    }

    #[inline(always)]
    fn splat<L: Lanes>(l: L, x: Self) -> L::Floats {
        l.splat(x)
    }

    #[inline(always)]
    fn mul_add<L: Lanes>(l: L, a: L::Floats, b: L::Floats, sum: L::Floats) -> L::Floats {
        l.mul_add(a, b, sum)
    }
}

/// Two numbers rounded to bf16, the first in the low half.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Pair(u32);

impl Factor for Pair {
    const DEPTH: usize = 2;
    const PAIRS: bool = true;
    type Vector<L: Lanes> = L::Pairs;

    #[inline(always)]
    fn of(first: f32, second: f32) -> Self {
        Self(u32::from(narrow(first)) | u32::from(narrow(second)) << 16)
    }

    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Pairs {
        l.load_pairs(bytemuck::cast_ref(x))
    }

    #[inline(always)]
    fn splat<L: Lanes>(l: L, x: Self) -> L::Pairs {
        l.splat_pair(x.0)
    }

    #[inline(always)]
    fn mul_add<L: Lanes>(l: L, a: L::Pairs, b: L::Pairs, sum: L::Floats) -> L::Floats {
        l.mul_add_pairs(a, b, sum)
    }
}

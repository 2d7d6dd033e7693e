//! Elements of GEMM panels.

use crate::bf16_slices::{narrow, widen};
use crate::lanes::{Lanes, WIDTH};
use bytemuck::{Pod, Zeroable};

/// Element of a panel: one or two neighbors of the inner dimension.
pub(crate) trait Factor: Pod + Send + Sync {
    /// Elements of the inner dimension in one factor.
    const DEPTH: usize;
    /// `true` for a pair of bf16, for which the CPU may have an instruction; see
    /// [`crate::bf16_is_fast`].
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    const IS_PAIR: bool;
    /// Sixteen factors, unpacked for [`Factor::fma`].
    type Vector<L: Lanes>: Copy;

    /// The factor of two elements; `second` is ignored if a factor has one.
    fn from_pair(first: f32, second: f32) -> Self;
    /// Loads sixteen factors.
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> Self::Vector<L>;
    /// Broadcasts one factor.
    fn splat<L: Lanes>(l: L, x: Self) -> Self::Vector<L>;
    /// `sum` plus the products of `a` and `b`.
    fn fma<L: Lanes>(l: L, a: Self::Vector<L>, b: Self::Vector<L>, sum: L::Floats) -> L::Floats;
}

impl Factor for f32 {
    const DEPTH: usize = 1;
    const IS_PAIR: bool = false;
    type Vector<L: Lanes> = L::Floats;

    #[inline(always)]
    fn from_pair(first: f32, _: f32) -> Self {
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
    fn fma<L: Lanes>(l: L, a: L::Floats, b: L::Floats, sum: L::Floats) -> L::Floats {
        l.fma(a, b, sum)
    }
}

/// Two values rounded to bf16, the first in the low half. Products here are computed by widening to
/// f32: the scalar specification of `vdpbf16ps`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Bf16Pair(u32);

impl Bf16Pair {
    /// The first value as f32.
    #[inline(always)]
    fn first(self) -> f32 {
        widen(self.0 as u16)
    }

    /// The second value as f32.
    #[inline(always)]
    fn second(self) -> f32 {
        f32::from_bits(self.0 & 0xffff_0000)
    }
}

impl Factor for Bf16Pair {
    const DEPTH: usize = 2;
    const IS_PAIR: bool = true;
    type Vector<L: Lanes> = [L::Floats; 2];

    #[inline(always)]
    fn from_pair(first: f32, second: f32) -> Self {
        Self(u32::from(narrow(first)) | u32::from(narrow(second)) << 16)
    }

    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> [L::Floats; 2] {
        [l.load(&x.map(Self::first)), l.load(&x.map(Self::second))]
    }

    #[inline(always)]
    fn splat<L: Lanes>(l: L, x: Self) -> [L::Floats; 2] {
        [l.splat(x.first()), l.splat(x.second())]
    }

    #[inline(always)]
    fn fma<L: Lanes>(l: L, a: [L::Floats; 2], b: [L::Floats; 2], sum: L::Floats) -> L::Floats {
        l.fma(a[1], b[1], l.fma(a[0], b[0], sum))
    }
}

/// Pairs of lhs and rhs panels, one for each range of the inner dimension.
pub(super) type Panels<'a, E> = [(&'a [E], &'a [E])];

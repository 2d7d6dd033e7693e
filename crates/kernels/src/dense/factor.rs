//! What lies in tiles.

use super::WIDE;
use crate::bf16s::{narrow, widen};
use crate::dot::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes};
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

/// Two numbers rounded to bf16, the first in the low half. Multiplied here by widening them again: the specification of what
/// chips do at once.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Pair(u32);

impl Pair {
    #[inline(always)]
    fn first(self) -> f32 {
        widen(self.0 as u16)
    }

    #[inline(always)]
    fn second(self) -> f32 {
        f32::from_bits(self.0 & 0xffff_0000)
    }
}

impl Factor for Pair {
    const DEPTH: usize = 2;
    const PAIRS: bool = true;
    type Vector<L: Lanes> = [L::Floats; 2];

    #[inline(always)]
    fn of(first: f32, second: f32) -> Self {
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
    fn mul_add<L: Lanes>(l: L, a: [L::Floats; 2], b: [L::Floats; 2], sum: L::Floats) -> L::Floats {
        l.mul_add(a[1], b[1], l.mul_add(a[0], b[0], sum))
    }
}

/// Steps of a panel, `[steps][WIDE]`, from column `column` on, of `[DEPTH * steps][N]` numbers.
pub(crate) fn join<E: Factor, const N: usize>(isa: Isa, rows: &[[f32; N]], column: usize, out: &mut [E]) {
    #[cfg(target_arch = "x86_64")]
    if E::PAIRS && isa.multiplies_bf16() {
        // SAFETY: an `Isa` says so only of instructions that were found on this machine.
        return unsafe { super::avx512_bf16::join(rows, column, bytemuck::cast_slice_mut(out)) };
    }
    join_on_any(isa, rows, column, out);
}

on_lanes! {
    fn join_on_any<L>[E: Factor, const N: usize][E, N](_l; rows: &[[f32; N]], column: usize, out: &mut [E]) {
        for (rows, out) in rows.chunks_exact(E::DEPTH).zip(out.as_chunks_mut::<WIDE>().0) {
            let (first, second) = (&rows[0], &rows[E::DEPTH - 1]);
            for (c, out) in out[column..column + N].iter_mut().enumerate() {
                *out = E::of(first[c], second[c]);
            }
        }
    }
}

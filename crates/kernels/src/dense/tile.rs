//! The sums of one tile.

use super::factor::Factor;
use super::target::Place;
use super::{TALL, WIDE};
use crate::dot::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes};

/// Pieces of the common dimension: a tall tile and the wide one that it meets.
pub(super) type Parts<'a, E> = [(&'a [E], &'a [E])];

on_lanes! {
    fn on_any<L>[E: Factor][E](l; parts: &Parts<E>, place: &Place) {
        // SAFETY: the word of who calls `tile`.
        unsafe {
            if L::REGISTERS < 32 {
                for half in 0..2 {
                    part::<L, E, { TALL / 2 }, 1>(l, parts, half * TALL / 2, 0, place);
                    if place.width() > WIDTH {
                        part::<L, E, { TALL / 2 }, 1>(l, parts, half * TALL / 2, 1, place);
                    }
                }
            } else if place.width() > WIDTH {
                part::<L, E, TALL, 2>(l, parts, 0, 0, place);
            } else {
                part::<L, E, TALL, 1>(l, parts, 0, 0, place);
            }
        }
    }
}

/// The sums of `R` rows by `C` vectors of a tile, from row `row` and vector `col` on.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn part<L: Lanes, E: Factor, const R: usize, const C: usize>(
    l: L,
    parts: &Parts<E>,
    row: usize,
    col: usize,
    place: &Place,
) {
    let mut sums = [[l.splat(0.0); C]; R];
    for (tall, wide) in parts {
        add_products(l, tall.as_chunks().0, wide.as_chunks().0, row, col, &mut sums);
    }
    for (r, sums) in sums.iter().enumerate() {
        for (c, sum) in sums.iter().enumerate() {
            // SAFETY: the caller's word.
            unsafe { place.write(l, row + r, col + c, *sum) };
        }
    }
}

/// Adds `tall[k][row + r] * wide[k][col * 16 + ..]` to `sums[r][c]`, one `k` after the other.
#[inline(always)]
pub(crate) fn add_products<L: Lanes, E: Factor, const R: usize, const C: usize>(
    l: L,
    tall: &[[E; TALL]],
    wide: &[[E; WIDE]],
    row: usize,
    col: usize,
    sums: &mut [[L::Floats; C]; R],
) {
    for (tall, wide) in tall.iter().zip(wide) {
        let vectors = wide.as_chunks::<WIDTH>().0;
        let right: [_; C] = std::array::from_fn(|c| E::load(l, &vectors[col + c]));
        for r in 0..R {
            let left = E::splat(l, tall[row + r]);
            for c in 0..C {
                sums[r][c] = E::mul_add(l, left, right[c], sums[r][c]);
            }
        }
    }
}

/// Writes a tile: the sum over all parts and over `k` of `tall[k][r] * wide[k][c]`.
///
/// # Safety
/// No other part of the target that is in use may overlap the tile.
pub(super) unsafe fn tile<E: Factor>(isa: Isa, parts: &Parts<E>, place: &Place) {
    #[cfg(target_arch = "x86_64")]
    if E::PAIRS && isa.multiplies_bf16() {
        // SAFETY: an `Isa` says so only of instructions that were found on this machine; and the caller's word.
        return unsafe { super::avx512_bf16::tile(parts, place) };
    }
    on_any(isa, parts, place);
}

//! The microkernel: computes one output tile.

use super::factor::{Factor, Panels};
use super::output::OutputTile;
use super::{MR, NR};
use crate::isa::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes, operands, prefetch_l1};
use crate::scratch::LINE;

/// Prefetch distance of the lhs in bytes. For the first rhs panel the lhs comes from L3, and the
/// hardware prefetcher stops at the end of each page.
const LHS_PREFETCH_BYTES: usize = 4096;
/// Prefetch distance of the rhs in bytes. The rhs comes from L2.
const RHS_PREFETCH_BYTES: usize = 1024;

on_lanes! {
    /// [`microkernel`] on any instruction set.
    fn on_any<L>[E: Factor][E](l; panels: &Panels<E>, tile: &OutputTile) {
        // SAFETY: guaranteed by the caller of `microkernel`.
        unsafe {
            if L::REGISTERS < 32 {
                for half in 0..2 {
                    accumulate::<L, E, { MR / 2 }, 1>(l, panels, half * MR / 2, 0, tile);
                    if tile.width() > WIDTH {
                        accumulate::<L, E, { MR / 2 }, 1>(l, panels, half * MR / 2, 1, tile);
                    }
                }
            } else if tile.width() > WIDTH {
                accumulate::<L, E, MR, 2>(l, panels, 0, 0, tile);
            } else {
                accumulate::<L, E, MR, 1>(l, panels, 0, 0, tile);
            }
        }
    }
}

/// Computes `R` rows by `C` vectors of a tile, starting at row `row` and vector `col`.
///
/// # Safety
/// See [`microkernel`].
#[inline(always)]
unsafe fn accumulate<L: Lanes, E: Factor, const R: usize, const C: usize>(
    l: L,
    panels: &Panels<E>,
    row: usize,
    col: usize,
    tile: &OutputTile,
) {
    let mut sums = [[l.splat(0.0); C]; R];
    for (lhs, rhs) in panels {
        // Each pair of panels has its own sums: on AVX2, sums carried through both loops are
        // spilled.
        let products = products::<L, E, R, C>(l, lhs.as_chunks().0, rhs.as_chunks().0, row, col);
        for r in 0..R {
            for c in 0..C {
                sums[r][c] = l.add(sums[r][c], products[r][c]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (c, sum) in sums.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { tile.write(l, row + r, col + c, *sum) };
        }
    }
}

/// Sums of `lhs[k][row + r] * rhs[k][col * 16 + ..]`, in order of `k`, for each `r` and vector.
#[inline(always)]
fn products<L: Lanes, E: Factor, const R: usize, const C: usize>(
    l: L,
    lhs: &[[E; MR]],
    rhs: &[[E; NR]],
    row: usize,
    col: usize,
) -> [[L::Floats; C]; R] {
    let mut sums = [[l.splat(0.0); C]; R];
    for (lhs, rhs) in lhs.iter().zip(rhs) {
        let vectors = rhs.as_chunks::<WIDTH>().0;
        let right: [_; C] = std::array::from_fn(|c| E::load(l, &vectors[col + c]));
        // Narrow kernels have too few products per prefetch.
        if C > 1 {
            prefetch_l1(lhs.as_ptr().wrapping_byte_add(LHS_PREFETCH_BYTES));
            for line in 0..size_of_val(rhs) / LINE {
                prefetch_l1(rhs.as_ptr().wrapping_byte_add(RHS_PREFETCH_BYTES + LINE * line));
            }
        }
        // Pairs are unpacked before they are broadcast, so they cannot be memory operands.
        let lhs: [_; C] = if E::IS_PAIR { [lhs; C] } else { operands(l, lhs) };
        for r in 0..R {
            for c in 0..C {
                let left = E::splat(l, lhs[c][row + r]);
                sums[r][c] = E::fma(l, left, right[c], sums[r][c]);
            }
        }
    }
    sums
}

/// Computes and writes an output tile: the sum over all pairs of panels and over `k` of
/// `lhs[k][r] * rhs[k][c]`.
///
/// # Safety
/// No other live reference to the target may overlap the tile.
pub(super) unsafe fn microkernel<E: Factor>(isa: Isa, panels: &Panels<E>, tile: &OutputTile) {
    #[cfg(target_arch = "x86_64")]
    if let (true, Some(token)) = (E::IS_PAIR, isa.bf16()) {
        // SAFETY: guaranteed by the caller.
        return unsafe { super::avx512_bf16::microkernel(token, panels, tile) };
    }
    on_any(isa, panels, tile);
}

//! Interleaves rows into the columns of a panel.

use super::NR;
use super::factor::Factor;
use crate::isa::Isa;
use crate::lanes::on_lanes;

/// Packs `[DEPTH * steps][N]` elements into columns `column..column + N` of a panel `[steps][NR]`.
pub(crate) fn interleave<E: Factor, const N: usize>(isa: Isa, rows: &[[f32; N]], column: usize, out: &mut [E]) {
    #[cfg(target_arch = "x86_64")]
    if let (true, Some(token)) = (E::IS_PAIR, isa.bf16()) {
        return super::avx512_bf16::interleave(token, rows, column, bytemuck::cast_slice_mut(out));
    }
    interleave_on_any(isa, rows, column, out);
}

on_lanes! {
    /// [`interleave`] on any instruction set.
    fn interleave_on_any<L>[E: Factor, const N: usize][E, N](_l; rows: &[[f32; N]], column: usize, out: &mut [E]) {
        for (rows, out) in rows.chunks_exact(E::DEPTH).zip(out.as_chunks_mut::<NR>().0) {
            let (first, second) = (&rows[0], &rows[E::DEPTH - 1]);
            for (c, out) in out[column..column + N].iter_mut().enumerate() {
                *out = E::from_pair(first[c], second[c]);
            }
        }
    }
}

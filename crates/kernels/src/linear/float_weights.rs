//! Products of unquantised weights (F16, BF16, F32) with activations in f32.
//!
//! A few tokens use dot products with the rows as stored ([`super::f32_dot`]), more use a GEMM over
//! packed panels ([`super::f32_gemm`]). Both give the same bits.

use super::FEW;
use super::f32_dot::{Rows, products};
use super::f32_gemm::{self, Panel, Tokens};
use crate::blocks::{Bf16, F32, Fp16, Quant};
use crate::gemm::{MR, NR};
use crate::gemv::Element;
use crate::isa::Isa;
use crate::matrix::Matrix;
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::shape::ShapeError;
use std::ops::Range;

/// Rows of activations, and their lhs tiles if there are more than [`FEW`].
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub rows: &'a [f32],
    pub tiles: Option<&'a Tokens>,
}

/// Products of rows of an unquantised weight with tokens:
/// `sink(token, row, up to sixteen results)`.
pub(super) fn product(
    isa: Isa,
    matrix: &Matrix,
    rows: Range<usize>,
    x: Input,
    tokens: Range<usize>,
    sink: impl FnMut(usize, usize, &[f32]),
) -> Result<(), ShapeError> {
    match matrix.quant() {
        Quant::F32 => product_of::<F32>(isa, matrix, rows, x, tokens, sink),
        Quant::F16 => product_of::<Fp16>(isa, matrix, rows, x, tokens, sink),
        Quant::BF16 => product_of::<Bf16>(isa, matrix, rows, x, tokens, sink),
        quant => return Err(ShapeError::Layout { quant }),
    }
    Ok(())
}

fn product_of<E: Element>(
    isa: Isa,
    matrix: &Matrix,
    rows: Range<usize>,
    x: Input,
    tokens: Range<usize>,
    mut sink: impl FnMut(usize, usize, &[f32]),
) {
    let cols = matrix.cols();
    let stored = |rows: Range<usize>| bytemuck::cast_slice::<u8, E>(matrix.plain_rows(rows));
    if let Some(tiles) = x.tiles.filter(|_| tokens.len() > FEW && cols > 0) {
        return many(isa, rows, cols, stored, tiles, tokens, sink);
    }
    let x = Rows::packed(&x.rows[tokens.start * cols..tokens.end * cols], tokens.len(), cols);
    for first in rows.clone().step_by(ROWS) {
        let strip = first..rows.end.min(first + ROWS);
        let weights = Rows::packed(stored(strip.clone()), strip.len(), cols);
        products(isa, weights, x, &mut |token, results| {
            sink(tokens.start + token, first, results)
        });
    }
}

fn many<'a, E: Element + 'a>(
    isa: Isa,
    rows: Range<usize>,
    cols: usize,
    stored: impl Fn(Range<usize>) -> &'a [E],
    x: &Tokens,
    tokens: Range<usize>,
    mut sink: impl FnMut(usize, usize, &[f32]),
) {
    let tiles = tokens.start / MR..tokens.end.div_ceil(MR);
    let mut panel = Panel::new(cols);
    let mut out = Scratch::<f32>::new(tiles.len() * MR * NR);
    for first in rows.clone().step_by(NR) {
        let strips = first..rows.end.min(first + NR);
        panel.fill(isa, stored(strips.clone()), cols);
        f32_gemm::product(isa, x, tiles.clone(), &mut panel, strips.len(), &mut out);
        let out = out.as_chunks::<NR>().0.iter().skip(tokens.start % MR);
        for (token, out) in tokens.clone().zip(out) {
            for row in strips.clone().step_by(ROWS) {
                sink(token, row, &out[row - first..][..ROWS.min(strips.end - row)]);
            }
        }
    }
}

//! Products of weights of 16 or 32 bits with activations in f32.

use super::FEW;
use super::dot_block::{Tokens, products};
use crate::blocks::{Bf16, F32, Fp16, Quant};
use crate::dot::Isa;
use crate::matrix::Matrix;
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::shape::ShapeError;
use std::ops::Range;

/// The products of rows of a weight of floats with tokens, of which `x` holds all: `sink(token, row, up to sixteen results)`.
///
/// Few tokens read the rows where the file has them; for many, numbers of 16 bits are expanded once. Both give the same bits.
pub(super) fn product(
    isa: Isa,
    matrix: &Matrix,
    rows: Range<usize>,
    x: &[f32],
    tokens: Range<usize>,
    mut sink: impl FnMut(usize, usize, &[f32]),
) -> Result<(), ShapeError> {
    let cols = matrix.cols();
    let x = Tokens {
        floats: &x[tokens.start * cols..tokens.end * cols],
        count: tokens.len(),
        cols,
    };
    let expands = tokens.len() > FEW && matrix.quant() != Quant::F32;
    let mut expanded = Scratch::<f32>::new(if expands { ROWS * cols } else { 0 });
    for first in rows.clone().step_by(ROWS) {
        let count = ROWS.min(rows.end - first);
        let bytes = matrix.plain_rows(first..first + count);
        let sink = &mut |token: usize, results: &[f32]| sink(tokens.start + token, first, results);
        match matrix.quant() {
            Quant::F32 => products::<F32>(isa, bytemuck::cast_slice(bytes), count, x, sink),
            Quant::F16 if !expands => products::<Fp16>(isa, bytemuck::cast_slice(bytes), count, x, sink),
            Quant::BF16 if !expands => products::<Bf16>(isa, bytemuck::cast_slice(bytes), count, x, sink),
            quant => {
                let expanded = &mut expanded[..count * cols];
                quant.dequantize_row_on(isa, bytes, expanded)?;
                products::<f32>(isa, expanded, count, x, sink);
            }
        }
    }
    Ok(())
}

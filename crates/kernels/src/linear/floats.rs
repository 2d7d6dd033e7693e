//! Products of weights of 16 or 32 bits with activations in f32.

use super::FEW;
use super::dot_block::{Rows, products};
use crate::blocks::{Bf16, F32, Fp16, Quant};
use crate::dot::Isa;
use crate::lanes::WIDTH;
use crate::matrix::Matrix;
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::shape::ShapeError;
use crate::team;
use std::ops::Range;

/// Rows of floats, filled up with zeros to whole vectors. They begin a cache line more than that apart: rows a power of two apart would
/// evict each other from the cache.
pub(super) struct Padded {
    floats: Scratch<f32>,
    length: usize,
    stride: usize,
}

impl Padded {
    /// `count` rows of `cols` floats that hold anything, and zeros behind each.
    fn new(count: usize, cols: usize) -> Self {
        let length = cols.next_multiple_of(WIDTH);
        let stride = length + WIDTH;
        let mut floats = Scratch::new(count * stride);
        floats.chunks_exact_mut(stride).for_each(|row| row[cols..].fill(0.0));
        Self { floats, length, stride }
    }

    /// A copy of rows of `cols` floats.
    pub fn of(x: &[f32], cols: usize) -> Self {
        let mut rows = Self::new(x.len() / cols.max(1), cols);
        let (a_chunk, stride) = (crate::norm::rows_a_chunk(cols), rows.stride);
        team::run_over(&mut rows.floats, a_chunk * stride, &|chunk, out| {
            let x = x[chunk * a_chunk * cols..].chunks_exact(cols.max(1));
            for (x, out) in x.zip(out.chunks_exact_mut(stride)) {
                out[..cols].copy_from_slice(x);
            }
        });
        rows
    }

    fn rows(&self, rows: Range<usize>) -> Rows<'_, f32> {
        Rows {
            numbers: &self.floats[rows.start * self.stride..rows.end * self.stride],
            count: rows.len(),
            length: self.length,
            stride: self.stride,
        }
    }
}

/// The products of rows of a weight of floats with tokens: `sink(token, row, up to sixteen results)`.
///
/// Few tokens read the rows where the file has them. For many there is a padded copy of the input `x`, and rows are expanded once. Both give
/// the same bits.
pub(super) fn product(
    isa: Isa,
    matrix: &Matrix,
    rows: Range<usize>,
    x: &[f32],
    padded: Option<&Padded>,
    tokens: Range<usize>,
    mut sink: impl FnMut(usize, usize, &[f32]),
) -> Result<(), ShapeError> {
    let cols = matrix.cols();
    let padded = padded.filter(|_| tokens.len() > FEW);
    let mut expanded = Padded::new(if padded.is_some() { ROWS } else { 0 }, cols);
    for first in rows.clone().step_by(ROWS) {
        let count = ROWS.min(rows.end - first);
        let sink = &mut |token: usize, results: &[f32]| sink(tokens.start + token, first, results);
        let Some(padded) = padded else {
            let x = Rows::packed(&x[tokens.start * cols..tokens.end * cols], tokens.len(), cols);
            let bytes = matrix.plain_rows(first..first + count);
            stored(isa, matrix.quant(), bytes, count, x, sink)?;
            continue;
        };
        let strip = expanded.floats.chunks_exact_mut(expanded.stride);
        for (row, out) in strip.enumerate().take(count) {
            matrix.dequantize_row(first + row, &mut out[..cols])?;
        }
        products(isa, expanded.rows(0..count), padded.rows(tokens.clone()), sink);
    }
    Ok(())
}

/// The products of `count` rows as a file has them with tokens.
fn stored(
    isa: Isa,
    quant: Quant,
    bytes: &[u8],
    count: usize,
    x: Rows<f32>,
    sink: &mut dyn FnMut(usize, &[f32]),
) -> Result<(), ShapeError> {
    match quant {
        Quant::F32 => products(
            isa,
            Rows::<F32>::packed(bytemuck::cast_slice(bytes), count, x.length),
            x,
            sink,
        ),
        Quant::F16 => products(
            isa,
            Rows::<Fp16>::packed(bytemuck::cast_slice(bytes), count, x.length),
            x,
            sink,
        ),
        Quant::BF16 => products(
            isa,
            Rows::<Bf16>::packed(bytemuck::cast_slice(bytes), count, x.length),
            x,
            sink,
        ),
        quant => return Err(ShapeError::Layout { quant }),
    }
    Ok(())
}

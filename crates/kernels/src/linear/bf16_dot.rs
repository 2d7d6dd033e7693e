//! Dot products of 16-bit weights with activations in bf16, on CPUs with AVX512_BF16.
//!
//! Both factors are rows of bf16 pairs. The lanes of a vector are added at the end, in the same
//! order for any number of tokens. This needs no transposition, which for a few tokens is most of
//! the cost of packing a weight into panels.

#[cfg(target_arch = "x86_64")]
mod avx512_bf16;

use crate::bf16_slices::{narrow_all, widen};
use crate::blocks::Quant;
use crate::isa::Isa;
use crate::lanes::WIDTH;
use crate::matrix::Matrix;
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};
use crate::team;
use std::ops::Range;

/// Rows are padded with zeros to a multiple of this many elements.
const STEP: usize = 2 * WIDTH;

/// Up to this many tokens are multiplied with stored rows, four tokens at a time: converting rows
/// in advance costs more than reading them twice.
#[cfg(target_arch = "x86_64")]
const STORED_TOKENS: usize = 8;

/// Returns `true` if products with weights of this format use bf16 for both factors.
pub(crate) fn takes_bf16(quant: Quant) -> bool {
    matches!(quant, Quant::F16 | Quant::BF16) && crate::bf16_is_fast()
}

/// Rows rounded to bf16, padded to whole vectors.
pub(crate) struct Bf16Rows {
    /// Pairs of neighbors, the first in the lower half.
    pairs: Scratch<u32>,
    /// Pairs in a row.
    length: usize,
    /// Row stride in pairs: one cache line more, because rows a power of two apart would evict each
    /// other from the cache.
    stride: usize,
}

impl Bf16Rows {
    /// Pairs in a row of `cols` elements.
    fn length(cols: usize) -> usize {
        cols.div_ceil(STEP) * WIDTH
    }

    /// `count` uninitialized rows of `cols` elements.
    fn new(count: usize, cols: usize) -> Self {
        let length = Self::length(cols);
        let stride = length + WIDTH;
        Self {
            pairs: Scratch::new(count * stride),
            length,
            stride,
        }
    }

    /// Rounds the rows of `x`.
    pub fn from_f32(x: &[f32], cols: usize) -> Self {
        let mut rows = Self::new(x.len() / cols.max(1), cols);
        let chunk_rows = crate::norm::rows_per_work_chunk(cols);
        let stride = rows.stride;
        team::run_over(&mut rows.pairs, (chunk_rows * stride).max(1), &|work_chunk, out| {
            let x = x[work_chunk * chunk_rows * cols..].chunks_exact(cols);
            for (x, out) in x.zip(out.chunks_exact_mut(stride)) {
                round(Isa::best(), x, bytemuck::cast_slice_mut(out));
            }
        });
        rows
    }

    /// The pairs of a row.
    fn row(&self, row: usize) -> &[u32] {
        &self.pairs[row * self.stride..][..self.length]
    }
}

/// Rounds a row to bf16, padded with zeros.
fn round(isa: Isa, x: &[f32], out: &mut [u16]) {
    let (row, rest) = out.split_at_mut(x.len());
    narrow_all(isa, x, row);
    rest.fill(0);
}

/// Products of unpacked rows of a 16-bit weight with tokens. Calls
/// `sink(token, row, up to sixteen results)`.
pub(super) fn product(
    isa: Isa,
    matrix: &Matrix,
    rows: Range<usize>,
    x: &Bf16Rows,
    tokens: Range<usize>,
    mut sink: impl FnMut(usize, usize, &[f32]),
) -> Result<(), ShapeError> {
    shape::length(
        "a row of activations in bf16",
        x.length,
        Some(Bf16Rows::length(matrix.cols())),
    )?;
    #[cfg(target_arch = "x86_64")]
    if let Some(bf16) = isa.bf16().filter(|_| tokens.len() <= STORED_TOKENS) {
        for first in rows.clone().step_by(ROWS) {
            let count = ROWS.min(rows.end - first);
            let bytes = matrix.plain_rows(first..first + count);
            let mut sink = |token: usize, results: &[f32]| sink(token, first, results);
            match matrix.quant() {
                Quant::F16 => bf16.f16_strip(bytes, count, x, tokens.clone(), &mut sink),
                _ => bf16.bf16_strip(bytes, count, x, tokens.clone(), &mut sink),
            }
        }
        return Ok(());
    }
    let mut weights = Bf16Rows::new(ROWS, matrix.cols());
    let (length, stride) = (weights.length, weights.stride);
    for first in rows.clone().step_by(ROWS) {
        let count = ROWS.min(rows.end - first);
        for (row, out) in weights.pairs.chunks_exact_mut(stride).enumerate().take(count) {
            let bytes = matrix.plain_rows(first + row..first + row + 1);
            expand(isa, matrix.quant(), bytes, bytemuck::cast_slice_mut(&mut out[..length]))?;
        }
        let mut sink = |token: usize, results: &[f32]| sink(token, first, results);
        #[cfg(target_arch = "x86_64")]
        if let Some(bf16) = isa.bf16() {
            bf16.strip(&weights, count, x, tokens.clone(), &mut sink);
            continue;
        }
        strip(&weights, count, x, tokens.clone(), &mut sink);
    }
    Ok(())
}

/// Converts a stored row to bf16, padded with zeros to whole vectors.
fn expand(isa: Isa, quant: Quant, bytes: &[u8], out: &mut [u16]) -> Result<(), ShapeError> {
    #[cfg(target_arch = "x86_64")]
    if let (Quant::F16, Some(bf16)) = (quant, isa.bf16()) {
        bf16.round_halves(bytes, out);
        return Ok(());
    }
    if quant == Quant::BF16 {
        let (row, rest) = bytemuck::cast_slice_mut(out).split_at_mut(bytes.len());
        row.copy_from_slice(bytes);
        rest.fill(0);
        if cfg!(target_endian = "big") {
            out.iter_mut().for_each(|x| *x = u16::from_le(*x));
        }
        return Ok(());
    }
    let mut floats = vec![0.0; bytes.len() / size_of::<u16>()];
    quant.dequantize_row_on(isa, bytes, &mut floats)?;
    round(isa, &floats, out);
    Ok(())
}

/// Scalar specification of the products of `count` rows with tokens.
fn strip(weights: &Bf16Rows, count: usize, x: &Bf16Rows, tokens: Range<usize>, sink: &mut dyn FnMut(usize, &[f32])) {
    for token in tokens {
        let mut results = [0.0; ROWS];
        for (row, result) in results.iter_mut().enumerate().take(count) {
            let elements = |pairs| bytemuck::cast_slice::<u32, u16>(pairs).iter().copied().map(widen);
            *result = elements(weights.row(row))
                .zip(elements(x.row(token)))
                .map(|(w, x)| w * x)
                .sum();
        }
        sink(token, &results[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use crate::reference::noise;

    #[test]
    fn f16_rounds_alike_on_every_isa() {
        let every_f16: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        // All f16, and a row that ends within a vector.
        for bytes in [&every_f16[..], &every_f16[2 * 0x3c00..][..2 * 45]] {
            let rounded = |isa| {
                let mut out = vec![1; (bytes.len() / 2).next_multiple_of(STEP)];
                expand(isa, Quant::F16, bytes, &mut out).unwrap();
                // NaN payloads depend on the CPU.
                out.into_iter()
                    .map(|x| if widen(x).is_nan() { u16::MAX } else { x })
                    .collect::<Vec<_>>()
            };
            for isa in Isa::available() {
                assert!(rounded(isa) == rounded(Isa::available()[0]), "{isa:?}");
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_the_batch() {
        let (rows, tokens) = (35, 13);
        for (quant, cols) in [
            (Quant::F16, 96),
            (Quant::F16, 45),
            (Quant::BF16, 576),
            (Quant::BF16, 33),
        ] {
            let mut bytes = vec![0; rows * cols * 2];
            quant.quantize_row(&noise(1, rows * cols), &mut bytes).unwrap();
            let matrix = Matrix::new(quant, Layout::Plain, rows, cols, &bytes).unwrap();
            let x = Bf16Rows::from_f32(&noise(2, tokens * cols), cols);
            for isa in Isa::available() {
                let results = |tokens: Range<usize>| {
                    let mut y = vec![f32::NAN; tokens.len() * rows];
                    product(isa, &matrix, 0..rows, &x, tokens.clone(), |token, row, results| {
                        y[(token - tokens.start) * rows + row..][..results.len()].copy_from_slice(results);
                    })
                    .unwrap();
                    y
                };
                let expected = results(0..tokens);
                for at_once in 1..tokens {
                    let first = (0..tokens).step_by(at_once);
                    let actual: Vec<f32> = first
                        .flat_map(|first| results(first..tokens.min(first + at_once)))
                        .collect();
                    assert_eq!(
                        actual, expected,
                        "{isa:?}, {quant}, {cols} columns, {at_once} tokens at once"
                    );
                }
            }
        }
    }

    #[test]
    fn products_are_alike_on_every_isa() {
        let sizes = [(1, 1, 1), (3, 45, 5), (16, 64, 6), (35, 96, 13)];
        for ((rows, cols, tokens), quant) in sizes
            .into_iter()
            .flat_map(|size| [(size, Quant::F16), (size, Quant::BF16)])
        {
            let mut bytes = vec![0; rows * cols * 2];
            quant.quantize_row(&noise(1, rows * cols), &mut bytes).unwrap();
            let matrix = Matrix::new(quant, Layout::Plain, rows, cols, &bytes).unwrap();
            let x = Bf16Rows::from_f32(&noise(2, tokens * cols), cols);
            let results = |isa| {
                let mut y = vec![f32::NAN; tokens * rows];
                product(isa, &matrix, 0..rows, &x, 0..tokens, |token, row, results| {
                    y[token * rows + row..][..results.len()].copy_from_slice(results);
                })
                .unwrap();
                y
            };
            let expected = results(Isa::available()[0]);
            for isa in Isa::available() {
                let is_near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
                let actual = results(isa);
                assert!(
                    actual.iter().zip(&expected).all(is_near),
                    "{isa:?}, {rows} x {cols}, {tokens} tokens"
                );
            }
        }
    }
}

//! Tall-skinny products, `left^T right` with few columns in `left`, without packing `right`.
//!
//! Used for the gradients of adapters: `rank` rows by the columns of the activations, summed over
//! all tokens. Packing the activations would cost as much as the product.

use super::View;
use crate::isa::Isa;
use crate::lanes::{WIDTH, on_lanes, prefetch};
use crate::team;

/// Rows of a strip: 8 * 2 accumulators stay in registers.
const ROWS: usize = 8;
/// Columns of a work chunk.
const COLUMNS: usize = 2 * WIDTH;
/// Tokens that all strips process before the next tokens: few enough for their columns to stay in
/// L1.
const TOKENS: usize = 64;

/// Elements of a token in a strip of the lhs.
type StripElements = [f32; ROWS];
/// Sums of a strip and a work chunk.
type Sums = [[f32; COLUMNS]; ROWS];

/// Layout of the gradient of an adapter's matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Orientation {
    /// `[rank, cols]`: the layout of `a`'s gradient.
    Rows,
    /// `[cols, rank]`: the layout of `b`'s gradient.
    Columns,
}

on_lanes! {
    /// Adds the sum over `k` of `left[k][r] * right[k * stride + c]` to `out[r][c]`.
    fn strip<L>(l; left: &[StripElements], right: &[f32], stride: usize, out: &mut Sums) {
        const VECTORS: usize = COLUMNS / WIDTH;
        let mut sums: [[L::Floats; VECTORS]; ROWS] =
            std::array::from_fn(|r| std::array::from_fn(|c| l.load(&out[r].as_chunks().0[c])));
        for (k, left) in left.iter().enumerate() {
            let vectors = right[k * stride..][..COLUMNS].as_chunks::<WIDTH>().0;
            // Strided rows defeat the hardware prefetcher.
            vectors.iter().for_each(|vector| prefetch(vector, TOKENS * stride));
            let vectors: [_; VECTORS] = std::array::from_fn(|c| l.load(&vectors[c]));
            for r in 0..ROWS {
                let left = l.splat(left[r]);
                for c in 0..VECTORS {
                    sums[r][c] = l.fma(left, vectors[c], sums[r][c]);
                }
            }
        }
        for (sums, out) in sums.iter().zip(out) {
            for (sum, out) in sums.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
                l.store(*sum, out);
            }
        }
    }
}

/// `scale * left^T right` of `left [T, rank]` and `right [T, cols]`.
pub(crate) fn tall_skinny(left: View, right: View, scale: f32, orientation: Orientation) -> Vec<f32> {
    let (rank, cols, tokens) = (left.cols(), right.cols(), left.rows().min(right.rows()));
    let mut strips: Vec<Vec<StripElements>> = vec![vec![[0.0; ROWS]; tokens]; rank.div_ceil(ROWS)];
    for (index, strip) in strips.iter_mut().enumerate() {
        let rows = index * ROWS..rank.min((index + 1) * ROWS);
        for (token, elements) in strip.iter_mut().enumerate() {
            for (row, x) in rows.clone().zip(elements) {
                *x = scale * left.at(token, row);
            }
        }
    }
    let mut out = vec![0.0; rank * cols];
    let isa = Isa::best();
    let target = team::Scattered::new(&mut out);
    team::run(cols.div_ceil(COLUMNS), &|work_chunk| {
        let first = work_chunk * COLUMNS;
        let count = COLUMNS.min(cols - first);
        // Copies strided columns, and the last columns, so that no vector exceeds the matrix.
        let mut copied = Vec::new();
        let (data, stride) = match right.rows_from(first) {
            Some(rows) if count == COLUMNS => rows,
            _ => {
                copied.resize(tokens * COLUMNS, 0.0);
                for (token, row) in copied.chunks_exact_mut(COLUMNS).enumerate() {
                    (0..count).for_each(|c| row[c] = right.at(token, first + c));
                }
                (&copied[..], COLUMNS)
            }
        };
        let mut sums = vec![[[0.0; COLUMNS]; ROWS]; strips.len()];
        for start in (0..tokens).step_by(TOKENS) {
            for (strip, sums) in strips.iter().zip(&mut sums) {
                let left = &strip[start..tokens.min(start + TOKENS)];
                self::strip(isa, left, &data[start * stride..], stride, sums);
            }
        }
        let row = |row: usize| &sums[row / ROWS][row % ROWS][..count];
        match orientation {
            Orientation::Rows => (0..rank).for_each(|r| {
                // SAFETY: each column belongs to one work chunk.
                unsafe { target.slice(r * cols + first, count) }.copy_from_slice(row(r));
            }),
            Orientation::Columns => {
                // SAFETY: as above.
                let columns = unsafe { target.slice(first * rank, count * rank) };
                for (c, column) in columns.chunks_exact_mut(rank).enumerate() {
                    column.iter_mut().enumerate().for_each(|(r, x)| *x = row(r)[c]);
                }
            }
        }
    });
    out
}

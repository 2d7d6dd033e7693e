//! Thin products: a few rows against a matrix that is read where it lies.
//!
//! The gradients of adapters are of this kind: as many rows as the rank, one for each column of activations, summed over all
//! tokens. To pack the activations would cost as much as the product.

use super::View;
use crate::dot::Isa;
use crate::lanes::{WIDTH, fetch_ahead, on_lanes};
use crate::team;

/// Rows of a strip: 8 * 2 sums stay in registers.
const ROWS: usize = 8;
/// Columns of a chunk.
const COLUMNS: usize = 2 * WIDTH;
/// Tokens that all strips go through before the next ones: few enough for their columns to stay in the first cache.
const TOKENS: usize = 64;

/// Eight numbers of a token, and the sums of as many rows.
type Eight = [f32; ROWS];
type Sums = [[f32; COLUMNS]; ROWS];

/// How the gradient of an adapter's matrix lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// `[rank, cols]`: that of `a`.
    Rows,
    /// `[cols, rank]`: that of `b`.
    Columns,
}

on_lanes! {
    /// `sums[r][c]` grows by the sum over `k` of `left[k][r] * right[k * stride + c]`.
    fn strip<L>(l; left: &[Eight], right: &[f32], stride: usize, out: &mut Sums) {
        const VECTORS: usize = COLUMNS / WIDTH;
        let mut sums: [[L::Floats; VECTORS]; ROWS] =
            std::array::from_fn(|r| std::array::from_fn(|c| l.load(&out[r].as_chunks().0[c])));
        for (k, left) in left.iter().enumerate() {
            let vectors = right[k * stride..][..COLUMNS].as_chunks::<WIDTH>().0;
            // They lie too far apart for the processor to see them coming.
            vectors.iter().for_each(|vector| fetch_ahead(vector, TOKENS * stride));
            let vectors: [_; VECTORS] = std::array::from_fn(|c| l.load(&vectors[c]));
            for r in 0..ROWS {
                let left = l.splat(left[r]);
                for c in 0..VECTORS {
                    sums[r][c] = l.mul_add(left, vectors[c], sums[r][c]);
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
pub(crate) fn thin(left: View, right: View, scale: f32, side: Side) -> Vec<f32> {
    let (rank, cols, tokens) = (left.cols(), right.cols(), left.rows().min(right.rows()));
    let mut strips: Vec<Vec<Eight>> = vec![vec![[0.0; ROWS]; tokens]; rank.div_ceil(ROWS)];
    for (number, strip) in strips.iter_mut().enumerate() {
        let rows = number * ROWS..rank.min((number + 1) * ROWS);
        for (token, eight) in strip.iter_mut().enumerate() {
            for (row, x) in rows.clone().zip(eight) {
                *x = scale * left.at(token, row);
            }
        }
    }
    let mut out = vec![0.0; rank * cols];
    let isa = Isa::best();
    let to = team::Scattered::new(&mut out);
    team::run(cols.div_ceil(COLUMNS), &|chunk| {
        let first = chunk * COLUMNS;
        let count = COLUMNS.min(cols - first);
        // Columns that do not lie side by side are copied, and the last ones, so that no vector ends past the matrix.
        let mut copied = Vec::new();
        let (data, stride) = match right.rows_from(first) {
            Some(whole) if count == COLUMNS => whole,
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
        match side {
            Side::Rows => (0..rank).for_each(|r| {
                // SAFETY: each column is of one chunk.
                unsafe { to.slice(r * cols + first, count) }.copy_from_slice(row(r));
            }),
            Side::Columns => {
                // SAFETY: as above.
                let columns = unsafe { to.slice(first * rank, count * rank) };
                for (c, column) in columns.chunks_exact_mut(rank).enumerate() {
                    column.iter_mut().enumerate().for_each(|(r, x)| *x = row(r)[c]);
                }
            }
        }
    });
    out
}

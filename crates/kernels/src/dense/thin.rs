//! Thin products: a few rows against a matrix that is read where it lies.
//!
//! The gradients of adapters are of this kind: as many rows as the rank, one for each column of activations, summed over all
//! tokens. To pack the activations would cost as much as the product.

use super::View;
use crate::dot::Isa;
use crate::lanes::{WIDTH, on_lanes};
use crate::team;

/// Rows of a strip: 8 * 2 sums stay in registers.
const ROWS: usize = 8;
/// Columns of a chunk.
const COLUMNS: usize = 2 * WIDTH;

on_lanes! {
    /// `sums[r][c]` becomes the sum over `k` of `left[k][r] * right[k * stride + c]`, of `C` vectors of columns.
    fn strip<L>[const C: usize][C](l; left: &[[f32; ROWS]], right: &[f32], stride: usize, out: &mut [[f32; COLUMNS]; ROWS]) {
        let mut sums = [[l.splat(0.0); C]; ROWS];
        for (k, left) in left.iter().enumerate() {
            let vectors = right[k * stride..][..C * WIDTH].as_chunks::<WIDTH>().0;
            let vectors: [_; C] = std::array::from_fn(|c| l.load(&vectors[c]));
            for r in 0..ROWS {
                let left = l.splat(left[r]);
                for c in 0..C {
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

/// `scale * left^T right`, `[rank, cols]`, of `left [T, rank]` and `right [T, cols]`.
pub(crate) fn thin(left: View, right: View, scale: f32) -> Vec<f32> {
    let (rank, cols, tokens) = (left.cols(), right.cols(), left.rows().min(right.rows()));
    let strips: Vec<Vec<[f32; ROWS]>> = (0..rank.div_ceil(ROWS))
        .map(|strip| {
            let number = |token: usize, r: usize| match strip * ROWS + r {
                row if row < rank => scale * left.at(token, row),
                _ => 0.0,
            };
            (0..tokens)
                .map(|token| std::array::from_fn(|r| number(token, r)))
                .collect()
        })
        .collect();
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
        for (strip, left) in strips.iter().enumerate() {
            let mut sums = [[0.0; COLUMNS]; ROWS];
            self::strip::<2>(isa, left, data, stride, &mut sums);
            for (row, sums) in (strip * ROWS..rank).zip(&sums) {
                // SAFETY: each column is of one chunk.
                unsafe { to.slice(row * cols + first, count) }.copy_from_slice(&sums[..count]);
            }
        }
    });
    out
}

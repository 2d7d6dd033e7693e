//! Dot products of rows of weights with rows of activations in f32, register-blocked over both.
//! Used for weights that are not packed, and for an adapter's `a`.
//!
//! A dot product has sixteen partial sums: sum `i` takes the columns that are `i` modulo 16, in
//! order; at the end they are added in a fixed order. Register blocking does not change these
//! orders, so results do not depend on the batch.

use crate::gemv::Element;
use crate::lanes::{Lanes, WIDTH, on_lanes, prefetch};
use crate::packed::ROWS;

/// Prefetch distance in bytes for rows streamed from memory: a page, so that the TLB miss is hidden
/// too.
const PREFETCH_BYTES: usize = 4096;

/// Contiguous rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, E> {
    pub elements: &'a [E],
    /// Number of rows.
    pub count: usize,
    /// Elements in a row.
    pub length: usize,
}

impl<'a, E> Rows<'a, E> {
    /// `count` rows of `length` elements.
    pub fn packed(elements: &'a [E], count: usize, length: usize) -> Self {
        Self {
            elements,
            count,
            length,
        }
    }

    /// A row.
    #[inline(always)]
    fn row(&self, row: usize) -> &'a [E] {
        &self.elements[row * self.length..][..self.length]
    }
}

on_lanes! {
    /// Products of up to sixteen rows of a weight with tokens of the same length. Calls
    /// `sink(token, one result per row)`.
    pub(super) fn products<L>[E: Element][E](
        l; weights: Rows<E>, tokens: Rows<f32>, sink: &mut dyn FnMut(usize, &[f32])
    ) {
        let mut first = 0;
        while first < tokens.count {
            // As many accumulators as fit in registers.
            let remaining = tokens.count - first;
            first += match (L::REGISTERS >= 32, remaining) {
                (true, 6..) => rows_by_tokens::<L, E, 4, 6>(l, weights, tokens, first, sink),
                (true, 3..) => rows_by_tokens::<L, E, 4, 3>(l, weights, tokens, first, sink),
                (true, 2) => rows_by_tokens::<L, E, 4, 2>(l, weights, tokens, first, sink),
                (false, 3..) => rows_by_tokens::<L, E, 2, 3>(l, weights, tokens, first, sink),
                (false, 2) => rows_by_tokens::<L, E, 2, 2>(l, weights, tokens, first, sink),
                // Two rows: additions to a single sum wait for each other, which is slower than
                // streaming the weights from memory.
                _ => rows_by_tokens::<L, E, 2, 1>(l, weights, tokens, first, sink),
            };
        }
    }
}

/// Multiplies all rows of a weight with `T` tokens starting at `first`, `R` rows at a time. Returns
/// `T`.
#[inline(always)]
fn rows_by_tokens<L: Lanes, E: Element, const R: usize, const T: usize>(
    l: L,
    weights: Rows<E>,
    tokens: Rows<f32>,
    first: usize,
    sink: &mut dyn FnMut(usize, &[f32]),
) -> usize {
    let count = weights.count;
    const { assert!(ROWS == WIDTH && ROWS.is_multiple_of(R)) };
    let mut results = [[0.0; ROWS]; T];
    let mut vectors = [[l.splat(0.0); ROWS]; T];
    let x: [&[f32]; T] = std::array::from_fn(|t| tokens.row(first + t));
    for row in (0..count).step_by(R) {
        // Past the last row, repeat the last one.
        let rows: [&[E]; R] = std::array::from_fn(|r| weights.row((row + r).min(count - 1)));
        let sums = dot_tile::<L, E, R, T>(l, rows, x);
        for t in 0..T {
            // Repeated rows too: with a fixed count, the sums stay in registers.
            for r in 0..R {
                vectors[t][row + r] = sums[t][r];
            }
        }
    }
    for t in 0..T {
        results[t] = l.reduce_add_each(&vectors[t]);
    }
    for (token, results) in results.iter().enumerate() {
        sink(first + token, &results[..count]);
    }
    T
}

/// Partial sums of `R` rows with `T` tokens of the same length.
#[inline(always)]
fn dot_tile<L: Lanes, E: Element, const R: usize, const T: usize>(
    l: L,
    rows: [&[E]; R],
    x: [&[f32]; T],
) -> [[L::Floats; R]; T] {
    let mut sums = [[l.splat(0.0); R]; T];
    let steps = rows[0].len() / WIDTH;
    let whole_rows: [&[[E; WIDTH]]; R] = std::array::from_fn(|r| &rows[r].as_chunks().0[..steps]);
    let whole_x: [&[[f32; WIDTH]]; T] = std::array::from_fn(|t| &x[t].as_chunks().0[..steps]);
    for step in 0..steps {
        if T == 1 {
            for row in whole_rows {
                prefetch(&row[step], PREFETCH_BYTES / size_of::<E>());
            }
        }
        add(
            l,
            std::array::from_fn(|r| &whole_rows[r][step]),
            std::array::from_fn(|t| &whole_x[t][step]),
            &mut sums,
        );
    }
    let rest = steps * WIDTH..rows[0].len();
    if !rest.is_empty() {
        let (mut last_rows, mut last_x) = ([[E::zeroed(); WIDTH]; R], [[0.0; WIDTH]; T]);
        for r in 0..R {
            last_rows[r][..rest.len()].copy_from_slice(&rows[r][rest.clone()]);
        }
        for t in 0..T {
            last_x[t][..rest.len()].copy_from_slice(&x[t][rest.clone()]);
        }
        add(l, last_rows.each_ref(), last_x.each_ref(), &mut sums);
    }
    sums
}

/// Accumulates the products of sixteen columns.
#[inline(always)]
fn add<L: Lanes, E: Element, const R: usize, const T: usize>(
    l: L,
    rows: [&[E; WIDTH]; R],
    x: [&[f32; WIDTH]; T],
    sums: &mut [[L::Floats; R]; T],
) {
    let rows: [L::Floats; R] = std::array::from_fn(|r| E::load(l, rows[r]));
    for t in 0..T {
        let x = l.load(x[t]);
        for r in 0..R {
            sums[t][r] = l.fma(rows[r], x, sums[t][r]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Fp16;
    use crate::isa::Isa;
    use crate::reference::noise;

    /// All products, `[token][row]`.
    fn all_products(isa: Isa, weights: Rows<f32>, tokens: Rows<f32>) -> Vec<f32> {
        let count = weights.count;
        let mut actual = vec![f32::NAN; tokens.count * count];
        products(isa, weights, tokens, &mut |token, results| {
            actual[token * count..][..count].copy_from_slice(results);
        });
        actual
    }

    #[test]
    fn products_match_f64() {
        for isa in Isa::available() {
            for (rows, cols, count) in [(1, 1, 1), (3, 45, 5), (16, 64, 6), (15, 96, 13), (16, 576, 2)] {
                let (weights, x) = (noise(1, rows * cols), noise(2, count * cols));
                let (weights, tokens) = (Rows::packed(&weights, rows, cols), Rows::packed(&x, count, cols));
                for (i, actual) in all_products(isa, weights, tokens).into_iter().enumerate() {
                    let products = tokens.row(i / rows).iter().zip(weights.row(i % rows));
                    let expected: f64 = products.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                    assert!(
                        (f64::from(actual) - expected).abs() < 1e-4,
                        "{isa:?} {rows} {cols} {count}"
                    );
                }
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_the_batch() {
        for isa in Isa::available() {
            for (rows, cols) in [(16, 576), (7, 45), (4, 331)] {
                let (weights, x) = (noise(3, rows * cols), noise(4, 20 * cols));
                let weights = Rows::packed(&weights, rows, cols);
                let tokens = |first: usize, count: usize| Rows::packed(&x[first * cols..], count, cols);
                let expected: Vec<f32> = (0..20)
                    .flat_map(|token| all_products(isa, weights, tokens(token, 1)))
                    .collect();
                for count in 1..20 {
                    let actual = all_products(isa, weights, tokens(0, count));
                    assert_eq!(actual, expected[..count * rows], "{isa:?} {rows} {cols} {count}");
                }
            }
        }
    }

    #[test]
    fn f16_rows_match_widened_f32_rows() {
        let (weights, x) = (noise(5, 16 * 45), noise(6, 3 * 45));
        let tokens = Rows::packed(&x, 3, 45);
        let halves: Vec<Fp16> = weights.iter().map(|x| Fp16::from_f32(*x)).collect();
        let widened: Vec<f32> = halves.iter().map(|half| half.to_f32()).collect();
        for isa in Isa::available() {
            let mut actual = Vec::new();
            products(isa, Rows::packed(&halves, 16, 45), tokens, &mut |_, results| {
                actual.extend_from_slice(results)
            });
            assert_eq!(
                actual,
                all_products(isa, Rows::packed(&widened, 16, 45), tokens),
                "{isa:?}"
            );
        }
    }
}

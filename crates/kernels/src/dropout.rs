//! Stateless dropout: whether an element is dropped depends only on the seed, its row and its
//! column, so that backward drops the same elements as forward, with any number of threads.
//! <https://jmlr.org/papers/v15/srivastava14a.html>

use crate::isa::Isa;
use crate::lanes::on_lanes;
use crate::norm::rows_per_work_chunk;
use crate::shape::ShapeError;
use crate::team;

/// Sets each element to zero with probability `rate` and divides the others by `1 - rate`, so that
/// the mean is unchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Selects the elements; differs for each adapter and each step.
    pub seed: u64,
    /// From 0 to below 1.
    pub rate: f32,
}

/// 64-bit hash: the finalizer of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

on_lanes! {
    /// Drops the elements of a row whose hash is below `threshold`, and multiplies the others by
    /// `scale`.
    fn drop_row<L>(_l; row: &mut [f32], keys: [u32; 2], threshold: u32, scale: f32) {
        for (column, x) in row.iter_mut().enumerate() {
            // The finalizer of MurmurHash3 between two keys.
            let hash = (column as u32).wrapping_mul(0x9e37_79b9) ^ keys[0];
            let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
            let hash = (hash ^ hash >> 13).wrapping_add(keys[1]).wrapping_mul(0xc2b2_ae35);
            let hash = hash ^ hash >> 16;
            // 31 bits, so that a signed comparison suffices.
            *x = if (hash >> 1) as i32 >= threshold as i32 { *x * scale } else { 0.0 };
        }
    }
}

impl Dropout {
    /// Checks the rate.
    pub(crate) fn check(self) -> Result<(), ShapeError> {
        if (0.0..1.0).contains(&self.rate) {
            Ok(())
        } else {
            Err(ShapeError::Rate {
                found: self.rate.to_string(),
            })
        }
    }

    /// Applies dropout to `x`, rows of `cols`.
    pub fn drop_in_place(self, x: &mut [f32], cols: usize) {
        let (isa, rows) = (Isa::best(), rows_per_work_chunk(cols));
        let threshold = (f64::from(self.rate) * f64::from(1_u32 << 31)) as u32;
        let scale = 1.0 / (1.0 - self.rate);
        team::run_over(x, rows * cols, &|work_chunk, x| {
            for (row, x) in x.chunks_exact_mut(cols.max(1)).enumerate() {
                let key = mix(self.seed.wrapping_add(mix((work_chunk * rows + row) as u64 + 1)));
                drop_row(isa, x, [key as u32, (key >> 32) as u32], threshold, scale);
            }
        });
    }

    /// A copy of `x`, rows of `cols`, after dropout.
    pub(crate) fn apply(self, x: &[f32], cols: usize) -> Vec<f32> {
        let mut dropped = x.to_vec();
        self.drop_in_place(&mut dropped, cols);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_met_and_the_mean_unchanged() {
        for rate in [0.0, 0.05, 0.5, 0.9] {
            let dropout = Dropout { seed: 7, rate };
            let x = dropout.apply(&vec![1.0; 400 * 250], 250);
            let zeros = x.iter().filter(|x| **x == 0.0).count() as f32 / x.len() as f32;
            assert!((zeros - rate).abs() < 0.005, "{zeros} of {rate}");
            let mean = x.iter().sum::<f32>() / x.len() as f32;
            assert!((mean - 1.0).abs() < 0.02, "mean {mean} at {rate}");
            // Rows, columns and seeds differ.
            if rate > 0.0 {
                assert!(x[..250] != x[250..500]);
                let column = |c: usize| (0..400).map(|row| x[250 * row + c]).collect::<Vec<_>>();
                assert!(column(0) != column(1));
                assert!(Dropout { seed: 8, rate }.apply(&vec![1.0; 400 * 250], 250) != x);
            }
        }
    }

    #[test]
    fn an_invalid_rate_is_an_error() {
        for rate in [1.0, -0.1, f32::NAN] {
            assert!(Dropout { seed: 0, rate }.check().is_err());
        }
    }
}

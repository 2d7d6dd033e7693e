//! Reference implementation of every operation in f64, written as its formula.
//!
//! Nothing here is in place, threaded or vectorized. The lengths of slices are not checked: the
//! callers are tests and [`gradients`](crate::gradients), which choose the sizes.

mod attention;
mod elementwise;
mod linear;

pub use attention::{QkNormRope, Rotation, attend, attend_to, cached, qk_norm_rope};
pub use elementwise::{activated, cross_entropy, gated, rms_norm, rotated, softcapped, softmax};
pub use linear::{Linear, Lora, matmul, transpose};

/// Reproducible uniform noise in [-1, 1).
pub fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Converts to f64.
pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// The gradient at `x` of the weighted sum of `f`'s outputs, by central differences.
pub fn central_differences(x: &[f64], weights: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let value = |x: &[f64]| f(x).iter().zip(weights).map(|(y, w)| y * w).sum::<f64>();
    let mut x = x.to_vec();
    (0..x.len())
        .map(|i| {
            let original = x[i];
            x[i] = original + STEP;
            let plus = value(&x);
            x[i] = original - STEP;
            let minus = value(&x);
            x[i] = original;
            (plus - minus) / (2.0 * STEP)
        })
        .collect()
}

/// The relative error of `actual`: the norm of the difference divided by the norm of `expected`,
/// the latter at least 0.001. Not finite if `actual` is not, infinite if the lengths differ.
pub fn relative_error(actual: &[f32], expected: &[f64]) -> f64 {
    if actual.len() != expected.len() {
        return f64::INFINITY;
    }
    let squared_distance: f64 = actual
        .iter()
        .zip(expected)
        .map(|(a, b)| (f64::from(*a) - b).powi(2))
        .sum();
    let squared_norm: f64 = expected.iter().map(|x| x * x).sum();
    squared_distance.sqrt() / squared_norm.sqrt().max(1e-3)
}

//! Search for the scales of least error in the K and IQ formats: least squares over a few candidate
//! grids.
//!
//! Everything operates on short arrays of f32, which compilers vectorize.

/// 1.5 * 2^23: added and subtracted, it rounds values below 2^22 to integers, ties to even, because
/// an f32 of this size has no fraction bits.
const ROUNDS: f32 = 12_582_912.0;

/// Weights that span less than this are treated as equal: no f16 scale could separate them, and
/// inverses would overflow.
const MIN_SPAN: f32 = 1e-30;

/// Candidate grids of [`affine`]: in candidate `i`, the weights span `top + first + i / 10` steps.
pub(super) struct Steps {
    /// Offset of the first candidate; negative, so that a few outliers may be clipped in exchange
    /// for finer steps.
    pub first: f32,
    /// Number of candidates, a tenth of a step apart.
    pub count: u8,
}

/// Sums an array in four dependency chains.
#[inline(always)]
fn sum<const N: usize>(terms: [f32; N]) -> f32 {
    let mut lanes = [0.0; 4];
    for four in terms.as_chunks::<4>().0 {
        for (lane, term) in lanes.iter_mut().zip(four) {
            *lane += term;
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

/// Applies `f` to the elements of two arrays.
#[inline(always)]
fn zip<const N: usize>(a: &[f32; N], b: &[f32; N], f: impl Fn(f32, f32) -> f32) -> [f32; N] {
    let mut out = [0.0; N];
    for i in 0..N {
        out[i] = f(a[i], b[i]);
    }
    out
}

/// The integer nearest to `x`, clamped to a range within plus and minus 2^22.
#[inline(always)]
fn round(x: f32, low: f32, high: f32) -> f32 {
    (x.max(low).min(high) + ROUNDS) - ROUNDS
}

/// `1 / step`, or zero if `step` is zero.
#[inline(always)]
pub(super) fn inverse(step: f32) -> f32 {
    if step == 0.0 { 0.0 } else { 1.0 / step }
}

/// The code in `0..=top` whose weight `step * code - min` is nearest to `x`.
#[inline(always)]
pub(super) fn code(x: f32, step: f32, min: f32, top: u8) -> u8 {
    round((x + min) * inverse(step), 0.0, f32::from(top)) as u8
}

/// The code in `-limit..limit` whose weight `step * code` is nearest to `x`.
#[inline(always)]
pub(super) fn signed_code(x: f32, step: f32, limit: u8) -> i8 {
    let limit = f32::from(limit);
    round(x * inverse(step), -limit, limit - 1.0) as i8
}

/// Importance of the error of each weight: its magnitude plus the root mean square.
pub(super) fn importance<const N: usize>(x: &[f32; N]) -> [f32; N] {
    let rms = (sum(zip(x, x, |a, b| a * b)) / N as f32).sqrt();
    x.map(|x| rms + x.abs())
}

/// Weighted squared error of `step * code - min`, with `fit` as `(step, min)` and codes `0..=top`
/// rounded on `grid`.
#[inline(always)]
fn affine_loss<const N: usize>(x: &[f32; N], weight: &[f32; N], fit: (f32, f32), grid: (f32, f32), top: f32) -> f32 {
    let scale = inverse(grid.0);
    sum(zip(x, weight, |x, weight| {
        let miss = fit.0 * round((x + grid.1) * scale, 0.0, top) - fit.1 - x;
        weight * miss * miss
    }))
}

/// `(scale, min)`, both non-negative, with the smallest error, of a few candidate grids, of
/// `scale * code - min` with codes `0..=top`.
///
/// For each candidate grid, fixes the codes and solves for scale and minimum; returns the best
/// pair.
pub(super) fn affine<const N: usize>(x: &[f32; N], top: u8, steps: &Steps) -> (f32, f32) {
    let low = x.iter().copied().fold(0.0, f32::min);
    let span = x.iter().copied().fold(0.0, f32::max) - low;
    if span < MIN_SPAN {
        return (0.0, -low);
    }
    // In units of the span, squares neither overflow nor vanish.
    let x = x.map(|x| x / span);
    let (low, top) = (low / span, f32::from(top));
    let weight = importance(&x);
    let mut best = (1.0 / top, -low);
    let mut best_loss = affine_loss(&x, &weight, best, best, top);
    let (w, y) = (sum(weight), sum(zip(&x, &weight, |x, weight| weight * x)));
    for i in 0..steps.count {
        let intervals = top + steps.first + 0.1 * f32::from(i);
        let codes = x.map(|x| round((x - low) * intervals, 0.0, top));
        let weighted = zip(&codes, &weight, |code, weight| weight * code);
        let q = sum(weighted);
        let qq = sum(zip(&weighted, &codes, |a, b| a * b));
        let yq = sum(zip(&weighted, &x, |a, b| a * b));
        let determinant = w * qq - q * q;
        if determinant <= 0.0 {
            continue;
        }
        let mut fit = ((w * yq - y * q) / determinant, (q * yq - qq * y) / determinant);
        // The format has no positive offset: solve for the scale alone.
        if fit.1 < 0.0 {
            fit = (yq / qq, 0.0);
        }
        let loss = affine_loss(&x, &weight, fit, (1.0 / intervals, -low), top);
        if fit.0 > 0.0 && loss < best_loss {
            (best, best_loss) = (fit, loss);
        }
    }
    (best.0 * span, best.1 * span)
}

/// Codes `0..=top_scale` of a scale and a minimum found by [`affine`], in units of `d` and `dmin`:
/// of the nearest codes and their neighbors, the pair of least error.
pub(super) fn affine_scales<const N: usize>(
    x: &[f32; N],
    fit: (f32, f32),
    d: f32,
    dmin: f32,
    top: u8,
    top_scale: u8,
) -> (u8, u8) {
    let nearest = (code(fit.0, d, 0.0, top_scale), code(fit.1, dmin, 0.0, top_scale));
    let weight = importance(x);
    let (mut best, mut best_loss) = (nearest, f32::INFINITY);
    for scale in neighbors(nearest.0, top_scale) {
        for min in neighbors(nearest.1, top_scale) {
            let grid = (d * f32::from(scale), dmin * f32::from(min));
            let loss = affine_loss(x, &weight, grid, grid, f32::from(top));
            if loss < best_loss {
                (best, best_loss) = ((scale, min), loss);
            }
        }
    }
    best
}

/// `code` and the codes beside it, none above `top`.
fn neighbors(code: u8, top: u8) -> std::ops::RangeInclusive<u8> {
    code.saturating_sub(1)..=(code + 1).min(top)
}

/// The scale, of either sign, with the smallest error, of a few candidates, of `scale * code` with
/// codes `-limit..limit`.
pub(super) fn symmetric<const N: usize>(x: &[f32; N], limit: u8) -> f32 {
    let limit = f32::from(limit);
    // Negative, because the code range reaches farther below zero than above.
    let grids = (-9_i8..=9).map(|i| -(limit + 0.1 * f32::from(i)));
    // Squares as importance: large weights dominate the product with activations.
    scale(x, |x| x.map(|x| x * x), grids, |x| round(x, -limit, limit - 1.0))
}

/// The scale, of either sign, with the smallest error, weighted by `weigh`, of a few candidates, of
/// scale times values rounded by `nearest`.
///
/// Each candidate of `grids` is the value that the element of `x` farthest from zero is scaled to
/// before rounding. The rounded values are then fixed and the scale is solved for; returns the
/// best.
#[inline(always)]
pub(super) fn scale<const N: usize>(
    x: &[f32; N],
    weigh: impl Fn(&[f32; N]) -> [f32; N],
    grids: impl Iterator<Item = f32>,
    nearest: impl Fn(f32) -> f32,
) -> f32 {
    let farthest = farthest(x);
    if farthest.abs() < MIN_SPAN {
        return 0.0;
    }
    // In units of the farthest from zero, squares neither overflow nor vanish.
    let x = x.map(|x| x / farthest);
    let weight = weigh(&x);
    let (mut best, mut most) = (0.0, 0.0);
    for intervals in grids {
        let codes = x.map(|x| nearest(x * intervals));
        let weighted = zip(&codes, &weight, |code, weight| weight * code);
        let yq = sum(zip(&weighted, &x, |a, b| a * b));
        let qq = sum(zip(&weighted, &codes, |a, b| a * b));
        // The loss is yq^2 / qq less than with a scale of zero.
        if qq > 0.0 && yq * yq > most * qq {
            (best, most) = (yq / qq, yq * yq / qq);
        }
    }
    best * farthest
}

/// The scale of the scales for signed codes `-limit..limit`: the scale farthest from zero becomes
/// `-limit`.
pub(super) fn symmetric_unit(scales: &[f32], limit: u8) -> f32 {
    farthest(scales) / -f32::from(limit)
}

/// The element farthest from zero; the first of equals.
fn farthest(x: &[f32]) -> f32 {
    x.iter()
        .copied()
        .fold(0.0_f32, |far, x| if x.abs() > far.abs() { x } else { far })
}

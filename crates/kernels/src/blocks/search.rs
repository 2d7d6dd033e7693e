//! How the K and IQ formats find the scales that lose least: least squares over a few candidate grids.
//!
//! Everything is written on short arrays of f32, which compilers turn into vectors.

/// Added and taken away again, this rounds numbers below 2^22 to whole ones, ties to even: an f32 of its size has no
/// bits for fractions.
const ROUNDS: f32 = 12_582_912.0;

/// Weights that span less than this are all alike: no f16 could scale them apart, and inverses would overflow.
const SMALLEST: f32 = 1e-30;

/// The grids that [`affine`] tries: its `i`-th lets the weights span `top + first + i / 10` steps.
pub(super) struct Steps {
    /// Of the first candidate; negative, so that a few outliers may be clipped for finer steps.
    pub first: f32,
    /// How many candidates, each a tenth of a step from the last.
    pub count: u8,
}

/// The sum of an array, four chains at a time.
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

/// `f` of each of two arrays' elements.
#[inline(always)]
fn zip<const N: usize>(a: &[f32; N], b: &[f32; N], f: impl Fn(f32, f32) -> f32) -> [f32; N] {
    let mut out = [0.0; N];
    for i in 0..N {
        out[i] = f(a[i], b[i]);
    }
    out
}

/// The whole number nearest to `x` in a range inside plus and minus 2^22.
#[inline(always)]
fn round(x: f32, low: f32, high: f32) -> f32 {
    (x.max(low).min(high) + ROUNDS) - ROUNDS
}

/// `1 / step`, or zero where there is no step.
#[inline(always)]
pub(super) fn inverse(step: f32) -> f32 {
    if step == 0.0 { 0.0 } else { 1.0 / step }
}

/// The code in `0..=top` whose weight `step * code - least` is nearest to `x`.
#[inline(always)]
pub(super) fn code(x: f32, step: f32, least: f32, top: u8) -> u8 {
    round((x + least) * inverse(step), 0.0, f32::from(top)) as u8
}

/// The code in `-limit..limit` whose weight `step * code` is nearest to `x`.
#[inline(always)]
pub(super) fn signed_code(x: f32, step: f32, limit: u8) -> i8 {
    let limit = f32::from(limit);
    round(x * inverse(step), -limit, limit - 1.0) as i8
}

/// How much the error at each of `x` counts: large weights count more, by as much as an average one does anyway.
pub(super) fn importance<const N: usize>(x: &[f32; N]) -> [f32; N] {
    let rms = (sum(zip(x, x, |a, b| a * b)) / N as f32).sqrt();
    x.map(|x| rms + x.abs())
}

/// What weights `step * code - least` lose of `x`, with codes `0..=top` as near as `grid`, another such pair, finds.
#[inline(always)]
fn affine_loss<const N: usize>(x: &[f32; N], weight: &[f32; N], fit: (f32, f32), grid: (f32, f32), top: f32) -> f32 {
    let scale = inverse(grid.0);
    sum(zip(x, weight, |x, weight| {
        let miss = fit.0 * round((x + grid.1) * scale, 0.0, top) - fit.1 - x;
        weight * miss * miss
    }))
}

/// `(scale, least)`, neither negative, such that `scale * code - least` with codes `0..=top` is near to `x`.
///
/// For each candidate grid the codes are fixed, scale and minimum are solved for, and the best pair is kept.
pub(super) fn affine<const N: usize>(x: &[f32; N], top: u8, steps: &Steps) -> (f32, f32) {
    let low = x.iter().copied().fold(0.0, f32::min);
    let span = x.iter().copied().fold(0.0, f32::max) - low;
    if span < SMALLEST {
        return (0.0, -low);
    }
    // In units of the span, squares neither overflow nor vanish.
    let x = x.map(|x| x / span);
    let (low, top) = (low / span, f32::from(top));
    let weight = importance(&x);
    let mut best = (1.0 / top, -low);
    let mut least_loss = affine_loss(&x, &weight, best, best, top);
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
        // The format has no positive offset: without one, the scale alone is solved for.
        if fit.1 < 0.0 {
            fit = (yq / qq, 0.0);
        }
        let loss = affine_loss(&x, &weight, fit, (1.0 / intervals, -low), top);
        if fit.0 > 0.0 && loss < least_loss {
            (best, least_loss) = (fit, loss);
        }
    }
    (best.0 * span, best.1 * span)
}

/// Codes `0..=top_scale` of a scale and a minimum found by [`affine`], in units of `d` and `dmin`: of the nearest
/// codes and their neighbours, the two that together lose least of `x`.
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
    let (mut best, mut least_loss) = (nearest, f32::INFINITY);
    for scale in neighbours(nearest.0, top_scale) {
        for least in neighbours(nearest.1, top_scale) {
            let grid = (d * f32::from(scale), dmin * f32::from(least));
            let loss = affine_loss(x, &weight, grid, grid, f32::from(top));
            if loss < least_loss {
                (best, least_loss) = ((scale, least), loss);
            }
        }
    }
    best
}

/// `code` and the codes beside it, none above `top`.
fn neighbours(code: u8, top: u8) -> std::ops::RangeInclusive<u8> {
    code.saturating_sub(1)..=(code + 1).min(top)
}

/// The scale, of either sign, such that `scale * code` with codes `-limit..limit` is near to `x`.
pub(super) fn symmetric<const N: usize>(x: &[f32; N], limit: u8) -> f32 {
    let limit = f32::from(limit);
    // Negative, since the format reaches farther below zero than above.
    let grids = (-9_i8..=9).map(|i| -(limit + 0.1 * f32::from(i)));
    // Squares as weights: what matters is the product with activations, which large weights rule.
    scale(x, |x| x.map(|x| x * x), grids, |x| round(x, -limit, limit - 1.0))
}

/// The scale, of either sign, such that it times numbers that `nearest` gives is near to `x`, where errors count by `weigh`.
///
/// Each candidate of `grids` says what the farthest of `x` from zero is taken for before all are made the nearest numbers;
/// these are then fixed, the scale is solved for, and the best is kept.
#[inline(always)]
pub(super) fn scale<const N: usize>(
    x: &[f32; N],
    weigh: impl Fn(&[f32; N]) -> [f32; N],
    grids: impl Iterator<Item = f32>,
    nearest: impl Fn(f32) -> f32,
) -> f32 {
    let farthest = farthest(x);
    if farthest.abs() < SMALLEST {
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
        // The loss falls by yq^2 / qq from what a scale of zero would give.
        if qq > 0.0 && yq * yq > most * qq {
            (best, most) = (yq / qq, yq * yq / qq);
        }
    }
    best * farthest
}

/// The unit in which signed codes of `-limit..limit` span `scales`: the farthest from zero becomes `-limit`.
pub(super) fn symmetric_unit(scales: &[f32], limit: u8) -> f32 {
    farthest(scales) / -f32::from(limit)
}

/// The number farthest from zero, the first of them where there are several.
fn farthest(x: &[f32]) -> f32 {
    x.iter()
        .copied()
        .fold(0.0_f32, |far, x| if x.abs() > far.abs() { x } else { far })
}

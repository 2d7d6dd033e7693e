//! Search for the scales of least error in the K and IQ formats: least squares over a few candidate
//! grids.
//!
//! All functions operate on short arrays of f32, so that the compiler vectorizes their loops.

/// 1.5 * 2^23: adding and subtracting it rounds values below 2^22 to integers, ties to even,
/// because an f32 of this size has no fraction bits. ggml's `nearest_int` adds the same number.
const ROUNDING: f32 = 12_582_912.0;

/// Weights that span less than this are treated as equal: no f16 scale could separate them, and
/// inverses would overflow.
const MIN_SPAN: f32 = 1e-30;

/// Candidate grids of [`affine`]: in candidate `i`, the weights span `max_code + first + i / 10`
/// steps.
pub(super) struct Steps {
    /// Offset of the first candidate; negative, so that a few outliers may be clipped in exchange
    /// for finer steps.
    pub first: f32,
    /// Number of candidates, a tenth of a step apart.
    pub count: u8,
}

/// A grid of weights `scale * code - min`.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub scale: f32,
    pub min: f32,
}

/// A [`Grid`] whose scale and minimum are codes in units of a superblock's `d` and `dmin`.
#[derive(Clone, Copy)]
pub(super) struct GridCodes {
    pub scale: u8,
    pub min: u8,
}

/// Sums an array in four dependency chains.
#[inline(always)]
fn sum<const N: usize>(terms: [f32; N]) -> f32 {
    let mut lanes = [0.0; 4];
    for terms in terms.as_chunks::<4>().0 {
        for (lane, term) in lanes.iter_mut().zip(terms) {
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
    (x.max(low).min(high) + ROUNDING) - ROUNDING
}

/// `1 / step`, or zero if `step` is zero.
#[inline(always)]
pub(super) fn inverse(step: f32) -> f32 {
    if step == 0.0 { 0.0 } else { 1.0 / step }
}

/// The code in `0..=max_code` whose weight `step * code - min` is nearest to `x`.
#[inline(always)]
pub(super) fn code(x: f32, step: f32, min: f32, max_code: u8) -> u8 {
    round((x + min) * inverse(step), 0.0, f32::from(max_code)) as u8
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

/// Weighted squared error of the weights of grid `fit` if codes `0..=max_code` are rounded on grid
/// `rounding`.
#[inline(always)]
fn affine_loss<const N: usize>(x: &[f32; N], weight: &[f32; N], fit: Grid, rounding: Grid, max_code: f32) -> f32 {
    let inverse = inverse(rounding.scale);
    sum(zip(x, weight, |x, weight| {
        let error = fit.scale * round((x + rounding.min) * inverse, 0.0, max_code) - fit.min - x;
        weight * error * error
    }))
}

/// The grid of least error for codes `0..=max_code` among a few candidates; its scale and minimum
/// are not negative.
///
/// For each candidate grid, fixes the codes and solves for scale and minimum; returns the best
/// pair.
pub(super) fn affine<const N: usize>(x: &[f32; N], max_code: u8, steps: &Steps) -> Grid {
    let low = x.iter().copied().fold(0.0, f32::min);
    let span = x.iter().copied().fold(0.0, f32::max) - low;
    if span < MIN_SPAN {
        return Grid { scale: 0.0, min: -low };
    }
    // In units of the span, squares neither overflow nor vanish.
    let x = x.map(|x| x / span);
    let (low, max_code) = (low / span, f32::from(max_code));
    let weight = importance(&x);
    let mut best = Grid {
        scale: 1.0 / max_code,
        min: -low,
    };
    let mut best_loss = affine_loss(&x, &weight, best, best, max_code);
    let (w, y) = (sum(weight), sum(zip(&x, &weight, |x, weight| weight * x)));
    for i in 0..steps.count {
        let intervals = max_code + steps.first + 0.1 * f32::from(i);
        let codes = x.map(|x| round((x - low) * intervals, 0.0, max_code));
        let weighted = zip(&codes, &weight, |code, weight| weight * code);
        let q = sum(weighted);
        let qq = sum(zip(&weighted, &codes, |a, b| a * b));
        let yq = sum(zip(&weighted, &x, |a, b| a * b));
        let determinant = w * qq - q * q;
        if determinant <= 0.0 {
            continue;
        }
        let mut fit = Grid {
            scale: (w * yq - y * q) / determinant,
            min: (q * yq - qq * y) / determinant,
        };
        // The format has no positive offset: solve for the scale alone.
        if fit.min < 0.0 {
            fit = Grid {
                scale: yq / qq,
                min: 0.0,
            };
        }
        let rounding = Grid {
            scale: 1.0 / intervals,
            min: -low,
        };
        let loss = affine_loss(&x, &weight, fit, rounding, max_code);
        if fit.scale > 0.0 && loss < best_loss {
            (best, best_loss) = (fit, loss);
        }
    }
    Grid {
        scale: best.scale * span,
        min: best.min * span,
    }
}

/// Codes `0..=max_scale` of the scale and minimum of a grid found by [`affine`], in units of `d`
/// and `dmin`: the pair of least error among the nearest codes and their neighbors.
pub(super) fn affine_scales<const N: usize>(
    x: &[f32; N],
    fit: Grid,
    d: f32,
    dmin: f32,
    max_code: u8,
    max_scale: u8,
) -> GridCodes {
    let nearest = GridCodes {
        scale: code(fit.scale, d, 0.0, max_scale),
        min: code(fit.min, dmin, 0.0, max_scale),
    };
    let weight = importance(x);
    let (mut best, mut best_loss) = (nearest, f32::INFINITY);
    for scale in neighbors(nearest.scale, max_scale) {
        for min in neighbors(nearest.min, max_scale) {
            let grid = Grid {
                scale: d * f32::from(scale),
                min: dmin * f32::from(min),
            };
            let loss = affine_loss(x, &weight, grid, grid, f32::from(max_code));
            if loss < best_loss {
                (best, best_loss) = (GridCodes { scale, min }, loss);
            }
        }
    }
    best
}

/// `code` and the codes beside it, within `0..=max_code`.
fn neighbors(code: u8, max_code: u8) -> std::ops::RangeInclusive<u8> {
    code.saturating_sub(1)..=(code + 1).min(max_code)
}

/// The scale, of either sign, of least error for weights `scale * code` with codes `-limit..limit`,
/// among a few candidates.
pub(super) fn symmetric<const N: usize>(x: &[f32; N], limit: u8) -> f32 {
    let limit = f32::from(limit);
    // Negative, because the code range reaches farther below zero than above.
    let grids = (-9_i8..=9).map(|i| -(limit + 0.1 * f32::from(i)));
    // Squares as importance: large weights dominate the product with activations.
    scale(x, |x| x.map(|x| x * x), grids, |x| round(x, -limit, limit - 1.0))
}

/// The scale, of either sign, of least error for weights `scale * value` with values rounded by
/// `nearest`, among a few candidates. Errors are weighted by `weigh`.
///
/// Each candidate of `grids` is the value to which the element of `x` farthest from zero is scaled
/// before rounding. The rounded values are then fixed and the scale is solved for; returns the best
/// scale.
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
    // In units of the element farthest from zero, squares neither overflow nor vanish.
    let x = x.map(|x| x / farthest);
    let weight = weigh(&x);
    let (mut best, mut best_gain) = (0.0, 0.0);
    for intervals in grids {
        let codes = x.map(|x| nearest(x * intervals));
        let weighted = zip(&codes, &weight, |code, weight| weight * code);
        let yq = sum(zip(&weighted, &x, |a, b| a * b));
        let qq = sum(zip(&weighted, &codes, |a, b| a * b));
        // The loss is lower by yq^2 / qq than with a scale of zero.
        if qq > 0.0 && yq * yq > best_gain * qq {
            (best, best_gain) = (yq / qq, yq * yq / qq);
        }
    }
    best * farthest
}

/// The scale of the scales for signed codes `-limit..limit`: the scale farthest from zero gets code
/// `-limit`.
pub(super) fn symmetric_unit(scales: &[f32], limit: u8) -> f32 {
    farthest(scales) / -f32::from(limit)
}

/// The element farthest from zero; the first one if several are.
fn farthest(x: &[f32]) -> f32 {
    x.iter()
        .copied()
        .fold(0.0_f32, |far, x| if x.abs() > far.abs() { x } else { far })
}

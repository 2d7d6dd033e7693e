//! How the K formats find the scales that lose least: least squares over a few candidate grids.

/// The grids that [`affine`] tries: its `i`-th lets the weights span `top + first + i / 10` steps.
pub(super) struct Steps {
    /// Of the first candidate; negative, so that a few outliers may be clipped for finer steps.
    pub first: f32,
    /// How many candidates, each a tenth of a step from the last.
    pub count: u8,
}

/// How much the error at `x` counts: large weights count more, by as much as an average one does anyway.
fn importance(x: &[f32]) -> impl Fn(f32) -> f64 {
    let rms = (x.iter().map(|x| square(*x)).sum::<f64>() / x.len() as f64).sqrt();
    move |x| rms + f64::from(x.abs())
}

/// Sums are taken in f64, in which no square of an f32 overflows.
fn square(x: f32) -> f64 {
    f64::from(x) * f64::from(x)
}

/// The code in `0..=top` whose weight `step * code - least` is nearest to `x`.
#[inline]
pub(super) fn code(x: f32, step: f32, least: f32, top: u8) -> u8 {
    if step == 0.0 {
        0
    } else {
        ((x + least) / step).round().clamp(0.0, f32::from(top)) as u8
    }
}

/// The code in `-limit..limit` whose weight `step * code` is nearest to `x`.
#[inline]
pub(super) fn signed_code(x: f32, step: f32, limit: u8) -> i8 {
    let limit = f32::from(limit);
    if step == 0.0 {
        0
    } else {
        (x / step).round().clamp(-limit, limit - 1.0) as i8
    }
}

/// What weights `step * code - least` lose of `x` with the best codes, weighted by [`importance`].
fn affine_loss(x: &[f32], step: f32, least: f32, top: u8) -> f64 {
    let weigh = importance(x);
    x.iter()
        .map(|&x| weigh(x) * square(step * f32::from(code(x, step, least, top)) - least - x))
        .sum()
}

/// `(scale, least)`, neither negative, such that `scale * code - least` with codes `0..=top` is near to `x`.
///
/// For each candidate grid the codes are fixed, scale and minimum are solved for, and the best pair is kept.
pub(super) fn affine(x: &[f32], top: u8, steps: Steps) -> (f32, f32) {
    let low = x.iter().copied().fold(0.0, f32::min);
    let high = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if high <= low {
        return (0.0, -low);
    }
    let weigh = importance(x);
    let mut best = ((high - low) / f32::from(top), -low);
    let mut least_loss = affine_loss(x, best.0, best.1, top);
    for i in 0..steps.count {
        let step = (high - low) / (f32::from(top) + steps.first + 0.1 * f32::from(i));
        let [mut w, mut q, mut qq, mut y, mut yq] = [0.0_f64; 5];
        for &x in x {
            let (weight, code) = (weigh(x), f64::from(code(x, step, -low, top)));
            w += weight;
            q += weight * code;
            qq += weight * code * code;
            y += weight * f64::from(x);
            yq += weight * code * f64::from(x);
        }
        let determinant = w * qq - q * q;
        if determinant <= 0.0 {
            continue;
        }
        let (mut scale, mut least) = ((w * yq - y * q) / determinant, (q * yq - qq * y) / determinant);
        // The format has no positive offset: without one, the scale alone is solved for.
        if least < 0.0 {
            (scale, least) = (yq / qq, 0.0);
        }
        let pair = (scale as f32, least as f32);
        let loss = affine_loss(x, pair.0, pair.1, top);
        if scale > 0.0 && loss < least_loss {
            (best, least_loss) = (pair, loss);
        }
    }
    best
}

/// Codes `0..=top_scale` of a scale and a minimum found by [`affine`], in units of `d` and `dmin`: of the nearest
/// codes and their neighbours, the two that together lose least of `x`.
pub(super) fn affine_scales(x: &[f32], fit: (f32, f32), d: f32, dmin: f32, top: u8, top_scale: u8) -> (u8, u8) {
    let scales = neighbours(code(fit.0, d, 0.0, top_scale), top_scale);
    let minimums = neighbours(code(fit.1, dmin, 0.0, top_scale), top_scale);
    let pairs = scales.flat_map(|scale| minimums.clone().map(move |least| (scale, least)));
    let loss = |(scale, least)| affine_loss(x, d * f32::from(scale), dmin * f32::from(least), top);
    pairs.min_by(|a, b| loss(*a).total_cmp(&loss(*b))).unwrap_or_default()
}

/// `code` and the codes beside it, none above `top`.
fn neighbours(code: u8, top: u8) -> std::ops::RangeInclusive<u8> {
    code.saturating_sub(1)..=(code + 1).min(top)
}

/// The scale, of either sign, such that `scale * code` with codes `-limit..limit` is near to `x`.
pub(super) fn symmetric(x: &[f32], limit: u8) -> f32 {
    let farthest = x
        .iter()
        .copied()
        .fold(0.0_f32, |far, x| if x.abs() > far.abs() { x } else { far });
    if farthest == 0.0 {
        return 0.0;
    }
    let (mut best, mut most) = (0.0, 0.0);
    for i in -9_i8..=9 {
        let step = farthest / -(f32::from(limit) + 0.1 * f32::from(i));
        let (mut yq, mut qq) = (0.0, 0.0);
        for &x in x {
            // Squares as weights: what matters is the product with activations, which large weights rule.
            let (weight, code) = (square(x), f64::from(signed_code(x, step, limit)));
            yq += weight * code * f64::from(x);
            qq += weight * code * code;
        }
        // The loss falls by yq^2 / qq from what a scale of zero would give.
        if qq > 0.0 && yq * yq > most * qq {
            (best, most) = ((yq / qq) as f32, yq * yq / qq);
        }
    }
    best
}

/// The unit in which signed codes of `-limit..limit` span `scales`: the farthest from zero becomes `-limit`.
pub(super) fn symmetric_unit(scales: &[f32], limit: u8) -> f32 {
    scales
        .iter()
        .copied()
        .fold(0.0_f32, |far, s| if s.abs() > far.abs() { s } else { far })
        / -f32::from(limit)
}

//! How the K formats find the scales that lose least: least squares over a few candidate grids.

/// The grids that [`affine`] tries: its `i`-th lets the weights span `top + first + i / 10` steps.
pub(super) struct Steps {
    /// Of the first candidate; negative, so that a few outliers may be clipped for finer steps.
    pub first: f32,
    /// How many candidates, each a tenth of a step from the last.
    pub count: u8,
}

/// How much the error at `x` counts: large weights count more, by as much as an average one does anyway.
fn importance(x: &[f32]) -> impl Fn(f32) -> f32 {
    let rms = (x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32).sqrt();
    move |x| rms + x.abs()
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
pub(super) fn signed_code(x: f32, step: f32, limit: i8) -> i8 {
    let limit = f32::from(limit);
    if step == 0.0 {
        0
    } else {
        (x / step).round().clamp(-limit, limit - 1.0) as i8
    }
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
    let error = |scale: f32, least: f32, step: f32, start: f32| -> f32 {
        x.iter()
            .map(|&x| {
                let miss = scale * f32::from(code(x, step, start, top)) - least - x;
                weigh(x) * miss * miss
            })
            .sum()
    };
    let mut best = ((high - low) / f32::from(top), -low);
    let mut least_error = error(best.0, best.1, best.0, best.1);
    for i in 0..steps.count {
        let step = (high - low) / (f32::from(top) + steps.first + 0.1 * f32::from(i));
        let [mut w, mut q, mut qq, mut y, mut yq] = [0.0_f32; 5];
        for &x in x {
            let (weight, code) = (weigh(x), f32::from(code(x, step, -low, top)));
            w += weight;
            q += weight * code;
            qq += weight * code * code;
            y += weight * x;
            yq += weight * code * x;
        }
        let determinant = w * qq - q * q;
        if determinant <= 0.0 {
            continue;
        }
        let (mut scale, mut least) = ((w * yq - y * q) / determinant, -(qq * y - q * yq) / determinant);
        // The format has no positive offset: without one, the scale alone is solved for.
        if least < 0.0 {
            (scale, least) = (yq / qq, 0.0);
        }
        let error = error(scale, least, step, -low);
        if scale > 0.0 && error < least_error {
            (best, least_error) = ((scale, least), error);
        }
    }
    best
}

/// The scale, of either sign, such that `scale * code` with codes `-limit..limit` is near to `x`.
pub(super) fn symmetric(x: &[f32], limit: i8) -> f32 {
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
            let (weight, code) = (x * x, f32::from(signed_code(x, step, limit)));
            yq += weight * code * x;
            qq += weight * code * code;
        }
        // The error falls by yq^2 / qq from what a scale of zero would give.
        if qq > 0.0 && yq * yq > most * qq {
            (best, most) = (yq / qq, yq * yq / qq);
        }
    }
    best
}

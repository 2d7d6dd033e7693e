//! RMSNorm and its gradient. <https://arxiv.org/abs/1910.07467>
//!
//! `y = x * w / sqrt(mean(x^2) + eps)` over rows as wide as the weight. A function that overwrites
//! an input takes it as its only `&mut` slice; its name ends in `_in_place`.

use crate::isa::Isa;
use crate::lanes::{WIDTH, on_lanes};
use crate::shape::{self, ShapeError};
use crate::team;

/// Minimum elements of a work chunk, to amortize the cost of scheduling it.
const ELEMENTS_PER_WORK_CHUNK: usize = 16 * 1024;

/// Rows of `width` elements in a work chunk.
pub(crate) fn rows_per_work_chunk(width: usize) -> usize {
    (ELEMENTS_PER_WORK_CHUNK / width.max(1)).max(1)
}

on_lanes! {
    /// The sum of squares.
    pub(crate) fn squares<L>(l; x: &[f32]) -> f32 {
        let (whole, rest) = x.as_chunks::<WIDTH>();
        let sum = whole.iter().fold(l.splat(0.0), |sum, x| {
            let x = l.load(x);
            l.fma(x, x, sum)
        });
        l.reduce_add(sum) + rest.iter().map(|x| x * x).sum::<f32>()
    }
}

on_lanes! {
    /// The sum of `x * w * dy`.
    fn products<L>(l; x: &[f32], w: &[f32], dy: &[f32]) -> f32 {
        let ((x, x_rest), (w, w_rest), (dy, dy_rest)) = (x.as_chunks(), w.as_chunks(), dy.as_chunks());
        let sum = x.iter().zip(w).zip(dy).fold(l.splat(0.0), |sum, ((x, w), dy)| {
            l.fma(l.mul(l.load(x), l.load(w)), l.load(dy), sum)
        });
        let rest = x_rest.iter().zip(w_rest).zip(dy_rest).map(|((x, w), dy)| x * w * dy).sum::<f32>();
        l.reduce_add(sum) + rest
    }
}

on_lanes! {
    /// `y = x * inverse_rms * w`.
    fn scale_row<L>(_l; x: &[f32], w: &[f32], inverse_rms: f32, y: &mut [f32]) {
        for ((x, w), y) in x.iter().zip(w).zip(y) {
            *y = x * inverse_rms * w;
        }
    }
}

on_lanes! {
    /// [`scale_row`], overwriting `x`.
    fn scale_row_in_place<L>(_l; x: &mut [f32], w: &[f32], inverse_rms: f32) {
        for (x, w) in x.iter_mut().zip(w) {
            *x = *x * inverse_rms * w;
        }
    }
}

/// `1 / sqrt(mean(x^2) + eps)`.
fn row_inverse_rms(isa: Isa, x: &[f32], eps: f32) -> f32 {
    1.0 / (squares(isa, x) / x.len() as f32 + eps).sqrt()
}

/// One row of [`rms_norm`].
pub(crate) fn row(isa: Isa, x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    scale_row(isa, x, weight, row_inverse_rms(isa, x, eps), y);
}

/// One row of [`rms_norm_in_place`].
pub(crate) fn row_in_place(isa: Isa, x: &mut [f32], weight: &[f32], eps: f32) {
    scale_row_in_place(isa, x, weight, row_inverse_rms(isa, x, eps));
}

/// Scalars of a row of the gradient: `dx = (dz - x * projection) * inverse_rms`, with `dz = dy * w`
/// and `projection = sum(x dz) / (sum(x^2) + N eps)`.
struct RowGradient {
    inverse_rms: f32,
    projection: f32,
}

/// Computes the scalars of a row of the gradient.
fn row_gradient(isa: Isa, x: &[f32], weight: &[f32], eps: f32, dy: &[f32]) -> RowGradient {
    let n = x.len() as f32;
    let squares = squares(isa, x);
    RowGradient {
        inverse_rms: 1.0 / (squares / n + eps).sqrt(),
        projection: products(isa, x, weight, dy) / (squares + n * eps),
    }
}

/// Replaces the output gradient of one row by its input gradient.
pub(crate) fn row_backward_in_place(isa: Isa, x: &[f32], weight: &[f32], eps: f32, dy: &mut [f32]) {
    let RowGradient {
        inverse_rms,
        projection,
    } = row_gradient(isa, x, weight, eps, dy);
    for ((x, w), dy) in x.iter().zip(weight).zip(dy) {
        *dy = (*dy * w - x * projection) * inverse_rms;
    }
}

fn check(x: &[f32], weight: &[f32]) -> Result<(), ShapeError> {
    shape::rows("a row of the norm's input", x.len(), weight.len()).map(|_| ())
}

/// Writes the norm of `x[T, D]` with `weight[D]` to `y[T, D]`, as `ggml_rms_norm` followed by
/// `ggml_mul`.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) -> Result<(), ShapeError> {
    check(x, weight)?;
    shape::length("the norm's output", y.len(), Some(x.len()))?;
    let (isa, width) = (Isa::best(), weight.len());
    let size = rows_per_work_chunk(width) * width;
    team::run_over(y, size, &|work_chunk, y| {
        for (x, y) in x[work_chunk * size..]
            .chunks_exact(width)
            .zip(y.chunks_exact_mut(width))
        {
            row(isa, x, weight, eps, y);
        }
    });
    Ok(())
}

/// [`rms_norm`], overwriting its input.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) -> Result<(), ShapeError> {
    check(x, weight)?;
    let (isa, width) = (Isa::best(), weight.len());
    team::run_over(x, rows_per_work_chunk(width) * width, &|_, x| {
        for x in x.chunks_exact_mut(width) {
            row_in_place(isa, x, weight, eps);
        }
    });
    Ok(())
}

/// The gradient of [`rms_norm`]: `dx[T, D]` from `x[T, D]` and the gradient `dy[T, D]` of its
/// output.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn rms_norm_backward(x: &[f32], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [f32]) -> Result<(), ShapeError> {
    shape::length("the gradient of the norm's input", dx.len(), Some(dy.len()))?;
    dx.copy_from_slice(dy);
    rms_norm_backward_in_place(x, weight, eps, dx)
}

/// [`rms_norm_backward`], overwriting the gradient of the output.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn rms_norm_backward_in_place(x: &[f32], weight: &[f32], eps: f32, dy: &mut [f32]) -> Result<(), ShapeError> {
    check(x, weight)?;
    shape::length("the gradient of the norm's output", dy.len(), Some(x.len()))?;
    let (isa, width) = (Isa::best(), weight.len());
    let size = rows_per_work_chunk(width) * width;
    team::run_over(dy, size, &|work_chunk, dy| {
        for (x, dy) in x[work_chunk * size..]
            .chunks_exact(width)
            .zip(dy.chunks_exact_mut(width))
        {
            row_backward_in_place(isa, x, weight, eps, dy);
        }
    });
    Ok(())
}

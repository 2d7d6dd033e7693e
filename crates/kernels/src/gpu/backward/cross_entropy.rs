//! Cross-entropy over rows of logits and its gradient: one cube per row.

use crate::gpu::exp::bounded_exp;
use crate::gpu::launch::{buffer_arg, cube_count, matrix_arg};
use crate::gpu::reduce::{reduce_max, reduce_sum};
use crate::gpu::softcap::{softcap_slope, softcapped};
use crate::gpu::{Floats, GpuError};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units that share a row; a power of two.
const UNITS: usize = 256;

/// A logit, after the softcap if there is one.
#[cube]
fn optionally_capped(logit: f32, softcap: f32, #[comptime] capped: bool) -> f32 {
    let mut result = logit;
    if comptime!(capped) {
        result = softcapped(logit, softcap);
    }
    result
}

#[cube(launch_unchecked)]
fn cross_entropy_rows(
    logits: &mut [f32],
    targets: &[u32],
    losses: &mut [f32],
    rows: usize,
    cols: usize,
    scale: f32,
    // Only read if logits are capped.
    softcap: f32,
    #[comptime] capped: bool,
    #[comptime] gradient: bool,
) {
    if CUBE_POS >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let start = CUBE_POS * cols;
    let target = targets[CUBE_POS] as usize;
    let has_target = target < cols;
    // Each unit sums exponentials relative to its own maximum so far.
    let mut maximum = f32::min_value();
    let mut exp_sum = 0.0f32;
    let mut target_logit = 0.0f32;
    let mut column = unit;
    while column < cols {
        let x = optionally_capped(logits[start + column], softcap, capped);
        let new_max = max(maximum, x);
        exp_sum = exp_sum * bounded_exp(maximum - new_max) + bounded_exp(x - new_max);
        maximum = new_max;
        if column == target {
            target_logit = x;
        }
        column += UNITS;
    }
    let mut shared = Shared::<[f32]>::new_slice(UNITS);
    let row_max = reduce_max(maximum, &mut shared, UNITS);
    let total = reduce_sum(exp_sum * bounded_exp(maximum - row_max), &mut shared, UNITS);
    if has_target {
        // Written by the unit that has read the target's logit.
        if unit == target % UNITS {
            losses[CUBE_POS] = row_max - target_logit + total.ln();
        }
    } else if unit == 0 {
        losses[CUBE_POS] = 0.0f32;
    }
    if comptime!(gradient) {
        let factor = scale / total;
        let mut column = unit;
        while column < cols {
            let mut d_logit = 0.0f32;
            if has_target {
                let x = optionally_capped(logits[start + column], softcap, capped);
                d_logit = bounded_exp(x - row_max) * factor;
                if column == target {
                    d_logit -= scale;
                }
                if comptime!(capped) {
                    d_logit *= softcap_slope(x, softcap);
                }
            }
            logits[start + column] = d_logit;
            column += UNITS;
        }
    }
}

/// `-ln p(target)` of each row of `logits [T, V]`, after their softcap if there is one, for
/// `targets`, a buffer of T words: returns a buffer of T floats. If `gradient` is set, replaces the
/// logits by the gradient of the sum of the losses times `scale`: `scale * (p - onehot)`, times the
/// derivative of the softcap.
///
/// A row whose target is not a column, such as [`IGNORE_INDEX`](crate::softmax::IGNORE_INDEX), has
/// loss 0 and zero gradient; the caller checks that other targets are in range.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn cross_entropy_in_place(
    client: &Client,
    logits: &Floats,
    targets: &Handle,
    scale: f32,
    softcap: Option<f32>,
    gradient: bool,
) -> Result<Handle, GpuError> {
    let Floats { rows, cols, .. } = *logits;
    let (logits, targets) = (
        matrix_arg(logits, "logits")?,
        buffer_arg(targets, "list of targets", rows)?,
    );
    let losses = client.empty(rows * size_of::<f32>());
    if rows > 0 {
        let (count, dim) = (cube_count(client, rows)?, CubeDim::new_1d(UNITS as u32));
        let result = buffer_arg(&losses, "losses", rows)?;
        // SAFETY: the kernel accesses rows and columns below the shapes, which the buffers were
        // checked to hold.
        unsafe {
            cross_entropy_rows::launch_unchecked(
                client,
                count,
                dim,
                logits,
                targets,
                result,
                rows,
                cols,
                scale,
                softcap.unwrap_or(1.0),
                softcap.is_some(),
                gradient,
            )
        };
    }
    Ok(losses)
}

//! Cross-entropy over rows of logits on a GPU, and its gradient: a cube makes a row.

use crate::gpu::exp::bounded_exp;
use crate::gpu::launch::{argument, cubes, matrix};
use crate::gpu::reduce::{greatest, sum};
use crate::gpu::{Floats, GpuError};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units that share a row; a power of two.
const UNITS: usize = 256;

#[cube(launch_unchecked)]
fn of_rows(
    logits: &mut [f32],
    targets: &[u32],
    losses: &mut [f32],
    rows: usize,
    cols: usize,
    scale: f32,
    #[comptime] gradient: bool,
) {
    if CUBE_POS >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first = CUBE_POS * cols;
    let target = targets[CUBE_POS] as usize;
    let trained = target < cols;
    // Each unit's sum is of exponentials below those of the greatest that it has met.
    let mut most = f32::min_value();
    let mut part = 0.0f32;
    let mut of_target = 0.0f32;
    let mut column = unit;
    while column < cols {
        let x = logits[first + column];
        let above = max(most, x);
        part = part * bounded_exp(most - above) + bounded_exp(x - above);
        most = above;
        if column == target {
            of_target = x;
        }
        column += UNITS;
    }
    let mut room = Shared::<[f32]>::new_slice(UNITS);
    let above = greatest(most, &mut room, UNITS);
    let total = sum(part * bounded_exp(most - above), &mut room, UNITS);
    if trained {
        // The one that has met the target's logit.
        if unit == target % UNITS {
            losses[CUBE_POS] = above - of_target + total.ln();
        }
    } else if unit == 0 {
        losses[CUBE_POS] = 0.0f32;
    }
    if comptime!(gradient) {
        let factor = scale / total;
        let mut column = unit;
        while column < cols {
            let mut slope = 0.0f32;
            if trained {
                slope = bounded_exp(logits[first + column] - above) * factor;
                if column == target {
                    slope -= scale;
                }
            }
            logits[first + column] = slope;
            column += UNITS;
        }
    }
}

/// `-ln p(target)` of each row of `logits [T, V]` against `targets`, a buffer of T words: returns a buffer of T floats. Where
/// `gradient` is set, the logits become the gradient of the sum of the losses times `scale`: `scale * (p - onehot)`.
///
/// A row whose target is none of the columns, such as [`IGNORED`](crate::softmax::IGNORED), has loss 0 and no gradient: whether
/// targets are meant is for the caller to check, who knows them.
///
/// # Errors
/// Where the sizes do not fit.
pub fn cross_entropy_in_place(
    client: &Client,
    logits: &Floats,
    targets: &Handle,
    scale: f32,
    gradient: bool,
) -> Result<Handle, GpuError> {
    let Floats { rows, cols, .. } = *logits;
    let (logits, targets) = (matrix(logits, "logits")?, argument(targets, "list of targets", rows)?);
    let losses = client.empty(rows * size_of::<f32>());
    if rows > 0 {
        let (count, dim) = (cubes(client, rows)?, CubeDim::new_1d(UNITS as u32));
        let result = argument(&losses, "losses", rows)?;
        // SAFETY: the kernel reads and writes rows and columns below the shapes, which the buffers were measured to hold.
        unsafe { of_rows::launch_unchecked(client, count, dim, logits, targets, result, rows, cols, scale, gradient) };
    }
    Ok(losses)
}

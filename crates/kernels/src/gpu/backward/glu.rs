//! The gradient of gated units: one element of gate and one of up per unit.

use crate::glu::Activation;
use crate::gpu::glu::{CUBIC, ROOT_2_PI, sigmoid};
use crate::gpu::launch::{check_equal, cube_count, matrix_arg};
use crate::gpu::{Floats, GpuError};
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;

#[cube(launch_unchecked)]
fn glu_gradients(
    gate_up: &[f32],
    dh: &[f32],
    out: &mut [f32],
    elements: usize,
    cols: usize,
    #[comptime] activation: Activation,
) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let gate_index = ABSOLUTE_POS / cols * 2 * cols + ABSOLUTE_POS % cols;
    let up_index = gate_index + cols;
    let x = gate_up[gate_index];
    let (activated, slope) = match activation {
        Activation::Silu => {
            let s = sigmoid(x);
            (x * s, s + x * s * (1.0f32 - s))
        }
        Activation::GeluTanh => {
            let square = x * x;
            // (1 + tanh(u)) / 2 is sigmoid(2 u), and 1 - tanh(u)^2 is 4 s (1 - s).
            let s = sigmoid(2.0f32 * ROOT_2_PI * x * (1.0f32 + CUBIC * square));
            let d_inner = ROOT_2_PI * (1.0f32 + 3.0f32 * CUBIC * square);
            (x * s, s + 2.0f32 * x * s * (1.0f32 - s) * d_inner)
        }
    };
    let d = dh[ABSOLUTE_POS];
    out[gate_index] = d * gate_up[up_index] * slope;
    out[up_index] = d * activated;
}

/// The gradient of `activation(gate) * up` at `gate_up [T, 2 F]`, from the gradient `dh [T, F]` of
/// its output: gate and up side by side, `[T, 2 F]`.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn glu_backward(
    client: &Client,
    gate_up: &Floats,
    activation: Activation,
    dh: &Floats,
) -> Result<Floats, GpuError> {
    let Floats { rows, cols, .. } = *dh;
    check_equal("number of rows of a gate and up", gate_up.rows, rows)?;
    check_equal(
        "number of columns of a gate and up",
        gate_up.cols,
        cols.saturating_mul(2),
    )?;
    let (x, dh) = (
        matrix_arg(gate_up, "gate and up")?,
        matrix_arg(dh, "gradient of gated units")?,
    );
    let out = Floats::empty(client, rows, 2 * cols);
    let elements = rows * cols;
    if elements > 0 {
        let (count, dim) = (
            cube_count(client, elements.div_ceil(UNITS))?,
            CubeDim::new_1d(UNITS as u32),
        );
        let result = matrix_arg(&out, "gradient of a gate and up")?;
        // SAFETY: the kernel reads and writes elements below the shapes, which the buffers were
        // checked to hold.
        unsafe { glu_gradients::launch_unchecked(client, count, dim, x, dh, result, elements, cols, activation) };
    }
    Ok(out)
}

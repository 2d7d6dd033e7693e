//! Gated units: `activation(gate) * up`. <https://arxiv.org/abs/2002.05202>

use super::exp::bounded_exp;
use super::launch::{cube_count, matrix_arg};
use super::{Floats, GpuError};
use crate::glu::Activation;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;
/// `sqrt(2 / pi)`.
pub(super) const ROOT_2_PI: f32 = 0.797_884_6;
/// Coefficient of the cubic term of GELU's tanh approximation.
pub(super) const CUBIC: f32 = 0.044_715;

/// `1 / (1 + exp(-x))`, with a bounded exponential: devices differ in how they handle infinity.
#[cube]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0f32 / (1.0f32 + bounded_exp(min(-x, 80.0f32)))
}

/// Applies the activation function.
#[cube]
fn activate(x: f32, #[comptime] activation: Activation) -> f32 {
    match activation {
        Activation::Silu => x * sigmoid(x),
        // (1 + tanh z) / 2 is the sigmoid of 2 z.
        Activation::GeluTanh => x * sigmoid(2.0f32 * ROOT_2_PI * (x + CUBIC * x * x * x)),
    }
}

#[cube(launch_unchecked)]
fn gated(gate_up: &[f32], out: &mut [f32], rows: usize, width: usize, #[comptime] activation: Activation) {
    if ABSOLUTE_POS >= rows * width {
        terminate!();
    }
    let gate_index = ABSOLUTE_POS / width * 2 * width + ABSOLUTE_POS % width;
    out[ABSOLUTE_POS] = activate(gate_up[gate_index], activation) * gate_up[gate_index + width];
}

/// Gated units `[T, F]` of a matrix `[T, 2 F]` whose rows are gate, then up.
///
/// # Errors
/// Returns an error if the buffer is shorter than its shape or the number of columns is odd.
pub fn glu(client: &Client, gate_up: &Floats, activation: Activation) -> Result<Floats, GpuError> {
    if !gate_up.cols.is_multiple_of(2) {
        return Err(GpuError::Size {
            what: "width of gate and up",
            found: gate_up.cols,
            expected: gate_up.cols + 1,
        });
    }
    let out = Floats::empty(client, gate_up.rows, gate_up.cols / 2);
    let (input, result) = (matrix_arg(gate_up, "gates")?, matrix_arg(&out, "gated units")?);
    if out.rows * out.cols > 0 {
        let count = cube_count(client, (out.rows * out.cols).div_ceil(UNITS))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the gate and up elements of an element of `out` are in the same row of the input,
        // which was checked.
        unsafe { gated::launch_unchecked(client, count, dim, input, result, out.rows, out.cols, activation) };
    }
    Ok(out)
}

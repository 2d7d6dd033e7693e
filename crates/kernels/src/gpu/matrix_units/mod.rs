//! GEMM on matrix units (tensor cores) that multiply f16 and accumulate in f32, if the device has
//! them.
//!
//! Activations and weights are rounded to f16, whose range is small, so each is first scaled by a
//! power of two that brings its maximum near the top of that range: one scale per token's
//! activations, and one per cube for its part of a weight. The f32 sums are scaled back, which is
//! exact. The relative rounding error of an element is therefore at most 1/2048, whatever the
//! magnitude of the maximum. Only elements at least 2^14 times smaller than the maximum may lose
//! more, or become 0; that error is below the largest rounding error of the maximum itself.

mod activations;
mod decode;
mod multiply;
mod tiles;

pub(super) use multiply::multiply;
pub(super) use tiles::SumOver;

use super::launch::GEMV_TOKENS;
use crate::blocks::Quant;
use crate::linear::MatmulPrecision;
use cubecl::prelude::Client;

/// Returns `true` if [`linear`](super::linear()) over `tokens` uses matrix units with a weight of
/// this format: the precision must allow rounding to f16, and the device must list matrix units for
/// planes of one size.
pub fn linear_uses_matrix_units(client: &Client, quant: Quant, tokens: usize, precision: MatmulPrecision) -> bool {
    let allows_rounding = matches!(precision, MatmulPrecision::Int8Activations | MatmulPrecision::Bf16);
    allows_rounding && tokens > GEMV_TOKENS && tiles::choose(client, quant, tokens, SumOver::Columns).is_some()
}

/// Returns `true` if [`weight_backward`](super::weight_backward()) uses matrix units for a gradient
/// of `tokens` through a weight of this format: only in [`MatmulPrecision::Bf16`], since the
/// gradient of [`MatmulPrecision::Int8Activations`] is computed in f32.
pub fn backward_uses_matrix_units(client: &Client, quant: Quant, tokens: usize, precision: MatmulPrecision) -> bool {
    precision == MatmulPrecision::Bf16
        && tokens > GEMV_TOKENS
        && tiles::choose(client, quant, tokens, SumOver::Rows).is_some()
}

//! Products of many tokens on a device's matrix units, where it has such that multiply f16 and sum in f32.
//!
//! Both factors are rounded to f16, whose range is small, so each is first multiplied by a power of two that puts its greatest number
//! near the top of that range: a token's activations by their own, and what a cube takes of a weight by one. The sums, which are f32, are
//! multiplied back, which is exact. So a factor is off by one part in 2048 at most, however large or small all of them are; only one that is
//! 2^14 times smaller than the greatest beside it may lose more, or all, which is less than that one's own rounding.

mod decode;
mod halves;
mod multiply;
mod tiles;

pub(super) use multiply::multiply;
pub(super) use tiles::Over;

use super::linear::FEW;
use crate::blocks::Quant;
use crate::linear::Product;
use cubecl::prelude::Client;

/// Whether [`linear`](super::linear()) over `tokens` takes matrix units for the product with a weight of this format: where chat or training asks for
/// products that round their factors, and the device lists such units for planes of one size.
pub fn linear_takes_matrix_units(client: &Client, quant: Quant, tokens: usize, product: Product) -> bool {
    let rounds = matches!(product, Product::Fast | Product::Bf16);
    rounds && tokens > FEW && tiles::choose(client, quant, tokens, Over::Columns).is_some()
}

/// Whether [`weight_backward`](super::weight_backward()) takes matrix units for a gradient of `tokens` through a weight of this
/// format: for [`Product::Bf16`] only, since the gradient of [`Product::Fast`] is the exact one.
pub fn backward_takes_matrix_units(client: &Client, quant: Quant, tokens: usize, product: Product) -> bool {
    product == Product::Bf16 && tokens > FEW && tiles::choose(client, quant, tokens, Over::Rows).is_some()
}

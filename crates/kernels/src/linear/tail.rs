//! What follows an int8 product.

use super::tiled::{Talls, low_rank};
use super::{FEW, Linear, Lora};
use crate::dense::{Into, Target, View, matmul};
use crate::dot::Isa;
use crate::shape::{self, ShapeError};
use crate::softmax;

/// What follows the product, over it: the weight's scale, the adapter on the same input `x [T, in]`, the bias.
///
/// # Errors
/// Where the sizes do not fit.
pub(crate) fn apply_linear_tail(linear: &Linear, x: &[f32], y: &Target) -> Result<(), ShapeError> {
    linear.check()?;
    let (tokens, rows) = (y.rows(), linear.weight.rows());
    shape::length("the columns of a linear's output", y.cols(), Some(rows))?;
    // SAFETY: here and below, the rows are taken one after the other by this thread alone.
    let row = |token| unsafe { y.part(token, 0, rows) };
    if linear.scale != 1.0 {
        (0..tokens).for_each(|token| row(token).iter_mut().for_each(|y| *y *= linear.scale));
    }
    if let Some(lora) = &linear.lora
        && tokens <= FEW
        && lora.dropout.is_none()
    {
        shape::length("a linear's input", x.len(), tokens.checked_mul(linear.weight.cols()))?;
        for (token, x) in x.chunks_exact(linear.weight.cols().max(1)).enumerate() {
            add_adapter(Isa::best(), lora, x, row(token));
        }
    } else if let Some(lora) = &linear.lora {
        let low = low_rank(lora, &Talls::<f32>::new(x, tokens, linear.weight.cols())?)?;
        let b = View::all(lora.b, rows, lora.rank)?.transposed();
        matmul(View::all(&low, tokens, lora.rank)?, b, lora.scale, y, Into::Add)?;
    }
    if let Some(bias) = linear.bias {
        (0..tokens).for_each(|token| row(token).iter_mut().zip(bias).for_each(|(y, bias)| *y += bias));
    }
    Ok(())
}

/// An adapter for one token, on this thread: two thin products, not worth a dispatch.
fn add_adapter(isa: Isa, lora: &Lora, x: &[f32], y: &mut [f32]) {
    let low: Vec<f32> = lora
        .a
        .chunks_exact(x.len())
        .map(|a| lora.scale * softmax::product(isa, x, a))
        .collect();
    for (y, b) in y.iter_mut().zip(lora.b.chunks_exact(lora.rank.max(1))) {
        *y += softmax::product(isa, &low, b);
    }
}

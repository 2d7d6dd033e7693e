//! Tiled GEMM: frozen weights dequantized on the fly, adapters, and the gradients of both.
//!
//! The microkernel keeps an output tile of [`MR`] x [`NR`], twelve rows by two vectors, in
//! registers and loops once over the inner dimension. Lhs panels are transposed, `[k][MR]`, and
//! their elements are broadcast; rhs panels are `[k][NR]`. The elements are [`factor::Factor`]s:
//! one f32, or two neighbors of the inner dimension rounded to bf16.

#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod factor;
mod interleave;
mod microkernel;
mod output;
mod product;
mod tall_skinny;
mod view;

pub(crate) use factor::{Bf16Pair, Factor};
pub(crate) use interleave::interleave;
pub(crate) use output::Epilogue;
pub use output::{Accumulate, ViewMut};
pub(crate) use product::{Rhs, Segment, product};
pub(crate) use tall_skinny::{Orientation, tall_skinny};
pub use view::View;
pub(crate) use view::{pack_lhs, pack_rhs};

use crate::lanes::WIDTH;
use crate::shape::{self, ShapeError};

/// Rows of an output tile: 12 * 2 accumulators and two rhs vectors fit in the 32 registers of
/// AVX-512.
pub(crate) const MR: usize = 12;
/// Columns of an output tile.
pub(crate) const NR: usize = 2 * WIDTH;

/// Writes, or adds, `scale * left right` to `target [m, n]`, with `left [m, k]` and `right [k, n]`.
///
/// # Errors
/// If the sizes do not match.
pub fn matmul(
    left: View,
    right: View,
    scale: f32,
    target: &mut ViewMut,
    accumulate: Accumulate,
) -> Result<(), ShapeError> {
    shape::length("the rows of a product's right factor", right.rows(), Some(left.cols()))?;
    shape::length("the rows of a product", target.rows(), Some(left.rows()))?;
    shape::length("the columns of a product", target.cols(), Some(right.cols()))?;
    let lhs = pack_lhs::<f32>(left);
    let segment = Segment {
        lhs: &lhs,
        depth: left.cols(),
        rhs: Rhs::Expand(&|depth, first, out| right.fill_rhs(depth, first, out)),
    };
    product(
        &[segment],
        1,
        Epilogue {
            scale,
            bias: None,
            accumulate,
        },
        target,
    );
    Ok(())
}

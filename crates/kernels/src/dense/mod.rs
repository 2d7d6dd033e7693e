//! Products of matrices, tiled: frozen weights expanded as they are needed, adapters, and the gradients of both.
//!
//! A tile of the result, twelve rows by two vectors, stays in registers while the common dimension is walked once. Its left
//! factor lies transposed, `[k][12]`, so that one broadcast serves two vectors; its right one lies `[k][32]`. A [`factor::Factor`] is
//! what lies there: a number, or two neighbours of the common dimension rounded to bf16.

#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod factor;
mod product;
mod target;
mod thin;
mod tile;
mod view;

pub(crate) use factor::{Factor, Pair, join};
pub(crate) use product::{Segment, Wide, product};
pub(crate) use target::Finish;
pub use target::{Into, Target};
pub(crate) use thin::{Side, thin};
pub(crate) use tile::add_products;
pub use view::View;
pub(crate) use view::{pack_tall, pack_wide};

use crate::lanes::WIDTH;
use crate::shape::{self, ShapeError};

/// Rows of a tile: 12 * 2 sums, two right vectors and a broadcast fill the 32 registers of AVX-512.
pub(crate) const TALL: usize = 12;
/// Columns of a tile.
pub(crate) const WIDE: usize = 2 * WIDTH;

/// `target` becomes, or grows by, `scale * left right`, with `left [m, k]` and `right [k, n]`.
///
/// # Errors
/// Where the sizes do not fit.
pub fn matmul(left: View, right: View, scale: f32, target: &mut Target, into: Into) -> Result<(), ShapeError> {
    shape::length("the rows of a product's right factor", right.rows(), Some(left.cols()))?;
    shape::length("the rows of a product", target.rows(), Some(left.rows()))?;
    shape::length("the columns of a product", target.cols(), Some(right.cols()))?;
    let talls = pack_tall::<f32>(left);
    let segment = Segment {
        talls: &talls,
        depth: left.cols(),
        wide: Wide::Expand(&|depth, first, out| right.fill_wide(depth, first, out)),
    };
    product(
        &[segment],
        1,
        Finish {
            scale,
            bias: None,
            into,
        },
        target,
    );
    Ok(())
}

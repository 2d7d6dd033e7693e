//! GPU kernels in CubeCL: one source for WGSL, SPIR-V, Metal and CUDA.
//!
//! Kernels use only what plain WGSL has: 32-bit words, integer shifts, f32. Nothing depends on the
//! plane size, since software drivers have 4 or 8. The one exception is `matrix_units`, used only
//! on devices that report matrix units.

mod argmax;
mod attention;
mod backward;
pub(crate) mod bytes;
mod cache;
pub(crate) mod decode;
mod dequantize;
mod error;
mod exp;
mod f16;
mod glu;
mod heads;
mod launch;
mod linear;
mod matmul;
mod matrix_units;
mod norm;
mod norm_over_heads;
mod operands;
mod qk_norm_rope;
mod reduce;
mod row_ranges;
mod softcap;
mod tiles;
mod weight_tile;

pub use argmax::argmax;
pub use attention::{CachedRows, attend_batch, attend_batch_both_ways, attend_cached};
pub use backward::{
    attend_batch_backward, cross_entropy_in_place, dropout_rows, glu_backward, linear_backward, qk_norm_rope_backward,
    rms_norm_backward, weight_backward, weight_backward_with_limit,
};
pub use cache::{copy_page, kv_write};
pub use dequantize::{dequantize, embed, words};
pub use error::GpuError;
pub use glu::glu;
pub use linear::{linear, linear_add, linear_with_limit};
pub use matmul::{Transpose, matmul};
pub use matrix_units::{backward_uses_matrix_units, linear_uses_matrix_units};
pub use norm::{add_norm, rms_norm};
pub use operands::{Floats, Linear, Lora, Norm, Weight};
pub use qk_norm_rope::{QkNormRope, Rotation, qk_norm_rope, rope_table};
pub use softcap::softcap_in_place;

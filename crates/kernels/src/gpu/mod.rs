//! The same formats on a GPU, in CubeCL: one source for WGSL, SPIR-V, Metal and CUDA.
//!
//! Only what plain WGSL has is used: words of 32 bits, integer shifts, f32. Nothing depends on how many lanes a driver runs
//! together, for software drivers have 4 or 8. The one exception is `matrix_units`, which only devices that list them ever see.

mod argmax;
mod attention;
mod backward;
mod blocks;
mod cache;
mod dequantize;
mod error;
mod exp;
mod f16;
mod glu;
mod heads;
mod launch;
mod linear;
mod matrix_units;
mod norm;
mod operands;
mod pieces;
mod product;
mod reduce;
mod rotate;
mod tiles;

pub use argmax::argmax;
pub use attention::{attend_batch, attend_cells};
pub use backward::{
    attend_batch_backward, cross_entropy_in_place, drop_out, glu_backward, linear_backward, prepare_backward,
    rms_norm_backward, weight_backward, weight_backward_within,
};
pub use cache::kv_write;
pub use dequantize::{dequantize, embed, words};
pub use error::GpuError;
pub use glu::glu;
pub use linear::{linear, linear_within};
pub use matrix_units::{backward_takes_matrix_units, linear_takes_matrix_units};
pub use norm::{add_norm, rms_norm};
pub use operands::{Floats, Linear, Lora, Norm, Weight};
pub use product::{Turned, product};
pub use rotate::{prepare, rope_table};

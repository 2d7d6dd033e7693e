//! Quantised blocks and the hot loops over slices: no tensors, no files, only numbers.

pub mod adamw;
pub mod attention;
pub mod bf16s;
pub mod blocks;
pub mod cross_entropy;
pub mod dense;
pub mod dot;
pub mod dropout;
mod expand;
pub mod glu;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod gradients;
pub mod half_layer;
mod lanes;
pub mod linear;
pub mod matrix;
pub mod norm;
pub mod packed;
pub mod reference;
pub mod rope;
pub mod scratch;
mod shape;
pub mod softmax;
pub mod team;

pub use bf16s::bf16_is_fast;
pub use blocks::Quant;
pub use dot::Isa;
pub use dropout::Dropout;
pub use half::bf16;
pub use linear::{Linear, Lora, LoraGradient, Norm, Product};
pub use matrix::{Layout, Matrix};
pub use shape::ShapeError;

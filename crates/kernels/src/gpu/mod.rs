//! The same formats on a GPU, in CubeCL: one source for WGSL, SPIR-V, Metal and CUDA.
//!
//! Only what plain WGSL has is used: words of 32 bits, integer shifts, f32. Nothing depends on how many lanes a driver runs
//! together, for software drivers have 4 or 8.

mod blocks;
mod dequantize;
mod error;
mod launch;
mod linear;
mod operands;
mod product;
mod tiles;

pub use dequantize::{dequantize, dequantize_rows, words};
pub use error::GpuError;
pub use linear::{linear, linear_within};
pub use operands::{Floats, Linear, Lora, Norm, Weight};
pub use product::{Turned, product};

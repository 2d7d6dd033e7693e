//! Quantized blocks and CPU and GPU kernels over slices: no tensors, no files.

// Kernels take each size as an argument; a struct per call would hide more than it shows.
#![allow(clippy::too_many_arguments)]

pub mod adamw;
pub mod attention;
pub mod bf16_slices;
pub mod blocks;
pub mod cross_entropy;
pub mod dropout;
mod expand;
pub mod fused;
pub mod gemm;
pub mod gemv;
pub mod glu;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod gradients;
pub mod isa;
mod lanes;
pub mod linear;
pub mod matrix;
pub mod norm;
pub mod packed;
mod prefetch;
pub mod reference;
pub mod rope;
pub mod scratch;
mod shape;
pub mod softcap;
pub mod softmax;
pub mod team;

pub use bf16_slices::bf16_is_fast;
pub use blocks::Quant;
pub use dropout::Dropout;
pub use half::bf16;
pub use isa::Isa;
pub use linear::{Linear, Lora, LoraGradient, MatmulPrecision, Norm};
pub use matrix::{Layout, Matrix};
pub use prefetch::{Calibrated, Prefetch, PrefetchError, calibrate};
pub use shape::ShapeError;

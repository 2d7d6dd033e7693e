//! Quantised blocks and the hot loops over slices: no tensors, no files, only numbers.

pub mod blocks;
pub mod dot;

//! What kernels are given: buffers on a device, and their shapes.

use super::GpuError;
use crate::blocks::Quant;
use crate::dropout::Dropout;
use cubecl::prelude::Client;
use cubecl::server::Handle;

/// A matrix of f32 `[rows, cols]` on the device, its rows one behind the other.
#[derive(Clone, Debug)]
pub struct Floats {
    /// The buffer.
    pub handle: Handle,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl Floats {
    /// Room for a matrix, with whatever the memory holds.
    pub fn empty(client: &Client, rows: usize, cols: usize) -> Self {
        let handle = client.empty(rows * cols * size_of::<f32>());
        Self { handle, rows, cols }
    }

    /// `count` of its rows from `first`, in place. Devices bind buffers at multiples of 256 bytes only, so `first` rows should take one.
    pub fn rows_from(&self, first: usize, count: usize) -> Self {
        let (first, count) = (first.min(self.rows), count.min(self.rows.saturating_sub(first)));
        let row = self.cols as u64 * 4;
        let after = (self.rows - first - count) as u64 * row;
        Self {
            handle: self.handle.clone().offset_start(first as u64 * row).offset_end(after),
            rows: count,
            cols: self.cols,
        }
    }

    /// The matrix of a buffer.
    ///
    /// # Errors
    /// Where the buffer is too short for it.
    pub fn new(handle: Handle, rows: usize, cols: usize) -> Result<Self, GpuError> {
        let (needed, found) = (rows as u64 * cols as u64 * 4, handle.size_in_used());
        match found < needed {
            true => Err(GpuError::Short {
                what: "matrix",
                needed,
                found,
            }),
            false => Ok(Self { handle, rows, cols }),
        }
    }
}

/// A frozen weight `[rows, cols]`: the file's blocks, as words (see [`words`](super::words)).
#[derive(Clone, Debug)]
pub struct Weight {
    /// The blocks.
    pub words: Handle,
    /// Their format.
    pub quant: Quant,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
}

/// An adapter: adds `scale * (x a^T) b^T`.
#[derive(Clone, Debug)]
pub struct Lora {
    /// `[rank, in]`.
    pub a: Floats,
    /// `[out, rank]`.
    pub b: Floats,
    /// alpha / rank.
    pub scale: f32,
    /// Which of its inputs are left out; in training only.
    pub dropout: Option<Dropout>,
}

/// `y = scale * (x W^T) + lora(x) + bias`, in this order.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The weight.
    pub weight: Weight,
    /// Its own scale; 1 where it has none.
    pub scale: f32,
    /// What training adds.
    pub lora: Option<Lora>,
    /// `[out]`.
    pub bias: Option<Handle>,
}

/// RMSNorm: `x * weight / sqrt(mean(x^2) + eps)`.
#[derive(Clone, Debug)]
pub struct Norm {
    /// As long as what is normalised.
    pub weight: Handle,
    /// Keeps the root away from zero.
    pub eps: f32,
}

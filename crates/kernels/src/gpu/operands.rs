//! Kernel operands: buffers on a device and their shapes.

use super::GpuError;
use crate::blocks::Quant;
use crate::dropout::Dropout;
use cubecl::prelude::Client;
use cubecl::server::Handle;

/// An f32 matrix `[rows, cols]` on the device, row-major.
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
    /// Allocates an uninitialized matrix.
    pub fn empty(client: &Client, rows: usize, cols: usize) -> Self {
        let handle = client.empty(rows * cols * size_of::<f32>());
        Self { handle, rows, cols }
    }

    /// A view of `count` rows from `first` on. Devices bind buffers only at multiples of 256 bytes,
    /// so the size of `first` rows should be a multiple of 256 bytes.
    pub fn rows_from(&self, first: usize, count: usize) -> Self {
        let (first, count) = (first.min(self.rows), count.min(self.rows.saturating_sub(first)));
        let row_bytes = self.cols as u64 * 4;
        let end = (self.rows - first - count) as u64 * row_bytes;
        Self {
            handle: self
                .handle
                .clone()
                .offset_start(first as u64 * row_bytes)
                .offset_end(end),
            rows: count,
            cols: self.cols,
        }
    }

    /// Wraps a buffer.
    ///
    /// # Errors
    /// Returns an error if the buffer is too short.
    pub fn new(handle: Handle, rows: usize, cols: usize) -> Result<Self, GpuError> {
        let (needed, found) = (rows as u64 * cols as u64 * 4, handle.size_in_used());
        if found < needed {
            Err(GpuError::Short {
                what: "matrix",
                needed,
                found,
            })
        } else {
            Ok(Self { handle, rows, cols })
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
    /// Dropout of the adapter's input; in training only.
    pub dropout: Option<Dropout>,
}

/// `y = scale * (x W^T) + lora(x) + bias`, in this order.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The weight.
    pub weight: Weight,
    /// The weight's own scale; 1 if it has none.
    pub scale: f32,
    /// The adapter.
    pub lora: Option<Lora>,
    /// `[out]`.
    pub bias: Option<Handle>,
}

impl Linear {
    /// A linear whose gradients are `factor` times the gradients of this one: they are proportional
    /// to the scales of weight and adapter. The bias has no gradient.
    pub fn with_gradients_times(mut self, factor: f32) -> Self {
        self.scale *= factor;
        if let Some(lora) = &mut self.lora {
            lora.scale *= factor;
        }
        self
    }
}

/// RMSNorm: `x * weight / sqrt(mean(x^2) + eps)`.
#[derive(Clone, Debug)]
pub struct Norm {
    /// One element per column of the input.
    pub weight: Handle,
    /// Added to the mean for numerical stability.
    pub eps: f32,
}

//! Uploads index lists and RoPE tables to a GPU, once for all layers of a pass.

use super::Tensor;
use crate::batch::{Batch, GroupRows};
use crate::ops::SharedRope;
use crate::per_device::{BatchIndices, CacheIndices, RopeTable, persistent};
use cubecl::server::Handle;
use hearth_kernels::gpu;

/// The number of positions in a RoPE table is a multiple of this.
const TABLE_STEP: usize = 256;

/// Uploads integers to the device of `like`.
pub(super) fn upload_indices(like: &Tensor, indices: &[u32]) -> Handle {
    like.client.create_from_slice(bytemuck::cast_slice(indices))
}

impl SharedRope {
    /// The table of at least `positions` positions on the device of `like`.
    pub(super) fn table(&self, like: &Tensor, positions: usize) -> RopeTable {
        let is_long_enough = |table: &RopeTable| table.positions >= positions;
        self.tables.get(&like.device, is_long_enough, || {
            let positions = positions.next_multiple_of(TABLE_STEP);
            let angles = gpu::rope_table(self, positions);
            RopeTable {
                angles: persistent(like, bytemuck::cast_slice(&angles)),
                positions,
            }
        })
    }
}

impl Batch {
    /// The number of positions that the RoPE table needs.
    pub(super) fn rope_positions(&self) -> usize {
        match self.context() {
            // The whole context, so that the table is not replaced as sequences grow.
            Some(context) => context,
            None => self.positions().iter().max().map_or(0, |last| *last as usize + 1),
        }
    }

    /// The indices of the batch on the device of `like`.
    pub(super) fn indices(&self, like: &Tensor) -> BatchIndices {
        let upload = || {
            let positions = upload_indices(like, self.positions());
            let starts = if self.is_cached() {
                positions.clone()
            } else {
                upload_indices(like, &[self.starts(), self.ends().unwrap_or_default()].concat())
            };
            BatchIndices { positions, starts }
        };
        self.indices.get(&like.device, |_| true, upload)
    }
}

impl GroupRows {
    /// The indices of the rows in the KV cache, on the device of `like`.
    pub(super) fn indices(&self, like: &Tensor) -> CacheIndices {
        let upload = || CacheIndices {
            cells: upload_indices(like, &self.cells),
            pages: self
                .sequences
                .iter()
                .map(|sequence| upload_indices(like, &sequence.pages))
                .collect(),
        };
        self.indices.get(&like.device, |_| true, upload)
    }
}

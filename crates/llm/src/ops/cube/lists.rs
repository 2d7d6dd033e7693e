//! Lists and tables on a GPU that all layers of a pass share.

use super::Tensor;
use crate::batch::{Batch, GroupRows};
use crate::ops::SharedRope;
use crate::per_device::{BatchLists, GroupLists, RopeTable, persistent};
use cubecl::server::Handle;
use hearth_kernels::gpu;

/// Positions that the RoPE table grows by.
const PAGE: usize = 256;

/// A buffer of integers on the device of `like`.
pub(super) fn list(like: &Tensor, numbers: &[u32]) -> Handle {
    like.client.create_from_slice(bytemuck::cast_slice(numbers))
}

impl SharedRope {
    /// The table of at least `positions` positions on the device of `like`.
    pub(super) fn table(&self, like: &Tensor, positions: usize) -> RopeTable {
        let enough = |table: &RopeTable| table.positions >= positions;
        self.tables.get(&like.device, enough, || {
            let positions = positions.next_multiple_of(PAGE);
            let angles = gpu::rope_table(self, positions);
            RopeTable {
                angles: persistent(like, bytemuck::cast_slice(&angles)),
                positions,
            }
        })
    }
}

impl Batch {
    /// Positions that the RoPE table needs.
    pub(super) fn longest(&self) -> usize {
        match self.context() {
            // The table does not grow while sequences do.
            Some(context) => context,
            None => self.positions().iter().max().map_or(0, |last| *last as usize + 1),
        }
    }

    pub(super) fn lists(&self, like: &Tensor) -> BatchLists {
        let make = || {
            let positions = list(like, self.positions());
            let starts = if self.is_cached() {
                positions.clone()
            } else {
                list(like, &[self.starts(), self.ends().unwrap_or_default()].concat())
            };
            BatchLists { positions, starts }
        };
        self.lists.get(&like.device, |_| true, make)
    }
}

impl GroupRows {
    pub(super) fn lists(&self, like: &Tensor) -> GroupLists {
        let make = || GroupLists {
            cells: list(like, &self.cells),
            pages: self.sequences.iter().map(|part| list(like, &part.pages)).collect(),
        };
        self.lists.get(&like.device, |_| true, make)
    }
}

//! Lists and tables on a GPU that all layers of a pass share.

use super::Tensor;
use crate::kv::KvPool;
use crate::ops::{Segments, SequenceView, SharedRope};
use crate::per_device::{BatchLists, RopeTable, SequenceLists, persistent};
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

impl Segments {
    /// The maximum position plus 1; 0 if empty.
    pub(super) fn longest(&self) -> usize {
        self.positions.iter().max().map_or(0, |last| *last as usize + 1)
    }

    pub(super) fn lists(&self, like: &Tensor) -> BatchLists {
        let make = || BatchLists {
            positions: list(like, &self.positions),
            starts: list(like, &self.starts),
        };
        self.lists.get(&like.device, |_| true, make)
    }
}

impl SequenceView {
    pub(super) fn lists(&self, like: &Tensor, pool: &KvPool) -> SequenceLists {
        let make = || SequenceLists {
            positions: list(like, &self.positions()),
            written: list(like, &self.cells),
            cells: match &self.scattered {
                Some(cells) => list(like, cells),
                None => pool.in_order(like),
            },
        };
        self.lists.get(&like.device, |_| true, make)
    }
}

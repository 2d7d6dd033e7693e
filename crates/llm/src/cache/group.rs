//! Groups of layers whose caches have one shape.

use super::{CacheSize, LayerCells};
use crate::arch::DecoderSpec;
use hearth_kernels::attention::{KvFormat, KvLayer, PAGE};

/// Positions that a windowed group retains behind its window, so that the last tokens can be taken
/// back without a snapshot: those that do not fill a tile are not saved.
const SLACK: usize = KvLayer::TILE;

/// Layers whose KV caches have one shape, and in which a sequence has the same pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerGroup {
    /// The indices of the layers.
    pub layers: Vec<usize>,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Sliding window in tokens, the token itself included; `None` means full attention.
    pub window: Option<usize>,
}

impl LayerGroup {
    /// The groups of a model, in the order of their first layers.
    pub fn from_spec(spec: &DecoderSpec) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (layer, spec) in spec.layers.iter().enumerate() {
            let heads = &spec.heads;
            let same = |group: &&mut Self| {
                (group.kv_heads, group.head_dim, group.window) == (heads.kv_heads, heads.head_dim, heads.window)
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.layers.push(layer),
                None => groups.push(Self {
                    layers: vec![layer],
                    kv_heads: heads.kv_heads,
                    head_dim: heads.head_dim,
                    window: heads.window,
                }),
            }
        }
        groups
    }

    /// KV heads and their width.
    pub(super) fn shape(&self) -> [usize; 2] {
        [self.kv_heads, self.head_dim]
    }

    /// Pages in a cache of this size. A sequence with a window needs the pages of its window and of
    /// a step, and one more because they begin anywhere in a page. A snapshot needs the pages of
    /// its window or, without a window, a copy of its last page.
    pub fn pages(&self, size: &CacheSize) -> usize {
        let full = Self::full_pages(size);
        self.windowed_pages(size).map_or(full, |windowed| windowed.min(full))
    }

    /// The positions that a sequence retains; `None` means all.
    pub(super) fn retained(&self, size: &CacheSize) -> Option<Retained> {
        self.windowed_pages(size)
            .filter(|pages| *pages < Self::full_pages(size))?;
        let positions = self.window?.saturating_add(SLACK);
        Some(Retained {
            positions,
            pages: pages_of(positions.saturating_add(size.step)),
        })
    }

    /// Bytes of one layer on the CPU, in a cache of this size.
    pub fn cpu_bytes(&self, format: KvFormat, size: &CacheSize) -> usize {
        LayerCells::cpu_bytes(format, self.pages(size), self.shape())
    }

    /// Bytes of one layer on a GPU, in a cache of this size.
    pub fn gpu_bytes(&self, format: KvFormat, size: &CacheSize) -> usize {
        LayerCells::gpu_bytes(format, self.pages(size), self.shape())
    }

    fn full_pages(size: &CacheSize) -> usize {
        size.sequences * size.context.div_ceil(PAGE) + size.snapshots + size.reserved_pages()
    }

    fn windowed_pages(&self, size: &CacheSize) -> Option<usize> {
        let positions = self.window?.saturating_add(SLACK);
        let sequences = size
            .sequences
            .saturating_mul(pages_of(positions.saturating_add(size.step)));
        let snapshots = size.snapshots.saturating_mul(pages_of(positions));
        Some(
            sequences
                .saturating_add(snapshots)
                .saturating_add(size.reserved_pages()),
        )
    }
}

/// Pages of this many positions that begin anywhere in a page.
fn pages_of(positions: usize) -> usize {
    positions.div_ceil(PAGE).saturating_add(1)
}

/// The positions and pages that a sequence retains in a windowed group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retained {
    /// Positions before the first of a step, one less.
    pub positions: usize,
    /// Pages that a sequence has during a step, at most.
    pub pages: usize,
}

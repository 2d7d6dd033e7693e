//! Groups of layers whose KV caches have the same shape.

use super::{CacheSize, LayerCells};
use crate::arch::DecoderSpec;
use hearth_kernels::attention::{KvFormat, KvLayer, PAGE};

/// Positions that a group with a sliding window retains behind it. A sequence can be truncated by
/// that many tokens without a snapshot. Saving truncates it, since a KV snapshot has whole tiles.
const SLACK: usize = KvLayer::TILE;

/// Layers whose KV caches have the same shape. A sequence has the same pages in all of them.
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
        let attention = spec.layers.iter().enumerate();
        let attention = attention.filter_map(|(layer, spec)| Some((layer, spec.heads()?)));
        for (layer, heads) in attention {
            let has_this_shape = |group: &&mut Self| {
                (group.kv_heads, group.head_dim, group.window) == (heads.kv_heads, heads.head_dim, heads.window)
            };
            match groups.iter_mut().find(has_this_shape) {
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
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.kv_heads, self.head_dim]
    }

    /// Pages in a cache of this size. With a window, a sequence needs the pages of the window and
    /// of a step, and one more because the window begins anywhere in a page. A snapshot needs the
    /// pages of its window or, without a window, a copy of its last page.
    pub fn pages(&self, size: &CacheSize) -> usize {
        let full = Self::full_pages(size);
        self.windowed_pages(size).map_or(full, |windowed| windowed.min(full))
    }

    /// The positions that a sequence retains; `None` means all.
    pub(super) fn retention(&self, size: &CacheSize) -> Option<Retention> {
        self.windowed_pages(size)
            .filter(|pages| *pages < Self::full_pages(size))?;
        let positions = self.window?.saturating_add(SLACK);
        Some(Retention {
            positions,
            pages: max_pages(positions.saturating_add(size.step)),
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

    /// Pages of a group that retains all positions.
    fn full_pages(size: &CacheSize) -> usize {
        size.sequences * size.context.div_ceil(PAGE) + size.snapshots + size.reserved_pages()
    }

    /// Pages of a group that releases positions behind its window; `None` if it has no window.
    fn windowed_pages(&self, size: &CacheSize) -> Option<usize> {
        let positions = self.window?.saturating_add(SLACK);
        let sequences = size
            .sequences
            .saturating_mul(max_pages(positions.saturating_add(size.step)));
        let snapshots = size.snapshots.saturating_mul(max_pages(positions));
        Some(
            sequences
                .saturating_add(snapshots)
                .saturating_add(size.reserved_pages()),
        )
    }
}

/// Maximum pages of this many consecutive positions, which may begin anywhere in a page.
fn max_pages(positions: usize) -> usize {
    positions.div_ceil(PAGE).saturating_add(1)
}

/// The positions and pages that a sequence retains in a group with a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retention {
    /// The last positions up to and including the first row of a step: the window and the slack.
    pub positions: usize,
    /// Maximum pages of a sequence during a step.
    pub pages: usize,
}

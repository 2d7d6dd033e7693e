//! The KV cache: pages of cells that sequences share.
//!
//! Layers of one shape form a [`LayerGroup`], in which a sequence has the same pages in every
//! layer. A page has the cells of [`PAGE`](hearth_kernels::attention::PAGE) positions. Pages have
//! reference counts, as in PagedAttention: a clone of a [`Sequence`] (a fork) shares them, and a
//! shared page is copied before it is written. A group with a sliding window releases the pages
//! behind its window.
//!
//! A cache can borrow layers of another cache, also of another model. Both then take pages from the
//! same allocator, so that neither overwrites pages of the other, and the borrower has the size of
//! its source.

mod group;
mod layer_cells;
mod page_allocator;
mod page_table;
mod sequence;
mod size;
#[cfg(test)]
mod tests;

pub use group::LayerGroup;
#[cfg(feature = "gpu")]
pub(crate) use layer_cells::GpuCells;
pub use layer_cells::LayerCells;
pub use sequence::Sequence;
pub use size::CacheSize;

use crate::error::CacheError;
use group::Retention;
use hearth_kernels::attention::KvFormat;
use page_allocator::PageAllocator;
use std::sync::Arc;

/// The KV cache of a model's layers.
#[derive(Debug)]
pub struct Cache {
    size: CacheSize,
    format: KvFormat,
    groups: Vec<Group>,
    layers: Vec<CachedLayer>,
    source: Option<Source>,
}

/// Layers of one shape, and the allocator of their pages.
#[derive(Debug)]
struct Group {
    shape: LayerGroup,
    pages: Arc<PageAllocator>,
    /// The positions that a sequence retains; `None` means all.
    retention: Option<Retention>,
}

impl Group {
    /// The first position that a sequence of `length` tokens retains when it continues; `None`
    /// means that it retains all.
    fn first_retained(&self, length: usize) -> Option<usize> {
        self.retention
            .map(|retention| (length + 1).saturating_sub(retention.positions))
    }
}

/// A layer's group and cells.
#[derive(Debug)]
struct CachedLayer {
    group: usize,
    cells: Arc<LayerCells>,
}

/// The cache whose layers are borrowed.
#[derive(Debug)]
struct Source {
    cache: Arc<Cache>,
    /// For each group, the index of the source's group.
    groups: Vec<usize>,
}

impl Cache {
    /// A cache for layers in these groups, which contain each layer once. Memory is committed on
    /// first use.
    pub fn new(groups: &[LayerGroup], format: KvFormat, size: CacheSize) -> Arc<Self> {
        let mut layers: Vec<(usize, CachedLayer)> = Vec::new();
        let add_group = |(index, group): (usize, &LayerGroup)| {
            let pages = group.pages(&size);
            layers.extend(group.layers.iter().map(|layer| {
                let cells = Arc::new(LayerCells::new(format, pages, group.shape()));
                (*layer, CachedLayer { group: index, cells })
            }));
            Group {
                shape: group.clone(),
                pages: Arc::new(PageAllocator::new(pages)),
                retention: group.retention(&size),
            }
        };
        let groups = groups.iter().enumerate().map(add_group).collect();
        layers.sort_by_key(|(layer, _)| *layer);
        Arc::new(Self {
            size,
            format,
            groups,
            layers: layers.into_iter().map(|(_, layer)| layer).collect(),
            source: None,
        })
    }

    /// A cache whose layer `i` is layer `layers[i]` of `source`: it has the same cells, and takes
    /// pages from the same allocator. See [`Sequence::borrowed_by`].
    ///
    /// # Errors
    /// If the source has no such layer.
    pub fn borrowing(source: &Arc<Self>, layers: &[usize]) -> Result<Arc<Self>, CacheError> {
        let (mut groups, mut source_groups) = (Vec::<Group>::new(), Vec::new());
        let mut borrowed = Vec::with_capacity(layers.len());
        for (layer, &source_layer) in layers.iter().enumerate() {
            let cached = source.cached_layer(source_layer)?;
            let index = source_groups.iter().position(|group| *group == cached.group);
            let index = index.unwrap_or_else(|| {
                let group = &source.groups[cached.group];
                source_groups.push(cached.group);
                groups.push(Group {
                    shape: LayerGroup {
                        layers: Vec::new(),
                        ..group.shape.clone()
                    },
                    pages: group.pages.clone(),
                    retention: group.retention,
                });
                groups.len() - 1
            });
            groups[index].shape.layers.push(layer);
            borrowed.push(CachedLayer {
                group: index,
                cells: cached.cells.clone(),
            });
        }
        Ok(Arc::new(Self {
            size: source.size,
            format: source.format,
            groups,
            layers: borrowed,
            source: Some(Source {
                cache: source.clone(),
                groups: source_groups,
            }),
        }))
    }

    /// The context length in tokens.
    pub fn context(&self) -> usize {
        self.size.context
    }

    /// The sizes that the cache was allocated for.
    pub fn size(&self) -> CacheSize {
        self.size
    }

    /// The format of keys and values.
    pub fn format(&self) -> KvFormat {
        self.format
    }

    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The groups of layers.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &LayerGroup> {
        self.groups.iter().map(|group| &group.shape)
    }

    /// Whether a group releases pages behind its window, so that a sequence cannot always be
    /// truncated.
    pub fn is_windowed(&self) -> bool {
        (0..self.groups.len()).any(|group| self.releases(group))
    }

    /// Whether the cache fits a model with these groups of layers: each layer has cells of its
    /// shape, which are retained for at least its window.
    pub(crate) fn fits(&self, groups: &[LayerGroup]) -> bool {
        let layer_fits = |group: &LayerGroup, layer: usize| {
            self.cached_layer(layer).is_ok_and(|cached| {
                let cache_group = &self.groups[cached.group].shape;
                let covers_window = cache_group
                    .window
                    .is_none_or(|max| group.window.is_some_and(|window| window <= max));
                cache_group.shape() == group.shape() && covers_window
            })
        };
        let layers: usize = groups.iter().map(|group| group.layers.len()).sum();
        let group_fits = |group: &LayerGroup| group.layers.iter().all(|layer| layer_fits(group, *layer));
        layers == self.layers.len() && groups.iter().all(group_fits)
    }

    /// Whether a group releases pages behind its window.
    pub(crate) fn releases(&self, group: usize) -> bool {
        self.groups[group].retention.is_some()
    }

    /// The longest window of the groups that release pages.
    pub(crate) fn window(&self) -> Option<usize> {
        let releasing = self.groups.iter().filter(|group| group.retention.is_some());
        releasing.filter_map(|group| group.shape.window).max()
    }

    /// The number of free pages and of all pages, for each group.
    pub fn free_pages(&self) -> Vec<[usize; 2]> {
        let free_and_all = |group: &Group| [group.pages.free(), group.pages.all()];
        self.groups.iter().map(free_and_all).collect()
    }

    /// Allocated bytes of the cells, borrowed ones included.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.cells.bytes()).sum()
    }

    /// A layer's cells.
    pub(crate) fn cells(&self, layer: usize) -> Result<&LayerCells, CacheError> {
        Ok(&self.cached_layer(layer)?.cells)
    }

    /// The group of a layer.
    pub(crate) fn group_of(&self, layer: usize) -> Result<usize, CacheError> {
        Ok(self.cached_layer(layer)?.group)
    }

    fn cached_layer(&self, layer: usize) -> Result<&CachedLayer, CacheError> {
        let layers = self.layers.len();
        self.layers.get(layer).ok_or(CacheError::NoSuchLayer { layer, layers })
    }
}

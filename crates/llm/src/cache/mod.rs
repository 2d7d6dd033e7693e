//! The KV cache: pages of cells that sequences share.
//!
//! Layers of one shape form a [`LayerGroup`], in which a sequence has the same pages in every
//! layer. A page has the cells of [`PAGE`](hearth_kernels::attention::PAGE) positions. Pages are
//! counted: a clone of a [`Sequence`] (a fork) shares them, and a shared page is copied before it
//! is written. A group with a sliding window releases the pages behind its window.
//!
//! A cache may borrow layers of another, also of another model: then both take pages from one
//! allocator, so neither can overrun the other, and the borrower has the size of its source.

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
use group::Retained;
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
    retained: Option<Retained>,
}

impl Group {
    /// The first position that a sequence of `length` tokens retains when it continues; `None`
    /// means that it retains all.
    fn behind_window(&self, length: usize) -> Option<usize> {
        self.retained
            .map(|retained| (length + 1).saturating_sub(retained.positions))
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
    /// The source's group of each group.
    groups: Vec<usize>,
}

impl Cache {
    /// A cache for layers in these groups, which contain each layer once. Memory is committed on
    /// first use.
    pub fn new(groups: &[LayerGroup], format: KvFormat, size: CacheSize) -> Arc<Self> {
        let mut layers: Vec<(usize, CachedLayer)> = Vec::new();
        let of_group = |(number, group): (usize, &LayerGroup)| {
            let pages = group.pages(&size);
            layers.extend(group.layers.iter().map(|layer| {
                let cells = Arc::new(LayerCells::new(format, pages, group.shape()));
                (*layer, CachedLayer { group: number, cells })
            }));
            Group {
                shape: group.clone(),
                pages: Arc::new(PageAllocator::new(pages)),
                retained: group.retained(&size),
            }
        };
        let groups = groups.iter().enumerate().map(of_group).collect();
        layers.sort_by_key(|(layer, _)| *layer);
        Arc::new(Self {
            size,
            format,
            groups,
            layers: layers.into_iter().map(|(_, cells)| cells).collect(),
            source: None,
        })
    }

    /// A cache whose layer `i` is layer `layers[i]` of `source`: it has the same cells, and takes
    /// pages from the same allocator. See [`Sequence::borrowed_by`].
    ///
    /// # Errors
    /// If the source has no such layer.
    pub fn borrowing(source: &Arc<Self>, layers: &[usize]) -> Result<Arc<Self>, CacheError> {
        let (mut groups, mut of_source) = (Vec::<Group>::new(), Vec::new());
        let mut borrowed = Vec::with_capacity(layers.len());
        for (layer, &from) in layers.iter().enumerate() {
            let cached = source.cached_layer(from)?;
            let number = of_source.iter().position(|group| *group == cached.group);
            let number = number.unwrap_or_else(|| {
                let group = &source.groups[cached.group];
                of_source.push(cached.group);
                groups.push(Group {
                    shape: LayerGroup {
                        layers: Vec::new(),
                        ..group.shape.clone()
                    },
                    pages: group.pages.clone(),
                    retained: group.retained,
                });
                groups.len() - 1
            });
            groups[number].shape.layers.push(layer);
            borrowed.push(CachedLayer {
                group: number,
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
                groups: of_source,
            }),
        }))
    }

    /// The longest sequence, in tokens.
    pub fn context(&self) -> usize {
        self.size.context
    }

    /// The sizes it was made for.
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

    /// Whether layers of these groups can use the cache: each has cells of its shape, and they are
    /// retained for its window.
    pub(crate) fn fits(&self, groups: &[LayerGroup]) -> bool {
        let fits = |group: &LayerGroup, layer: usize| {
            self.cached_layer(layer).is_ok_and(|cached| {
                let of = &self.groups[cached.group].shape;
                let seen = of
                    .window
                    .is_none_or(|window| group.window.is_some_and(|own| own <= window));
                of.shape() == group.shape() && seen
            })
        };
        let layers: usize = groups.iter().map(|group| group.layers.len()).sum();
        let all = |group: &LayerGroup| group.layers.iter().all(|layer| fits(group, *layer));
        layers == self.layers.len() && groups.iter().all(all)
    }

    /// Whether a group releases pages behind its window.
    pub(crate) fn releases(&self, group: usize) -> bool {
        self.groups[group].retained.is_some()
    }

    /// The longest window of the groups that release pages.
    pub(crate) fn window(&self) -> Option<usize> {
        let releasing = self.groups.iter().filter(|group| group.retained.is_some());
        releasing.filter_map(|group| group.shape.window).max()
    }

    /// Free and all pages of each group.
    pub fn free_pages(&self) -> Vec<[usize; 2]> {
        let of = |group: &Group| [group.pages.free(), group.pages.all()];
        self.groups.iter().map(of).collect()
    }

    /// Bytes of the cells that were allocated, borrowed ones included.
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

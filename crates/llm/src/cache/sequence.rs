//! A sequence of tokens and its page tables.

use super::page_table::PageTable;
use super::{Cache, Group};
use crate::error::CacheError;
use hearth_kernels::attention::{KvLayer, PAGE, Spans};
use std::ops::Range;
use std::sync::Arc;

/// A sequence of tokens in a cache. A clone is a fork: it shares all pages, and the last one is
/// copied when either of them continues. Dropping a sequence releases its pages.
#[derive(Debug, Clone)]
pub struct Sequence {
    cache: Arc<Cache>,
    /// One per group.
    pub(super) tables: Vec<PageTable>,
    /// The tokens.
    ids: Vec<u32>,
}

impl Sequence {
    /// An empty sequence.
    pub fn new(cache: &Arc<Cache>) -> Self {
        let reserved = cache.size.reserved_pages();
        let table = |group: &Group| PageTable::new(group.pages.clone(), reserved);
        Self {
            tables: cache.groups.iter().map(table).collect(),
            cache: cache.clone(),
            ids: Vec::new(),
        }
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The tokens, in order.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether there are enough free pages to grow to `length` tokens in any number of steps.
    pub fn has_room(&self, length: usize) -> bool {
        let fits = |(table, group): (&PageTable, &Group)| {
            // A snapshot that is taken meanwhile shares the pages of this sequence. Pages behind
            // the window are then not free again, and the last page is copied.
            let has_snapshots = self.cache.size.snapshots > 0;
            let reusable = if has_snapshots { 0 } else { table.unshared_pages() };
            let missing = table.missing(self.len(), length);
            let missing = match group.retention {
                Some(retention) => missing.min(retention.pages.saturating_sub(reusable)),
                None => missing,
            };
            missing + usize::from(has_snapshots) <= table.free()
        };
        length <= self.cache.size.context && self.tables.iter().zip(&self.cache.groups).all(fits)
    }

    /// Appends tokens, whose cells the next step writes. Releases the pages behind windows.
    ///
    /// # Errors
    /// If the context or the cache is full, or the step is longer than the cache was allocated for.
    /// The tokens are then unchanged.
    pub fn append(&mut self, ids: &[u32]) -> Result<(), CacheError> {
        self.check(ids.len())?;
        let (length, end) = (self.len(), self.len() + ids.len());
        for (table, group) in self.tables.iter().zip(&self.cache.groups) {
            table.check_room(length, end, group.first_retained(length).unwrap_or(0))?;
        }
        for group in 0..self.tables.len() {
            if let Err(error) = self.make_writable(group, length, end) {
                self.tables.iter_mut().for_each(|table| table.truncate(length));
                return Err(error);
            }
        }
        self.ids.extend_from_slice(ids);
        Ok(())
    }

    /// Makes positions `length..end` of a group writable, and releases the pages behind its window.
    fn make_writable(&mut self, group: usize, length: usize, end: usize) -> Result<(), CacheError> {
        let (table, cache) = (&mut self.tables[group], &self.cache);
        if let Some(position) = cache.groups[group].first_retained(length) {
            table.release_before(position);
        }
        table.make_writable(length, end, |pages| {
            let mut layers = cache.layers.iter().filter(|layer| layer.group == group);
            layers.try_for_each(|layer| layer.cells.copy_page(pages))
        })
    }

    /// Releases the pages behind windows now, instead of with the next append.
    pub fn release_behind_windows(&mut self) {
        let length = self.len();
        for (table, group) in self.tables.iter_mut().zip(&self.cache.groups) {
            if let Some(position) = group.first_retained(length) {
                table.release_before(position);
            }
        }
    }

    /// Discards the cells before `position`, which were not written, in groups that release pages.
    pub(crate) fn discard_before(&mut self, position: usize) {
        for (table, group) in self.tables.iter_mut().zip(&self.cache.groups) {
            if group.retention.is_some() {
                table.discard_before(position);
            }
        }
    }

    /// Whether the sequence can be truncated to `length` tokens. It cannot if a group has released
    /// pages in the window of the next token.
    pub fn can_truncate(&self, length: usize) -> bool {
        let has_window = |(table, group): (&PageTable, &Group)| match group.shape.window {
            Some(window) => (length + 1).saturating_sub(window) >= table.first_written(),
            None => true,
        };
        length == 0 || length >= self.len() || self.tables.iter().zip(&self.cache.groups).all(has_window)
    }

    /// Removes the tokens from `length` on, and returns true; if [`Sequence::can_truncate`] is
    /// false, changes nothing and returns false.
    #[must_use]
    pub fn truncate(&mut self, length: usize) -> bool {
        let can_truncate = self.can_truncate(length);
        if can_truncate && length < self.len() {
            self.ids.truncate(length);
            self.tables.iter_mut().for_each(|table| table.truncate(length));
        }
        can_truncate
    }

    /// Removes all tokens.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.tables.iter_mut().for_each(|table| table.truncate(0));
    }

    /// A fork in a cache that borrows layers of this sequence's cache. It shares the pages, and
    /// copies the last one when it continues.
    ///
    /// # Errors
    /// If `cache` does not borrow from this sequence's cache.
    pub fn borrowed_by(&self, cache: &Arc<Cache>) -> Result<Self, CacheError> {
        let source = cache
            .source
            .as_ref()
            .filter(|source| Arc::ptr_eq(&source.cache, &self.cache));
        let source = source.ok_or(CacheError::OtherCache)?;
        let tables = source.groups.iter().map(|group| self.tables[*group].fork_for_draft());
        Ok(Self {
            tables: tables.collect(),
            cache: cache.clone(),
            ids: self.ids.clone(),
        })
    }

    /// The first position that has written cells in all groups, also in those with windows.
    pub(crate) fn windowed_from(&self) -> usize {
        self.tables.iter().map(PageTable::first_written).max().unwrap_or(0)
    }

    /// The tiles of these positions in each page of a group, in order. Both ends must be multiples
    /// of [`KvLayer::TILE`], and the positions must be retained.
    pub(crate) fn tiles(&self, group: usize, positions: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let first_page = positions.start / PAGE;
        (first_page..positions.end.div_ceil(PAGE)).map(move |page| {
            let (start, end) = (positions.start.max(page * PAGE), positions.end.min((page + 1) * PAGE));
            let tile = self.tables[group].cell(start) as usize / KvLayer::TILE;
            tile..tile + (end - start) / KvLayer::TILE
        })
    }

    /// The cells of a group as spans, for attention.
    pub(crate) fn spans(&self, group: usize) -> Spans {
        let table = &self.tables[group];
        Spans::of_pages(table.first(), table.pages(), self.len())
    }

    /// The index of a group's first retained page, and its retained pages.
    #[cfg(feature = "gpu")]
    pub(crate) fn pages(&self, group: usize) -> (usize, &[u32]) {
        (self.tables[group].first(), self.tables[group].pages())
    }

    /// The cells of these positions, which must be retained.
    pub(crate) fn cells(&self, group: usize, positions: Range<usize>) -> impl Iterator<Item = u32> {
        positions.map(move |position| self.tables[group].cell(position))
    }

    /// Checks that `count` more tokens fit the context and a step.
    fn check(&self, count: usize) -> Result<(), CacheError> {
        let (tokens, size) = (self.len().saturating_add(count), self.cache.size);
        if tokens > size.context {
            return Err(CacheError::ContextFull {
                tokens,
                context: size.context,
            });
        }
        if count > size.step && self.cache.is_windowed() {
            Err(CacheError::LongStep {
                tokens: count,
                step: size.step,
            })
        } else {
            Ok(())
        }
    }
}

//! The pages of one sequence in one group.

use super::pages::Pages;
use hearth_kernels::attention::PAGE;
use std::sync::Arc;

/// The pages of a sequence in a group. A clone shares them; a drop releases them.
#[derive(Debug)]
pub(super) struct Table {
    supply: Arc<Pages>,
    /// The index among the sequence's pages of the first that is not released.
    first: usize,
    pages: Vec<u32>,
    /// Positions before it were never written, although they may have a page: those that a KV
    /// snapshot lacks.
    unwritten: usize,
}

impl Table {
    /// No pages yet.
    pub fn new(supply: Arc<Pages>) -> Self {
        Self {
            supply,
            first: 0,
            pages: Vec::new(),
            unwritten: 0,
        }
    }

    /// The index of the first page.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The first position that has a written cell.
    pub fn written_from(&self) -> usize {
        self.unwritten.max(self.first * PAGE)
    }

    /// Forgets the positions before `position`.
    pub fn forget_before(&mut self, position: usize) {
        self.release_before(position);
        self.unwritten = self.unwritten.max(position);
    }

    /// The pages, from the first on.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// The cell of a position, which must have a page.
    pub fn cell(&self, position: usize) -> u32 {
        self.pages[position / PAGE - self.first] * PAGE as u32 + (position % PAGE) as u32
    }

    /// Pages to take from the supply before positions `length..end` can be written.
    pub fn missing(&self, length: usize, end: usize) -> usize {
        let new = end.div_ceil(PAGE).saturating_sub(self.first + self.pages.len());
        new + usize::from(self.shared_last(length, end).is_some())
    }

    /// Makes positions `length..end` writable: takes pages, one of them in place of a last page
    /// that others have, too. Returns these two pages (the caller copies the first to the second,
    /// and then releases it), or `None` if there are too few free pages; the sequence is then
    /// unchanged.
    pub fn grow(&mut self, length: usize, end: usize) -> Option<Option<[u32; 2]>> {
        let shared = self.shared_last(length, end);
        let mut taken = self.supply.take(self.missing(length, end))?.into_iter();
        let copy = match (shared, self.pages.last_mut()) {
            (Some(from), Some(last)) => {
                *last = taken.next()?;
                Some([from, *last])
            }
            _ => None,
        };
        self.pages.extend(taken);
        Some(copy)
    }

    /// The number of pages that no other sequence has.
    pub fn own_pages(&self) -> usize {
        self.pages.iter().filter(|page| !self.supply.is_shared(**page)).count()
    }

    /// The last page, if position `length` is in it and others have it.
    fn shared_last(&self, length: usize, end: usize) -> Option<u32> {
        let inside = length < end && !length.is_multiple_of(PAGE);
        self.pages
            .last()
            .copied()
            .filter(|page| inside && self.supply.is_shared(*page))
    }

    /// Releases the pages whose positions are all before `position`.
    pub fn release_before(&mut self, position: usize) {
        let count = (position / PAGE).saturating_sub(self.first).min(self.pages.len());
        self.supply.release(self.pages.drain(..count));
        self.first += count;
    }

    /// Releases the pages whose positions are all at or behind `length`.
    pub fn truncate(&mut self, length: usize) {
        let count = length.div_ceil(PAGE).saturating_sub(self.first).min(self.pages.len());
        self.supply.release(self.pages.drain(count..));
        if length == 0 {
            (self.first, self.unwritten) = (0, 0);
        }
    }
}

impl Clone for Table {
    fn clone(&self) -> Self {
        self.supply.share(&self.pages);
        Self {
            supply: self.supply.clone(),
            first: self.first,
            pages: self.pages.clone(),
            unwritten: self.unwritten,
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.supply.release(self.pages.drain(..));
    }
}

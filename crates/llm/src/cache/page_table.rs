//! The page table of one sequence in one group.

use super::page_allocator::PageAllocator;
use crate::error::CacheError;
use hearth_kernels::attention::PAGE;
use std::sync::Arc;

/// The pages of a sequence in a group. A clone shares them; a drop releases them.
#[derive(Debug)]
pub(super) struct PageTable {
    allocator: Arc<PageAllocator>,
    /// Free pages that are reserved for drafts.
    reserved: usize,
    /// The number of released pages, which is the index of the first retained page.
    first: usize,
    /// The retained pages, in order.
    pages: Vec<u32>,
    /// The first written position. Earlier ones may have a page without valid cells, because a KV
    /// snapshot lacked them.
    first_written: usize,
}

impl PageTable {
    /// An empty table that leaves `reserved` free pages to drafts.
    pub fn new(allocator: Arc<PageAllocator>, reserved: usize) -> Self {
        Self {
            allocator,
            reserved,
            first: 0,
            pages: Vec::new(),
            first_written: 0,
        }
    }

    /// A fork for a draft, which may take the reserved pages.
    pub fn fork_for_draft(&self) -> Self {
        let mut draft = self.clone();
        draft.reserved = 0;
        draft
    }

    /// The number of free pages that it can take.
    pub fn free(&self) -> usize {
        self.allocator.free().saturating_sub(self.reserved)
    }

    /// The index of the first retained page.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The first position that has a written cell.
    pub fn first_written(&self) -> usize {
        self.first_written.max(self.first * PAGE)
    }

    /// Discards the cells before `position`, also in the page of `position`, which is retained.
    pub fn discard_before(&mut self, position: usize) {
        self.release_before(position);
        self.first_written = self.first_written.max(position);
    }

    /// The retained pages, in order.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// The cell of a position, which must have a page.
    pub fn cell(&self, position: usize) -> u32 {
        self.pages[position / PAGE - self.first] * PAGE as u32 + (position % PAGE) as u32
    }

    /// The number of pages to take from the allocator before positions `length..end` can be
    /// written.
    pub fn missing(&self, length: usize, end: usize) -> usize {
        self.new_pages(end) + usize::from(self.shared_last(length, end).is_some())
    }

    /// The number of pages from the last one to position `end`.
    fn new_pages(&self, end: usize) -> usize {
        end.div_ceil(PAGE).saturating_sub(self.first + self.pages.len())
    }

    /// Makes positions `length..end` writable: takes pages, and replaces a shared last page by a
    /// copy. `copy` copies the first of two pages to the second.
    ///
    /// # Errors
    /// If there are too few free pages, or `copy` fails. The table is then unchanged.
    pub fn make_writable(
        &mut self,
        length: usize,
        end: usize,
        copy: impl FnOnce([u32; 2]) -> Result<(), CacheError>,
    ) -> Result<(), CacheError> {
        // Read once: another owner may release the page meanwhile. A redundant copy is harmless.
        let shared = self.shared_last(length, end);
        let count = self.new_pages(end) + usize::from(shared.is_some());
        let pages = self.allocator.take(count, self.reserved);
        let mut pages = pages.ok_or_else(|| self.no_pages(end))?;
        if let (Some(from), Some(last)) = (shared, self.pages.last_mut()) {
            let to = pages.remove(0);
            if let Err(error) = copy([from, to]) {
                self.allocator.release(pages.into_iter().chain([to]));
                return Err(error);
            }
            *last = to;
            self.allocator.release([from]);
        }
        self.pages.extend(pages);
        Ok(())
    }

    /// Checks that there are enough pages for positions `length..end` after the pages before
    /// `position` are released.
    ///
    /// # Errors
    /// If there are too few.
    pub fn check_room(&self, length: usize, end: usize, position: usize) -> Result<(), CacheError> {
        let to_release = &self.pages[..self.pages_before(position)];
        let unshared = to_release.iter().filter(|page| !self.allocator.is_shared(**page));
        if self.missing(length, end) <= self.free() + unshared.count() {
            Ok(())
        } else {
            Err(self.no_pages(end))
        }
    }

    fn no_pages(&self, tokens: usize) -> CacheError {
        CacheError::CacheFull {
            tokens,
            pages: self.allocator.all(),
        }
    }

    /// The number of pages that no other sequence owns.
    pub fn unshared_pages(&self) -> usize {
        self.pages
            .iter()
            .filter(|page| !self.allocator.is_shared(**page))
            .count()
    }

    /// The last page, if position `length` is in it and the page is shared.
    fn shared_last(&self, length: usize, end: usize) -> Option<u32> {
        let is_in_last = length < end && !length.is_multiple_of(PAGE);
        self.pages
            .last()
            .copied()
            .filter(|page| is_in_last && self.allocator.is_shared(*page))
    }

    /// Releases the pages whose positions are all before `position`.
    pub fn release_before(&mut self, position: usize) {
        let count = self.pages_before(position);
        self.allocator.release(self.pages.drain(..count));
        self.first += count;
    }

    /// The number of pages whose positions are all before `position`.
    fn pages_before(&self, position: usize) -> usize {
        (position / PAGE).saturating_sub(self.first).min(self.pages.len())
    }

    /// Releases the pages whose positions are all at or after `length`.
    pub fn truncate(&mut self, length: usize) {
        let count = length.div_ceil(PAGE).saturating_sub(self.first).min(self.pages.len());
        self.allocator.release(self.pages.drain(count..));
        if length == 0 {
            (self.first, self.first_written) = (0, 0);
        }
    }
}

impl Clone for PageTable {
    fn clone(&self) -> Self {
        self.allocator.share(&self.pages);
        Self {
            allocator: self.allocator.clone(),
            reserved: self.reserved,
            first: self.first,
            pages: self.pages.clone(),
            first_written: self.first_written,
        }
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        self.allocator.release(self.pages.drain(..));
    }
}

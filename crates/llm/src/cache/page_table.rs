//! The pages of one sequence in one group.

use super::page_allocator::PageAllocator;
use crate::error::CacheError;
use hearth_kernels::attention::PAGE;
use std::sync::Arc;

/// The pages of a sequence in a group. A clone shares them; a drop releases them.
#[derive(Debug)]
pub(super) struct PageTable {
    allocator: Arc<PageAllocator>,
    /// Free pages that it leaves to drafts.
    reserved: usize,
    /// The index among the sequence's pages of the first that is not released.
    first: usize,
    pages: Vec<u32>,
    /// Positions before it were never written, although they may have a page: those that a KV
    /// snapshot lacks.
    unwritten: usize,
}

impl PageTable {
    /// No pages yet; it leaves `reserved` free ones to drafts.
    pub fn new(allocator: Arc<PageAllocator>, reserved: usize) -> Self {
        Self {
            allocator,
            reserved,
            first: 0,
            pages: Vec::new(),
            unwritten: 0,
        }
    }

    /// A fork of a draft, which may take the pages that others leave.
    pub fn of_draft(&self) -> Self {
        let mut draft = self.clone();
        draft.reserved = 0;
        draft
    }

    /// Free pages that it can take.
    pub fn free(&self) -> usize {
        self.allocator.free().saturating_sub(self.reserved)
    }

    /// The index of the first page.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The first position that has a written cell.
    pub fn written_from(&self) -> usize {
        self.unwritten.max(self.first * PAGE)
    }

    /// Discards the cells before `position`, also those in a page that is not released.
    pub fn discard_before(&mut self, position: usize) {
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

    /// Pages to take from the allocator before positions `length..end` can be written.
    pub fn missing(&self, length: usize, end: usize) -> usize {
        self.new_pages(end) + usize::from(self.shared_last(length, end).is_some())
    }

    /// Pages behind the last one, up to position `end`.
    fn new_pages(&self, end: usize) -> usize {
        end.div_ceil(PAGE).saturating_sub(self.first + self.pages.len())
    }

    /// Makes positions `length..end` writable: takes pages, one of them in place of a last page
    /// that others have, too. `copy` copies the first of two pages to the second.
    ///
    /// # Errors
    /// If there are too few free pages, or `copy` fails. The pages are then unchanged.
    pub fn make_writable(
        &mut self,
        length: usize,
        end: usize,
        copy: impl FnOnce([u32; 2]) -> Result<(), CacheError>,
    ) -> Result<(), CacheError> {
        // Asked once: another owner may release it meanwhile. A needless copy does no harm.
        let shared = self.shared_last(length, end);
        let count = self.new_pages(end) + usize::from(shared.is_some());
        let taken = self.allocator.take(count, self.reserved);
        let mut taken = taken.ok_or_else(|| self.no_pages(end))?;
        if let (Some(from), Some(last)) = (shared, self.pages.last_mut()) {
            let to = taken.remove(0);
            if let Err(error) = copy([from, to]) {
                self.allocator.release(taken.into_iter().chain([to]));
                return Err(error);
            }
            *last = to;
            self.allocator.release([from]);
        }
        self.pages.extend(taken);
        Ok(())
    }

    /// Checks that there are pages for positions `length..end` once those before `position` are
    /// released.
    ///
    /// # Errors
    /// If there are not.
    pub fn check_room(&self, length: usize, end: usize, position: usize) -> Result<(), CacheError> {
        let released = &self.pages[..self.pages_before(position)];
        let own = released.iter().filter(|page| !self.allocator.is_shared(**page));
        if self.missing(length, end) <= self.free() + own.count() {
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

    /// The number of pages that no other sequence has.
    pub fn own_pages(&self) -> usize {
        self.pages
            .iter()
            .filter(|page| !self.allocator.is_shared(**page))
            .count()
    }

    /// The last page, if position `length` is in it and others have it.
    fn shared_last(&self, length: usize, end: usize) -> Option<u32> {
        let inside = length < end && !length.is_multiple_of(PAGE);
        self.pages
            .last()
            .copied()
            .filter(|page| inside && self.allocator.is_shared(*page))
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

    /// Releases the pages whose positions are all at or behind `length`.
    pub fn truncate(&mut self, length: usize) {
        let count = length.div_ceil(PAGE).saturating_sub(self.first).min(self.pages.len());
        self.allocator.release(self.pages.drain(count..));
        if length == 0 {
            (self.first, self.unwritten) = (0, 0);
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
            unwritten: self.unwritten,
        }
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        self.allocator.release(self.pages.drain(..));
    }
}

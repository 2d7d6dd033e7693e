//! The free pages of a group, and the reference counts of all of them.

use std::sync::{Mutex, MutexGuard};

/// An allocator of pages with reference counts.
#[derive(Debug)]
pub(super) struct PageAllocator(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// The free pages, a stack.
    free: Vec<u32>,
    /// The number of sequences that own each page.
    owners: Vec<u32>,
}

impl PageAllocator {
    /// An allocator of pages `0..count`, all free.
    pub fn new(count: usize) -> Self {
        Self(Mutex::new(Counts {
            free: (0..count as u32).rev().collect(),
            owners: vec![0; count],
        }))
    }

    /// The number of free pages.
    pub fn free(&self) -> usize {
        self.counts().free.len()
    }

    /// The number of pages.
    pub fn all(&self) -> usize {
        self.counts().owners.len()
    }

    /// Takes `count` free pages, each with one owner. `None` if fewer than `reserved` free pages
    /// would remain.
    pub fn take(&self, count: usize, reserved: usize) -> Option<Vec<u32>> {
        let mut counts = self.counts();
        let remaining = counts.free.len().checked_sub(count)?;
        if count > 0 && remaining < reserved {
            return None;
        }
        let mut pages = counts.free.split_off(remaining);
        pages.reverse();
        pages.iter().for_each(|page| counts.owners[*page as usize] = 1);
        Some(pages)
    }

    /// Adds an owner to each page.
    pub fn share(&self, pages: &[u32]) {
        let mut counts = self.counts();
        pages.iter().for_each(|page| counts.owners[*page as usize] += 1);
    }

    /// Whether a page has several owners.
    pub fn is_shared(&self, page: u32) -> bool {
        self.counts().owners[page as usize] > 1
    }

    /// Removes an owner of each page. Pages without owners become free.
    pub fn release(&self, pages: impl IntoIterator<Item = u32>) {
        let mut counts = self.counts();
        for page in pages {
            let owners = &mut counts.owners[page as usize];
            *owners -= 1;
            if *owners == 0 {
                counts.free.push(page);
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // No operation leaves the counts inconsistent when it panics.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

//! The pages of a group: which are free, and how many sequences have each of the others.

use std::sync::{Mutex, MutexGuard};

/// An allocator of pages with reference counts.
#[derive(Debug)]
pub(super) struct PageAllocator(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// The free pages; the last is taken first.
    free: Vec<u32>,
    /// The number of sequences that have each page.
    of_page: Vec<u32>,
}

impl PageAllocator {
    /// Free pages `0..count`.
    pub fn new(count: usize) -> Self {
        Self(Mutex::new(Counts {
            free: (0..count as u32).rev().collect(),
            of_page: vec![0; count],
        }))
    }

    /// The number of free pages.
    pub fn free(&self) -> usize {
        self.counts().free.len()
    }

    /// The number of pages.
    pub fn all(&self) -> usize {
        self.counts().of_page.len()
    }

    /// `count` free pages, now with one owner each; `None` if fewer than `reserved` would be left.
    pub fn take(&self, count: usize, reserved: usize) -> Option<Vec<u32>> {
        let mut counts = self.counts();
        let rest = counts.free.len().checked_sub(count)?;
        if count > 0 && rest < reserved {
            return None;
        }
        let mut taken = counts.free.split_off(rest);
        taken.reverse();
        taken.iter().for_each(|page| counts.of_page[*page as usize] = 1);
        Some(taken)
    }

    /// Adds an owner to each page.
    pub fn share(&self, pages: &[u32]) {
        let mut counts = self.counts();
        pages.iter().for_each(|page| counts.of_page[*page as usize] += 1);
    }

    /// Whether a page has several owners.
    pub fn is_shared(&self, page: u32) -> bool {
        self.counts().of_page[page as usize] > 1
    }

    /// Removes an owner of each page; pages without owners are free.
    pub fn release(&self, pages: impl IntoIterator<Item = u32>) {
        let mut counts = self.counts();
        for page in pages {
            let count = &mut counts.of_page[page as usize];
            *count -= 1;
            if *count == 0 {
                counts.free.push(page);
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // No operation leaves the counts inconsistent when it panics.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

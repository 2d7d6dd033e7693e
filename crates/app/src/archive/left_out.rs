//! Counts of the files that are not in a backup or not restored from it, by reason.

use crate::wire::{LeftOutFiles, LeftOutReason};
use std::collections::{BTreeMap, btree_map::Entry};

/// Most characters of an example.
const MAX_EXAMPLE: usize = 120;

/// Counts files by the reason why they are left out.
#[derive(Debug, Default)]
pub(super) struct LeftOutCounts(BTreeMap<LeftOutReason, LeftOutFiles>);

impl LeftOutCounts {
    /// Adds a file by its path in the data folder.
    pub fn add(&mut self, reason: LeftOutReason, path: &str) {
        match self.0.entry(reason) {
            Entry::Occupied(mut known) => known.get_mut().count += 1,
            Entry::Vacant(new) => {
                new.insert(LeftOutFiles {
                    reason,
                    count: 1,
                    example: path.chars().filter(|c| !c.is_control()).take(MAX_EXAMPLE).collect(),
                });
            }
        }
    }

    pub fn count(&self) -> u32 {
        self.0.values().map(|left_out| left_out.count).sum()
    }

    pub fn into_list(self) -> Vec<LeftOutFiles> {
        self.0.into_values().collect()
    }
}

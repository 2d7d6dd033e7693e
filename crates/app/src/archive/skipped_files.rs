//! Counts of the files that are not in a backup or not restored from it, by reason.

use crate::wire::{SkippedFileReason, SkippedFiles};
use std::collections::{BTreeMap, btree_map::Entry};

/// Most characters of an example path.
const MAX_EXAMPLE: usize = 120;

/// Counts of skipped files, by reason.
#[derive(Debug, Default)]
pub(super) struct SkippedFileCounts(BTreeMap<SkippedFileReason, SkippedFiles>);

impl SkippedFileCounts {
    /// Adds a file by its path in the data folder.
    pub fn add(&mut self, reason: SkippedFileReason, path: &str) {
        match self.0.entry(reason) {
            Entry::Occupied(mut entry) => entry.get_mut().count += 1,
            Entry::Vacant(entry) => {
                entry.insert(SkippedFiles {
                    reason,
                    count: 1,
                    example: path.chars().filter(|c| !c.is_control()).take(MAX_EXAMPLE).collect(),
                });
            }
        }
    }

    pub fn count(&self) -> u32 {
        self.0.values().map(|skipped| skipped.count).sum()
    }

    pub fn into_list(self) -> Vec<SkippedFiles> {
        self.0.into_values().collect()
    }
}

//! The sizes of a cache.

use super::LayerGroup;
use crate::draft;
use hearth_kernels::attention::PAGE;

/// The longest step of a chat: a chunk of a prompt.
const STEP: usize = 512;
/// Snapshots of a chat whose layers have windows: the beginning and the end of the last prompt.
const SNAPSHOTS: usize = 2;

/// Pages of a draft that shares the cells of its target: the copy of the last one, and the next.
const DRAFT_PAGES: usize = 1 + draft::MAX_DRAFTED.div_ceil(PAGE);

/// The sizes that a cache is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSize {
    /// The longest sequence, in tokens.
    pub context: usize,
    /// Sequences of that length.
    pub sequences: usize,
    /// Forks, each of a prefix of one of them.
    pub snapshots: usize,
    /// Tokens that a step appends to a sequence, at most.
    pub step: usize,
    /// Forks of a draft that shares the cells of its target: each has a copy of a last page, and
    /// continues it.
    pub drafts: usize,
}

impl CacheSize {
    /// The longest step of a chat, in tokens.
    pub const STEP: usize = STEP;

    /// The sizes of a chat with this context: one sequence, and snapshots if windows, with them,
    /// make a group of layers smaller than the context does.
    pub fn chat(context: usize, groups: &[LayerGroup]) -> Self {
        let size = Self {
            context,
            sequences: 1,
            snapshots: SNAPSHOTS,
            step: STEP.min(context),
            drafts: 0,
        };
        if groups.iter().any(|group| group.retained(&size).is_some()) {
            size
        } else {
            // A step of the whole context: no group releases anything, and no snapshot is needed.
            Self {
                snapshots: 0,
                step: context,
                ..size
            }
        }
    }

    /// The sizes of a draft model's cache. Its context is the target's, not the one that the draft
    /// was trained with. No snapshots: the draft prefills again what it lacks.
    pub fn draft(context: usize, groups: &[LayerGroup]) -> Self {
        Self {
            snapshots: 0,
            ..Self::chat(context, groups)
        }
    }

    /// Pages of each group that are left to drafts.
    pub(super) fn reserved_pages(&self) -> usize {
        self.drafts * DRAFT_PAGES
    }

    /// The same with room for this many drafts that share its cells.
    #[must_use]
    pub fn with_drafts(self, drafts: usize) -> Self {
        Self { drafts, ..self }
    }
}

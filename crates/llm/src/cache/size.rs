//! The sizes of a cache.

use super::LayerGroup;
use hearth_kernels::attention::PAGE;

/// The longest step of a chat: a chunk of a prompt.
const STEP: usize = 512;
/// Snapshots of a chat with windowed layers: at the beginning and at the end of the last prompt.
const SNAPSHOTS: usize = 2;

/// Pages of a draft that shares the cells of its target: the copy of the last page, and the next.
const DRAFT_PAGES: usize = 1 + CacheSize::MAX_DRAFTED.div_ceil(PAGE);

/// The sizes that a cache is allocated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSize {
    /// Maximum tokens of a sequence.
    pub context: usize,
    /// The number of sequences of that length.
    pub sequences: usize,
    /// The number of snapshots, which are forks at prefixes of these sequences.
    pub snapshots: usize,
    /// Maximum tokens that a step appends to a sequence.
    pub step: usize,
    /// The number of draft sequences that share the cells of their targets. Each copies the last
    /// page of its target and continues it.
    pub drafts: usize,
}

impl CacheSize {
    /// Maximum tokens of a draft that shares the cells of its target.
    pub const MAX_DRAFTED: usize = 32;
    /// The longest step of a chat, in tokens.
    pub const STEP: usize = STEP;

    /// The sizes of a chat: one sequence, and snapshots if a group of layers is smaller with its
    /// window and the snapshots than with the whole context.
    pub fn chat(context: usize, groups: &[LayerGroup]) -> Self {
        let size = Self {
            context,
            sequences: 1,
            snapshots: SNAPSHOTS,
            step: STEP.min(context),
            drafts: 0,
        };
        if groups.iter().any(|group| group.retention(&size).is_some()) {
            size
        } else {
            // No group releases pages, so no snapshot is needed, and a step can have any length.
            Self {
                snapshots: 0,
                step: context,
                ..size
            }
        }
    }

    /// The sizes of a draft model's cache. `context` is the context of the target, which may be
    /// longer than the draft's training context. There are no snapshots: the draft prefills missing
    /// tokens again.
    pub fn draft(context: usize, groups: &[LayerGroup]) -> Self {
        Self {
            snapshots: 0,
            ..Self::chat(context, groups)
        }
    }

    /// The number of pages in each group that are reserved for drafts.
    pub(super) fn reserved_pages(&self) -> usize {
        self.drafts * DRAFT_PAGES
    }

    /// The same sizes with room for this many drafts that share the cells.
    #[must_use]
    pub fn with_drafts(self, drafts: usize) -> Self {
        Self { drafts, ..self }
    }
}

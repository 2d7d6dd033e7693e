//! Jobs for the engine thread.

use crate::answer::cancelled;
use crate::prepare::PreparedAnswer;
use crate::problem::interrupted;
use crate::training::RunControl;
use hearth_protocol::{
    ConversationId, CountUnsent, Event, ExportRequest, GenerateRequest, InspectRequest, LoadRequest, Message, Problem,
    RequestId, TrainRequest, UnsentTokens,
};
use std::sync::Arc;
use std::time::Instant;

/// A request for the engine thread.
pub(super) struct Job {
    pub id: RequestId,
    pub task: Task,
}

/// The work of a job.
pub(super) enum Task {
    Load(LoadRequest),
    Unload,
    Generate {
        request: Box<GenerateRequest>,
        received: Instant,
    },
    /// The answer of a [`Task::Generate`] is prepared.
    Prepared(Result<Box<PreparedAnswer>, Problem>),
    Count(Vec<Message>),
    /// The tokens of a [`Task::Count`] are counted.
    Counted(Result<u32, Problem>),
    CountUnsent(Box<CountUnsent>),
    /// The tokens of a [`Task::CountUnsent`] are counted.
    UnsentCounted(Result<Option<UnsentTokens>, Problem>),
    Inspect(InspectRequest),
    Train {
        request: Box<TrainRequest>,
        control: Arc<RunControl>,
    },
    Export(ExportRequest),
    Measure,
    RemovePromptCache(ConversationId),
    SetPromptCacheLimit(u64),
    /// The worker closes.
    Close,
}

impl Task {
    /// Whether later jobs may be executed before this one, since they do not depend on it.
    pub fn can_be_overtaken(&self) -> bool {
        matches!(
            self,
            Self::Inspect(_) | Self::Train { .. } | Self::Export(_) | Self::Measure
        )
    }

    /// Whether it can be executed between the steps of answers.
    pub fn runs_beside_answers(&self) -> bool {
        matches!(
            self,
            Self::Generate { .. }
                | Self::Prepared(_)
                | Self::Count(_)
                | Self::Counted(_)
                | Self::CountUnsent(_)
                | Self::UnsentCounted(_)
                | Self::RemovePromptCache(_)
                | Self::SetPromptCacheLimit(_)
                | Self::Close
        )
    }
}

/// The kind of a request that can be cancelled. Determines its last event then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Load,
    Generation,
    Other,
}

impl Kind {
    /// The last event of a request that was cancelled before it began.
    pub fn cancelled(self) -> Event {
        match self {
            Self::Generation => Event::Finished(cancelled()),
            Self::Load | Self::Other => Event::Failed(interrupted()),
        }
    }
}

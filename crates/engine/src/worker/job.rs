//! Jobs for the engine thread.

use crate::answer::cancelled;
use crate::problem::interrupted;
use crate::training::RunControl;
use hearth_protocol::{
    ConversationId, Event, ExportRequest, GenerateRequest, InspectRequest, LoadRequest, Message, RequestId,
    TrainRequest,
};
use std::sync::Arc;
use std::time::Instant;

/// A request for the engine thread.
pub(super) struct Job {
    pub id: RequestId,
    pub task: Task,
}

pub(super) enum Task {
    Load(LoadRequest),
    Unload,
    Generate {
        request: Box<GenerateRequest>,
        received: Instant,
    },
    Count(Vec<Message>),
    Inspect(InspectRequest),
    Train {
        request: Box<TrainRequest>,
        control: Arc<RunControl>,
    },
    Export(ExportRequest),
    Measure,
    RemovePromptCache(ConversationId),
    SetPromptCacheLimit(u64),
}

impl Task {
    /// Whether it can be executed between the steps of answers.
    pub fn runs_beside_answers(&self) -> bool {
        matches!(
            self,
            Self::Generate { .. } | Self::Count(_) | Self::RemovePromptCache(_) | Self::SetPromptCacheLimit(_)
        )
    }
}

/// The kind of a request that can be cancelled, which decides how it then ends.
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

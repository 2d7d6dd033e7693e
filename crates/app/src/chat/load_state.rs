//! The load state of the worker.

use super::Target;
use crate::wire::{ModelState, Problem};
use hearth_protocol::{ModelInfo, PlannedDevice};

/// The load state of the worker.
pub(super) enum LoadState {
    Nothing,
    /// A load whose request is sent, or waits for a worker.
    Loading {
        target: Target,
        /// A GPU failed during an answer: its CPU is used, whatever the target says.
        on_cpu: bool,
        fraction: f32,
        stage: String,
    },
    Ready {
        target: Target,
        info: Box<ModelInfo>,
    },
    Failed {
        target: Target,
        problem: Problem,
    },
}

impl LoadState {
    /// The beginning of a load.
    pub(super) fn loading(target: Target, on_cpu: bool) -> Self {
        Self::Loading {
            target,
            on_cpu,
            fraction: 0.0,
            stage: "Starting".to_owned(),
        }
    }

    /// Whether this target is loaded or being loaded.
    pub(super) fn is(&self, target: &Target) -> bool {
        match self {
            Self::Ready { target: loaded, .. } | Self::Loading { target: loaded, .. } => loaded == target,
            Self::Nothing | Self::Failed { .. } => false,
        }
    }

    /// The memory of the loaded model.
    pub(super) fn memory(&self) -> Vec<PlannedDevice> {
        match self {
            Self::Ready { info, .. } => info.placement.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn state(&self) -> ModelState {
        match self {
            Self::Nothing => ModelState::None,
            Self::Loading {
                target,
                fraction,
                stage,
                ..
            } => ModelState::Loading {
                model: target.id.clone(),
                fraction: *fraction,
                stage: stage.clone(),
            },
            Self::Ready { target, info } => ModelState::Ready {
                model: target.id.clone(),
                info: info.as_ref().into(),
            },
            Self::Failed { target, problem } => ModelState::Failed {
                model: target.id.clone(),
                problem: problem.clone(),
            },
        }
    }
}

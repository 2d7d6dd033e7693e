//! Conversions of the wire types of fine-tuning.

use super::from_json;
use crate::{store::run, tune, wire};
use hearth_protocol as protocol;

impl From<protocol::StepReport> for wire::RunPoint {
    fn from(report: protocol::StepReport) -> Self {
        Self {
            step: report.step,
            epoch: report.epoch,
            loss: report.loss,
            learning_rate: report.learning_rate,
            gradient_norm: report.gradient_norm,
            tokens_per_second: report.tokens_per_second,
            memory: report.memory,
            seconds_left: report.seconds_left,
        }
    }
}

impl From<run::State> for wire::RunState {
    fn from(state: run::State) -> Self {
        let problem = |json: Option<&str>| from_json(json).unwrap_or_else(tune::closed);
        match state {
            run::State::Finished => Self::Finished,
            run::State::Stopped => Self::Stopped,
            run::State::Failed(json) => Self::Failed {
                problem: from_json(Some(&json))
                    .unwrap_or_else(|| wire::Problem::detail(wire::ProblemCode::Internal, json)),
            },
            // An active run is shown from memory, not from its row.
            run::State::Unfinished => Self::Interrupted { problem: problem(None) },
            run::State::Interrupted(json) => Self::Interrupted {
                problem: problem(json.as_deref()),
            },
        }
    }
}

impl From<&wire::RunState> for run::State {
    fn from(state: &wire::RunState) -> Self {
        match state {
            wire::RunState::Preparing { .. }
            | wire::RunState::Planned
            | wire::RunState::Running
            | wire::RunState::Paused { .. } => Self::Unfinished,
            wire::RunState::Finished => Self::Finished,
            wire::RunState::Stopped => Self::Stopped,
            wire::RunState::Failed { problem } => Self::Failed(problem.to_stored()),
            wire::RunState::Interrupted { problem } => Self::Interrupted(Some(problem.to_stored())),
        }
    }
}

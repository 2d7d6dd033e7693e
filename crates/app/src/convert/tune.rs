//! Conversions of the wire types of fine-tuning.

use super::{from_json, to_json};
use crate::{
    store::{run, run_evaluation, run_point},
    tune, wire,
};
use hearth_protocol as protocol;

mirror! {
    protocol::StepReport => wire::RunPoint {
        step, epoch, loss, learning_rate, gradient_norm, tokens_per_second, memory, seconds_left,
    }
    run_point::Point => wire::RunPoint {
        step, epoch, loss, learning_rate, gradient_norm, tokens_per_second, memory, seconds_left,
    }
    wire::RunPoint => run_point::Point {
        step, epoch, loss, learning_rate, gradient_norm, tokens_per_second, memory, seconds_left,
    }
    run_evaluation::Evaluation => wire::RunEvaluation { step, loss, best }
    wire::RunEvaluation => run_evaluation::Evaluation { step, loss, best }
}

impl From<run::State> for wire::RunState {
    fn from(state: run::State) -> Self {
        let problem = |why: Option<&str>| from_json(why).unwrap_or_else(tune::closed);
        match state {
            run::State::Finished => Self::Finished,
            run::State::Stopped => Self::Stopped,
            run::State::Failed(why) => Self::Failed {
                problem: problem(Some(&why)),
            },
            // An active run is shown from memory, not from its row.
            run::State::Unfinished => Self::Interrupted { problem: problem(None) },
            run::State::Interrupted(why) => Self::Interrupted {
                problem: problem(why.as_deref()),
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
            wire::RunState::Failed { problem } => Self::Failed(to_json(problem)),
            wire::RunState::Interrupted { problem } => Self::Interrupted(Some(to_json(problem))),
        }
    }
}

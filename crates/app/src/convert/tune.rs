//! Conversions of the wire types of fine-tuning.

use super::{all, from_json, to_json};
use crate::{
    store::{run, run_evaluation, run_point},
    tune, wire,
};
use hearth_protocol as protocol;
use std::path::PathBuf;

mirror! {
    protocol::ColumnMapping => wire::ColumnMapping { messages, system, prompt, input, answer, text }
    wire::ColumnMapping => protocol::ColumnMapping { messages, system, prompt, input, answer, text }
    protocol::Piece => wire::Piece { text, tokens, trained, template, cut }
    protocol::Finding => wire::Finding { kind, severity, message, lines }
    protocol::BrokenLine => wire::BrokenLine { line, why }
    protocol::RunPlan => wire::RunPlan {
        examples, eval_examples, truncated, steps, batch, accumulation, sequence, parameters, precision, checkpointing,
        threads, peak_memory, step_seconds, total_seconds, notices,
    }
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
    protocol::Outcome => wire::Outcome {
        reason, steps, best_step, train_loss, eval_loss_before, eval_loss, general_before, general_after,
        tokens_per_second, seconds, peak_memory,
    }
    protocol::Verification => wire::Verification { passed, prompts, divergence, taught, same_text, summary }
}

mirror! {
    protocol::Severity => wire::Severity [ Note, Warning, Error ]
    protocol::Schedule => wire::Schedule [ Cosine, Linear, Constant ]
    wire::Schedule => protocol::Schedule [ Cosine, Linear, Constant ]
    protocol::Precision => wire::Precision [ Auto, F32, Bf16 ]
    wire::Precision => protocol::Precision [ Auto, F32, Bf16 ]
    protocol::Checkpointing => wire::Checkpointing [ Auto, Operations, Layers ]
    wire::Checkpointing => protocol::Checkpointing [ Auto, Operations, Layers ]
    protocol::EndReason => wire::EndReason [ Completed, EarlyStop, Stopped ]
}

impl From<protocol::Inspection> for wire::Inspection {
    fn from(from: protocol::Inspection) -> Self {
        let previews = from.previews.into_iter().map(|preview| wire::Preview {
            line: preview.line,
            pieces: all(preview.pieces),
            tokens: preview.tokens,
        });
        Self {
            container: from.container,
            shape: from.shape,
            columns: from.columns,
            mapping: from.mapping.into(),
            unsure: from.unsure,
            examples: from.examples,
            tokens: from.tokens,
            trained_tokens: from.trained_tokens,
            lengths: from.lengths,
            sequence: from.sequence,
            truncated: from.truncated,
            previews: previews.collect(),
            findings: all(from.findings),
            broken: all(from.broken),
            broken_total: from.broken_total,
        }
    }
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

impl From<wire::ExportFormat> for protocol::ExportFormat {
    fn from(format: wire::ExportFormat) -> Self {
        match format {
            wire::ExportFormat::GgufLora => Self::GgufLora,
            wire::ExportFormat::Peft => Self::Peft,
            wire::ExportFormat::Gguf { kind } => Self::Gguf { kind },
        }
    }
}

impl Default for wire::TrainSettings {
    fn default() -> Self {
        protocol::TrainSettings::default().into()
    }
}

/// Converts training settings. The initial adapter is an id on the wire and a path in the protocol.
macro_rules! settings {
    ($to:ident, $from:ident, $init:expr) => {
        $to::TrainSettings {
            rank: $from.rank,
            alpha: $from.alpha,
            dropout: $from.dropout,
            rslora: $from.rslora,
            targets: $from.targets,
            learning_rate: $from.learning_rate,
            schedule: $from.schedule.into(),
            warmup: $from.warmup,
            weight_decay: $from.weight_decay,
            max_gradient_norm: $from.max_gradient_norm,
            epochs: $from.epochs,
            max_steps: $from.max_steps,
            batch: $from.batch,
            accumulation: $from.accumulation,
            sequence: $from.sequence,
            seed: $from.seed,
            eval_split: $from.eval_split,
            eval_every: $from.eval_every,
            patience: $from.patience,
            shuffle: $from.shuffle,
            checkpoint_every: $from.checkpoint_every,
            precision: $from.precision.into(),
            checkpointing: $from.checkpointing.into(),
            train_on_prompts: $from.train_on_prompts,
            init: $init,
        }
    };
}

impl From<protocol::TrainSettings> for wire::TrainSettings {
    /// Without the initial adapter, whose id is unknown here.
    fn from(from: protocol::TrainSettings) -> Self {
        settings!(wire, from, None)
    }
}

impl wire::TrainSettings {
    /// The settings for a training request, with the path of the initial adapter.
    pub(crate) fn for_worker(&self, init: Option<PathBuf>) -> protocol::TrainSettings {
        let from = self.clone();
        settings!(protocol, from, init)
    }
}

//! Errors of a run. Their messages are shown to the user.

use hearth_formats::listed;
use hearth_formats::shape::{LinearName, Module};
use hearth_llm::AdapterError;
use std::io;
use std::path::PathBuf;

/// A run could not be created or could not continue.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// An invalid setting.
    #[error("{what} is {found}, but must be {needed}.")]
    Setting {
        /// The setting, as the beginning of a sentence.
        what: &'static str,
        /// Its value.
        found: f64,
        /// The valid values.
        needed: &'static str,
    },
    /// No example has a trained token.
    #[error("No example has a token to train on. Check that the answers are not empty, and not truncated.")]
    NothingToTrain,
    /// A token id that is not in the vocabulary.
    #[error("An example has the token {id}, and the model's vocabulary has {vocab}.")]
    NoSuchToken {
        /// The token id.
        id: u32,
        /// The vocabulary's size.
        vocab: usize,
    },
    /// A name of no linear layer.
    #[error(
        "There is no module '{0}'. The target modules are {all}.",
        all = listed(LinearName::ALL.iter().map(|linear| linear.peft_module()))
    )]
    UnknownTarget(String),
    /// The model has none of the target modules.
    #[error("None of the target modules is in this model, so nothing would be trained.")]
    NoTarget,
    /// A rank larger than a weight.
    #[error("The rank {rank} is larger than the weight '{module}' allows, which is {most}. Choose a smaller rank.")]
    Rank {
        /// The requested rank.
        rank: usize,
        /// The weight's linear layer, or fused ones.
        module: Module,
        /// The weight's shorter side.
        most: usize,
    },
    /// An initial adapter that does not fit the settings.
    #[error(
        "The run cannot start from that adapter: {0}. Choose the settings that it was trained with, or start without \
         it."
    )]
    InitialAdapter(String),
    /// An adapter does not fit the model.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The loss or the gradient became NaN or infinite, or the loss exploded.
    #[error(
        "{what} became {value} in step {step}, so the run was stopped. An adapter saved before that is kept. Try a \
         lower learning rate."
    )]
    Diverged {
        /// The quantity that diverged, as the beginning of a sentence.
        what: &'static str,
        /// The step.
        step: usize,
        /// Its value, in words if it is NaN or infinite.
        value: String,
    },
    /// The receiver of a report could not save it.
    #[error("The run was stopped because its progress could not be saved. Resume it from its last checkpoint.")]
    Aborted,
    /// A checkpoint could not be written.
    #[error("The checkpoint could not be written to {}: {source}. The previous checkpoint is unchanged; free some \
        space, then resume.", path.display())]
    Write {
        /// The checkpoint.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A checkpoint cannot be read.
    #[error("The checkpoint {} cannot be used: {why}. Nothing was changed. Put the right one there, or start a new run \
        in another folder.", path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

impl TrainError {
    /// [`TrainError::Diverged`] for a value, in words if it is NaN or infinite.
    pub(crate) fn diverged(what: &'static str, step: usize, value: f64) -> Self {
        let value = match value {
            value if value.is_nan() => "NaN".to_owned(),
            value if value.is_infinite() => "infinite".to_owned(),
            value => format!("{value:.3}"),
        };
        Self::Diverged { what, step, value }
    }
}

//! What can go wrong in a run, as sentences for a person.

use hearth_llm::AdapterError;
use std::io;
use std::path::PathBuf;

/// A run could not be made, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A setting that cannot be used.
    #[error("{what} is {found}; it has to be {needed}.")]
    Setting {
        /// Which.
        what: &'static str,
        /// Its value.
        found: f64,
        /// What it has to be.
        needed: &'static str,
    },
    /// There is nothing to learn.
    #[error("There is no example with anything to learn in it. Check that the answers are not empty, or not cut off.")]
    NothingToLearn,
    /// A token that the vocabulary does not have.
    #[error("An example has the token {id}, and the model's vocabulary has {vocab}.")]
    NoSuchToken {
        /// The id.
        id: u32,
        /// Tokens of the vocabulary.
        vocab: usize,
    },
    /// No layer has such a linear.
    #[error("There is no linear '{0}'. Choose among q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj.")]
    UnknownTarget(String),
    /// Nothing would be trained.
    #[error("None of the chosen linears is in this model, so nothing would be trained.")]
    NoTarget,
    /// A rank larger than a weight.
    #[error("The rank {rank} is larger than the weight '{linear}' allows, which is {most}. Choose a smaller rank.")]
    Rank {
        /// As it was asked for.
        rank: usize,
        /// The linear.
        linear: String,
        /// Its shorter side.
        most: usize,
    },
    /// An adapter that a run cannot begin with.
    #[error("The run cannot begin with that adapter: {0}. Choose the settings that it was made with, or begin anew.")]
    WrongStart(String),
    /// An adapter does not fit the model.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The loss or the gradient is no number, or the loss grew far beyond where it was.
    #[error(
        "{what} became {value} in step {step}, so the run was stopped. What was learnt before is kept. Try a lower \
         learning rate."
    )]
    Diverged {
        /// What it was, as a sentence begins.
        what: &'static str,
        /// In which step.
        step: usize,
        /// What it became, in words where it is no number.
        value: String,
    },
    /// What it reported could not be kept.
    #[error(
        "The run has ended at once, since what it had learnt could not be kept. Resume it from its last checkpoint."
    )]
    Aborted,
    /// A checkpoint could not be written.
    #[error("The checkpoint could not be written to {}: {source}. What was saved before is still there; make room, and \
        resume.", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A checkpoint cannot be read.
    #[error("The checkpoint {} cannot be used: {why}. Nothing was changed. Put the right one there, or begin a new run \
        in another folder.", path.display())]
    Checkpoint {
        /// Where.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl TrainError {
    /// That `what` became this.
    pub(crate) fn diverged(what: &'static str, step: usize, value: f64) -> Self {
        let value = match value {
            value if value.is_nan() => "NaN, which is no number,".to_owned(),
            value if value.is_infinite() => "infinite".to_owned(),
            value => format!("{value:.3}"),
        };
        Self::Diverged { what, step, value }
    }
}

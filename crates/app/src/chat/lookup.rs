//! Looking models up for answers, beside the commands of the chat: reading a model's file takes as
//! long as its drive and its probe do, and a stop must not wait for them.

use super::{Target, selection::Selection};
use crate::{shared::Shared, wire::Problem};
use tokio::sync::{oneshot, watch};

/// The selection that an answer waits for, or why it has no model.
pub(super) type Looked = Result<watch::Receiver<Option<Selection>>, Problem>;

/// A model to look up.
pub(super) struct Lookup {
    pub wanted: Wanted,
    /// Of an answer.
    pub reply: Option<oneshot::Sender<Looked>>,
}

/// Which model is looked up.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// That of one answer alone.
    OfAnswer {
        /// The answer.
        message: i64,
        /// Id of the model.
        model: String,
    },
    /// That of a conversation's answers.
    OfConversation(i64),
    /// The selected one, by its id: its settings may have changed.
    Selected(String),
}

/// A model that was looked up.
#[derive(Debug)]
pub(super) enum Found {
    /// That of the answer or the conversation, or the selected one.
    Own(Box<Target>),
    /// The default model: neither the conversation nor the selection names one.
    Chosen(Box<Target>),
    /// The selected one answers; or it is no longer in the library.
    Nothing,
}

impl Lookup {
    /// Whether its answer was stopped meanwhile.
    pub fn is_unwanted(&self) -> bool {
        self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    /// Tells the answer.
    pub fn reply(self, looked: Looked) {
        if let Some(reply) = self.reply {
            // The answer may have been stopped since.
            let _ = reply.send(looked);
        }
    }
}

impl Wanted {
    /// Looks it up. Blocks. `has_selected`: whether a model is selected.
    ///
    /// # Errors
    /// The model is no longer in the library, or its file cannot be read.
    pub fn look_up(&self, shared: &Shared, has_selected: bool) -> Result<Found, Problem> {
        let own = |target| Found::Own(Box::new(target));
        match self {
            Self::OfAnswer { model, .. } => Target::of_answer(shared, model).map(own),
            Self::OfConversation(conversation) => match Target::of_conversation(shared, *conversation)? {
                Some(target) => Ok(own(target)),
                None if has_selected => Ok(Found::Nothing),
                None => Ok(Found::Chosen(Box::new(Target::choose(shared)?))),
            },
            Self::Selected(id) => match shared.model(id)? {
                Some(model) => Target::new(&model, shared).map(own),
                None => Ok(Found::Nothing),
            },
        }
    }
}

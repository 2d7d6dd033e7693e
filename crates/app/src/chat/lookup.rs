//! Looking models up for answers, beside the commands of the chat: reading a model's file takes as
//! long as its drive and its probe do, and neither a stop nor an answer of another model waits for
//! them.

use super::{Target, selection::Selection};
use crate::{lock::lock, shared::Shared, wire::Problem};
use std::{
    collections::HashMap,
    future,
    sync::{Arc, Mutex},
};
use tokio::sync::{oneshot, watch};

/// The selection that an answer waits for, or why it has no model.
pub(super) type Looked = Result<watch::Receiver<Option<Selection>>, Problem>;

/// A model to look up.
pub(super) struct Lookup {
    /// Its place among the commands that select a model.
    pub order: u64,
    pub wanted: Wanted,
    /// Of an answer.
    pub reply: Option<oneshot::Sender<Looked>>,
}

/// Which model is looked up.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// The model of one answer alone.
    OfAnswer {
        /// The answer.
        message: i64,
        /// Id of the model.
        model: String,
    },
    /// The model of a conversation's answers.
    OfConversation {
        /// The answer.
        message: i64,
        conversation: i64,
    },
    /// The selected one, by its id: its settings may have changed.
    Selected(String),
}

/// A model that was looked up.
#[derive(Debug)]
pub(super) enum Found {
    /// The model of the answer or the conversation, or the selected model.
    Own(Box<Target>),
    /// The default model: neither the conversation nor the selection names one.
    Chosen(Box<Target>),
    /// The selected one answers; or it is no longer in the library.
    Nothing,
}

/// One lookup of a model at a time, by the model's id, or `None` for the default one: a drive that
/// does not answer holds one thread for each of its models.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<Option<String>, Turn>>>);

type Turn = Arc<tokio::sync::Mutex<()>>;

impl Turns {
    fn turn(&self, model: Option<String>) -> Turn {
        lock(&self.0).entry(model).or_default().clone()
    }
}

impl Lookup {
    /// Whether its answer was stopped meanwhile.
    pub fn is_unwanted(&self) -> bool {
        self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    /// Waits until its answer is stopped.
    async fn unwanted(&mut self) {
        match &mut self.reply {
            Some(reply) => reply.closed().await,
            None => future::pending().await,
        }
    }

    /// Tells the answer.
    pub fn reply(self, looked: Looked) {
        if let Some(reply) = self.reply {
            // The answer may have been stopped since.
            let _ = reply.send(looked);
        }
    }

    /// Looks it up. `has_selected`: whether a model is selected. `None` means that its answer was
    /// stopped.
    pub async fn look_up(
        mut self,
        shared: &Arc<Shared>,
        has_selected: bool,
        turns: &Turns,
    ) -> Option<(Self, Result<Found, Problem>)> {
        let wanted = self.wanted.clone();
        tokio::select! {
            () = self.unwanted() => None,
            found = wanted.look_up(shared, has_selected, turns) => Some((self, found)),
        }
    }
}

impl Wanted {
    /// # Errors
    /// The model is no longer in the library, or its file cannot be read.
    async fn look_up(self, shared: &Arc<Shared>, has_selected: bool, turns: &Turns) -> Result<Found, Problem> {
        let id = match &self {
            Self::OfAnswer { model, .. } | Self::Selected(model) => Some(model.clone()),
            Self::OfConversation { conversation, .. } => {
                let conversation = *conversation;
                let own = shared.blocking(move |shared| Target::id_of_conversation(shared, conversation));
                own.await?
            }
        };
        if id.is_none() && has_selected {
            return Ok(Found::Nothing);
        }
        let turn = turns.turn(id.clone()).lock_owned().await;
        shared
            .blocking(move |shared| {
                // Held until the lookup ends, even if its receiver is gone.
                let _turn = turn;
                let own = |target| Found::Own(Box::new(target));
                match (self, id) {
                    (_, None) => Ok(Found::Chosen(Box::new(Target::choose(shared)?))),
                    (Self::OfAnswer { .. }, Some(id)) => Target::of_answer(shared, &id).map(own),
                    (Self::OfConversation { .. }, Some(id)) => Target::of_conversation(shared, &id).map(own),
                    (Self::Selected(_), Some(id)) => match shared.model(&id)? {
                        Some(model) => Target::new(&model, shared).map(own),
                        None => Ok(Found::Nothing),
                    },
                }
            })
            .await
    }
}

//! Lookups of models for answers. They run next to the commands of the chat: reading a model's file
//! may take long on a slow drive, and neither a stop nor an answer of another model waits for it.

use super::{Target, selection::Selection};
use crate::{lock::lock, shared::Shared, wire::Problem};
use std::{
    collections::HashMap,
    future,
    sync::{Arc, Mutex},
};
use tokio::sync::{oneshot, watch};

/// The selection that an answer waits for, or the problem that leaves it without a model.
pub(super) type SelectionResult = Result<watch::Receiver<Option<Selection>>, Problem>;

/// A model to look up.
pub(super) struct Lookup {
    /// Number of the command that needs it, see `Chat::order`.
    pub order: u64,
    pub query: LookupQuery,
    /// The answer that waits for the model. `None` for [`LookupQuery::Selected`].
    pub reply: Option<oneshot::Sender<SelectionResult>>,
}

/// The model to look up.
#[derive(Debug, Clone)]
pub(super) enum LookupQuery {
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
    /// The selected model, by its id: its settings may have changed.
    Selected(String),
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum LookupOutcome {
    /// The model of the answer or the conversation, or the selected model.
    Named(Box<Target>),
    /// The default model: neither the conversation nor the selection names one.
    Default(Box<Target>),
    /// The selected model answers, or is no longer in the library.
    KeepSelected,
}

/// Locks by model id (`None` for the default model), which serialize the lookups of a model. So a
/// drive that does not respond blocks at most one thread per model.
#[derive(Clone, Default)]
pub(super) struct ModelLocks(Arc<Mutex<HashMap<Option<String>, ModelLock>>>);

type ModelLock = Arc<tokio::sync::Mutex<()>>;

impl ModelLocks {
    fn get(&self, model: Option<String>) -> ModelLock {
        lock(&self.0).entry(model).or_default().clone()
    }
}

impl Lookup {
    /// Whether its answer was stopped meanwhile.
    pub fn is_cancelled(&self) -> bool {
        self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    /// Waits until its answer is stopped.
    async fn cancelled(&mut self) {
        match &mut self.reply {
            Some(reply) => reply.closed().await,
            None => future::pending().await,
        }
    }

    /// Sends the selection to the answer.
    pub fn reply(self, selection: SelectionResult) {
        if let Some(reply) = self.reply {
            // The answer may have been stopped since.
            let _ = reply.send(selection);
        }
    }

    /// Looks the model up. `has_selected`: whether a model is selected. Returns `None` if the
    /// answer was stopped.
    pub async fn look_up(
        mut self,
        shared: &Arc<Shared>,
        has_selected: bool,
        locks: &ModelLocks,
    ) -> Option<(Self, Result<LookupOutcome, Problem>)> {
        let query = self.query.clone();
        tokio::select! {
            () = self.cancelled() => None,
            outcome = query.look_up(shared, has_selected, locks) => Some((self, outcome)),
        }
    }
}

impl LookupQuery {
    /// # Errors
    /// The model is no longer in the library, or its file cannot be read.
    async fn look_up(
        self,
        shared: &Arc<Shared>,
        has_selected: bool,
        locks: &ModelLocks,
    ) -> Result<LookupOutcome, Problem> {
        let id = match &self {
            Self::OfAnswer { model, .. } | Self::Selected(model) => Some(model.clone()),
            Self::OfConversation { conversation, .. } => {
                let conversation = *conversation;
                let id = shared.blocking(move |shared| Target::id_of_conversation(shared, conversation));
                id.await?
            }
        };
        if id.is_none() && has_selected {
            return Ok(LookupOutcome::KeepSelected);
        }
        let guard = locks.get(id.clone()).lock_owned().await;
        shared
            .blocking(move |shared| {
                // Held until the lookup ends, even if its receiver is gone.
                let _guard = guard;
                let named = |target| LookupOutcome::Named(Box::new(target));
                match (self, id) {
                    (_, None) => Ok(LookupOutcome::Default(Box::new(Target::choose(shared)?))),
                    (Self::OfAnswer { .. }, Some(id)) => Target::of_answer(shared, &id).map(named),
                    (Self::OfConversation { .. }, Some(id)) => Target::of_conversation(shared, &id).map(named),
                    (Self::Selected(_), Some(id)) => match shared.model(&id)? {
                        Some(model) => Target::new(&model, shared).map(named),
                        None => Ok(LookupOutcome::KeepSelected),
                    },
                }
            })
            .await
    }
}

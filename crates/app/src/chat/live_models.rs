//! The models that answer or have answered, selected or not, and their states in the window.

use super::selection::{Selection, state};
use crate::{
    shared::Shared,
    wire::{Event, ModelState},
};
use hearth_protocol::{Model, ModelStatus};
use std::{collections::HashMap, future::poll_fn, sync::Arc, task::Poll};
use tokio::sync::watch;

/// The models whose states are shown, one per id.
pub(super) struct LiveModels(watch::Sender<Vec<Selection>>);

impl LiveModels {
    /// Shows their states until it is dropped. Needs a tokio runtime.
    pub fn new(shared: Arc<Shared>) -> Self {
        let (models, changes) = watch::channel(Vec::new());
        tokio::spawn(show(shared, changes));
        Self(models)
    }

    /// Adds a model. Replaces a model with the same id, which has other settings.
    pub fn add(&self, selection: Selection) {
        self.0.send_modify(|models| {
            models.retain(|other| other.target.id != selection.target.id);
            models.push(selection);
        });
    }

    /// The model with this id.
    pub fn find(&self, id: &str) -> Option<Selection> {
        let models = self.0.borrow();
        models.iter().find(|selection| selection.target.id == id).cloned()
    }

    /// Drops the models that `should_keep` rejects; the window then shows them as not loaded.
    pub fn retain(&self, should_keep: impl Fn(&Model) -> bool) {
        self.0
            .send_modify(|models| models.retain(|selection| should_keep(&selection.model)));
    }

    /// The states of those that are loaded, being loaded or could not be loaded.
    pub fn states(&self) -> Vec<ModelState> {
        let models = self.0.borrow();
        let states = models.iter().map(|selection| state(Some(selection)));
        states.filter(|state| *state != ModelState::None).collect()
    }
}

/// Emits the state of each model whenever it changes.
async fn show(shared: Arc<Shared>, mut models: watch::Receiver<Vec<Selection>>) {
    let mut shown = HashMap::<String, ModelState>::new();
    loop {
        let current = models.borrow_and_update().clone();
        // Subscribed before the states are read, so that no change is missed.
        let statuses: Vec<_> = current.iter().map(|selection| selection.model.status()).collect();
        shown.retain(|model, state| {
            let is_kept = current.iter().any(|selection| selection.target.id == *model);
            if !is_kept && *state != ModelState::None {
                let (model, state) = (model.clone(), ModelState::None);
                shared.emit(Event::LiveModel { model, state });
            }
            is_kept
        });
        for selection in &current {
            let (model, state) = (selection.target.id.clone(), state(Some(selection)));
            if *shown.get(&model).unwrap_or(&ModelState::None) != state {
                shown.insert(model.clone(), state.clone());
                shared.emit(Event::LiveModel { model, state });
            }
        }
        tokio::select! {
            changed = models.changed() => if changed.is_err() {
                return;
            },
            () = any_changed(statuses) => {}
        }
    }
}

/// Waits until one of the statuses changes. Their senders must exist.
async fn any_changed(mut statuses: Vec<watch::Receiver<ModelStatus>>) {
    let mut changes: Vec<_> = statuses.iter_mut().map(|status| Box::pin(status.changed())).collect();
    poll_fn(|context| {
        if changes
            .iter_mut()
            .any(|change| change.as_mut().poll(context).is_ready())
        {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

//! The state that the worker's threads share.

use super::job::Kind;
use super::output::Output;
use crate::training::RunControl;
use hearth_protocol::{Envelope, Event, RequestId, RunCommand};
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Shared {
    state: Mutex<State>,
    output: Output,
}

#[derive(Default)]
pub(super) struct State {
    /// Queued and running requests that can be cancelled.
    live: HashMap<RequestId, Live>,
    /// Controls of queued and running runs.
    pub runs: HashMap<RequestId, Arc<RunControl>>,
    pub closing: bool,
}

struct Live {
    kind: Kind,
    is_begun: bool,
    is_cancelled: bool,
}

impl Shared {
    pub fn new(output: Box<dyn Write + Send>) -> Self {
        Self {
            state: Mutex::default(),
            output: Output::new(output),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event of a request.
    pub fn emit(&self, id: RequestId, message: Event) {
        if let Err(error) = self.output.write(&Envelope { id, message }) {
            tracing::warn!("the client closed the pipe: {error}");
            self.close();
        }
    }

    /// Sends the last event of a request. The request is removed before, since the client may make
    /// the next one as soon as the event arrives.
    pub fn end(&self, id: RequestId, event: Event) {
        self.state().live.remove(&id);
        self.emit(id, event);
    }

    /// Registers a request that can be cancelled. Returns `false` if its id is in use.
    pub fn admit(&self, id: RequestId, kind: Kind) -> bool {
        let live = Live {
            kind,
            is_begun: false,
            is_cancelled: false,
        };
        let mut state = self.state();
        let is_new = !state.live.contains_key(&id) && !state.runs.contains_key(&id);
        if is_new {
            state.live.insert(id, live);
        }
        is_new
    }

    /// Begins a request. Returns `false` if it was cancelled, and its last event sent, before.
    pub fn begin(&self, id: RequestId) -> bool {
        let mut state = self.state();
        state.live.get_mut(&id).map(|live| live.is_begun = true).is_some()
    }

    /// Cancels a request. One that has not begun ends here, and is removed under the same lock, so
    /// that it cannot begin meanwhile and end twice.
    pub fn cancel(&self, id: RequestId) {
        let mut state = self.state();
        let Some(live) = state.live.get_mut(&id) else { return };
        if live.is_begun {
            live.is_cancelled = true;
            return;
        }
        let event = live.kind.cancelled();
        state.live.remove(&id);
        state.runs.remove(&id);
        drop(state);
        self.emit(id, event);
    }

    /// Whether a request was cancelled, or the worker closes.
    pub fn is_cancelled(&self, id: RequestId) -> bool {
        self.state().live.get(&id).is_none_or(|live| live.is_cancelled)
    }

    /// The generations that have begun.
    pub fn answering(&self) -> Vec<RequestId> {
        let state = self.state();
        let begun = state
            .live
            .iter()
            .filter(|(_, live)| live.is_begun && live.kind == Kind::Generation);
        begun.map(|(id, _)| *id).collect()
    }

    /// Cancels all loads, generations and other requests that can be cancelled.
    pub fn cancel_all(&self) {
        let ids: Vec<RequestId> = self.state().live.keys().copied().collect();
        ids.into_iter().for_each(|id| self.cancel(id));
    }

    /// Whether a generation or a load waits for the engine.
    pub fn is_awaited(&self) -> bool {
        let state = self.state();
        state
            .live
            .values()
            .any(|live| !live.is_begun && matches!(live.kind, Kind::Generation | Kind::Load))
            || state.closing
    }

    pub fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        state.live.values_mut().for_each(|live| live.is_cancelled = true);
        state.runs.values().for_each(|control| control.set(RunCommand::Suspend));
    }
}

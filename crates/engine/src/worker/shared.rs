//! The state that the worker's threads share.

use super::job::Kind;
use super::output::Output;
use crate::training::RunControl;
use hearth_protocol::{Envelope, Event, RequestId, RunCommand};
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state and the output.
pub(super) struct Shared {
    state: Mutex<State>,
    output: Output,
}

/// The requests in progress.
#[derive(Default)]
pub(super) struct State {
    /// Queued and running requests that can be cancelled.
    requests: HashMap<RequestId, RequestState>,
    /// Controls of queued and running runs.
    pub runs: HashMap<RequestId, Arc<RunControl>>,
    /// The last count of an unsent message, which may have ended.
    last_count: Option<RequestId>,
    pub closing: bool,
}

/// A request that can be cancelled.
struct RequestState {
    kind: Kind,
    has_begun: bool,
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

    /// Sends the last event of a request. The request is removed before, since the client may send
    /// the next request as soon as the event arrives.
    pub fn end(&self, id: RequestId, event: Event) {
        self.state().requests.remove(&id);
        self.emit(id, event);
    }

    /// Registers a request that can be cancelled. Returns `false` if its id is in use.
    pub fn admit(&self, id: RequestId, kind: Kind) -> bool {
        let request = RequestState {
            kind,
            has_begun: false,
            is_cancelled: false,
        };
        let mut state = self.state();
        let is_new = !state.requests.contains_key(&id) && !state.runs.contains_key(&id);
        if is_new {
            state.requests.insert(id, request);
        }
        is_new
    }

    /// Marks a request as begun. Returns `false` if it was cancelled before; then its last event is
    /// sent already.
    pub fn begin(&self, id: RequestId) -> bool {
        let mut state = self.state();
        state
            .requests
            .get_mut(&id)
            .map(|request| request.has_begun = true)
            .is_some()
    }

    /// Cancels a request. A request that has not begun ends here. It is removed under the same
    /// lock, so that it cannot begin meanwhile and end twice.
    pub fn cancel(&self, id: RequestId) {
        let mut state = self.state();
        let Some(request) = state.requests.get_mut(&id) else {
            return;
        };
        if request.has_begun {
            request.is_cancelled = true;
            return;
        }
        let event = request.kind.cancelled();
        state.requests.remove(&id);
        state.runs.remove(&id);
        drop(state);
        self.emit(id, event);
    }

    /// Cancels the last count of an unsent message. `id` is a newer one.
    pub fn supersede_count(&self, id: RequestId) {
        let previous = self.state().last_count.replace(id);
        if let Some(previous) = previous {
            self.cancel(previous);
        }
    }

    /// Whether a request was cancelled, or the worker closes.
    pub fn is_cancelled(&self, id: RequestId) -> bool {
        self.state()
            .requests
            .get(&id)
            .is_none_or(|request| request.is_cancelled)
    }

    /// The generations that have begun.
    pub fn answering(&self) -> Vec<RequestId> {
        let state = self.state();
        let answering = state
            .requests
            .iter()
            .filter(|(_, request)| request.has_begun && request.kind == Kind::Generation);
        answering.map(|(id, _)| *id).collect()
    }

    /// Cancels all loads, generations and other requests that can be cancelled.
    pub fn cancel_all(&self) {
        let ids: Vec<RequestId> = self.state().requests.keys().copied().collect();
        ids.into_iter().for_each(|id| self.cancel(id));
    }

    /// Whether a generation or a load waits for the engine, or the worker closes.
    pub fn is_awaited(&self) -> bool {
        let state = self.state();
        state
            .requests
            .values()
            .any(|request| !request.has_begun && matches!(request.kind, Kind::Generation | Kind::Load))
            || state.closing
    }

    /// Closes the worker: cancels all requests and suspends all runs.
    pub fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        state
            .requests
            .values_mut()
            .for_each(|request| request.is_cancelled = true);
        state.runs.values().for_each(|control| control.set(RunCommand::Suspend));
    }
}

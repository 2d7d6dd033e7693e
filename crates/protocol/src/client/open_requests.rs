//! The requests of a worker that have no last event yet.

use super::responses::Stream;
use crate::{Envelope, Event, Problem, ProblemCode, RequestId};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;
use tokio::time::Instant;

/// The requests of a worker that have no last event yet.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    state: Mutex<State>,
    /// Whether a request has failed with [`ProblemCode::GpuFailed`].
    pub gpu_failed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    last_id: RequestId,
    streams: HashMap<RequestId, Arc<Stream>>,
    /// Arrival of the last event of any request.
    last_event_at: Option<Instant>,
    /// Why there are no more events. `None` means that the worker is alive.
    death: Option<Problem>,
}

/// An event that does not belong to an open request, or too many unread events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unexpected;

impl OpenRequests {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a new id, for a request that is not answered.
    pub fn next_id(&self) -> RequestId {
        let mut state = self.state();
        state.last_id += 1;
        state.last_id
    }

    /// Adds a request. If the worker is dead, the request has failed already.
    pub fn add(&self) -> (RequestId, Arc<Stream>) {
        let id = self.next_id();
        let mut state = self.state();
        let stream = Arc::<Stream>::default();
        match &state.death {
            Some(problem) => stream.end(Event::Failed(problem.clone())),
            None => drop(state.streams.insert(id, Arc::clone(&stream))),
        }
        (id, stream)
    }

    /// Whether a request has no last event yet.
    pub fn contains(&self, id: RequestId) -> bool {
        self.state().streams.contains_key(&id)
    }

    /// Arrival of the worker's last event. `None` means that no request has had an event.
    pub fn last_event_at(&self) -> Option<Instant> {
        self.state().last_event_at
    }

    /// Fails one request. It stays open, so that further events of it are dropped.
    pub fn fail(&self, id: RequestId, problem: Problem) {
        let stream = self.state().streams.get(&id).cloned();
        if let Some(stream) = stream {
            stream.end(Event::Failed(problem));
        }
    }

    /// Delivers an event to its request.
    ///
    /// # Errors
    /// The request was not made, has had its last event, or has too many unread events.
    pub fn deliver(&self, envelope: Envelope<Event>) -> Result<(), Unexpected> {
        let Envelope { id, message } = envelope;
        let mut state = self.state();
        state.last_event_at = Some(Instant::now());
        if message.is_last() {
            let stream = state.streams.remove(&id).ok_or(Unexpected)?;
            drop(state);
            if matches!(&message, Event::Failed(problem) if problem.code == ProblemCode::GpuFailed) {
                self.gpu_failed.send_replace(true);
            }
            stream.end(message);
            return Ok(());
        }
        let stream = Arc::clone(state.streams.get(&id).ok_or(Unexpected)?);
        drop(state);
        stream.push(message)
    }

    /// Whether all requests fail, since the worker has ended.
    pub fn is_closed(&self) -> bool {
        self.state().death.is_some()
    }

    /// Fails all requests, now and from now on.
    pub fn fail_all(&self, problem: &Problem) {
        let mut state = self.state();
        let death = state.death.get_or_insert_with(|| problem.clone()).clone();
        let streams = std::mem::take(&mut state.streams);
        drop(state);
        for stream in streams.into_values() {
            stream.end(Event::Failed(death.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: RequestId, message: Event) -> Envelope<Event> {
        Envelope { id, message }
    }

    #[test]
    fn events_of_no_open_request_are_refused() {
        let open_requests = OpenRequests::default();
        let (first, _) = open_requests.add();
        let unanswered = open_requests.next_id();
        let (second, _) = open_requests.add();
        assert!(first < unanswered && unanswered < second);
        assert_eq!(
            open_requests.deliver(event(second, Event::Done)),
            Ok(()),
            "out of order"
        );
        for id in [0, unanswered, second, second + 1] {
            assert_eq!(open_requests.deliver(event(id, Event::Done)), Err(Unexpected), "{id}");
        }
        assert_eq!(open_requests.deliver(event(first, Event::Done)), Ok(()));
        assert_eq!(
            open_requests.deliver(event(first, Event::Done)),
            Err(Unexpected),
            "twice"
        );
    }

    #[tokio::test]
    async fn a_request_to_a_dead_worker_fails_with_the_first_reason() {
        let open_requests = OpenRequests::default();
        let problem = |text: &str| Problem::detail(ProblemCode::WorkerDied, text);
        let (_, before) = open_requests.add();
        open_requests.fail_all(&problem("first"));
        open_requests.fail_all(&problem("second"));
        let (_, after) = open_requests.add();
        for stream in [before, after] {
            assert_eq!(stream.next().await, Some(Event::Failed(problem("first"))));
            assert_eq!(stream.next().await, None);
        }
    }
}

//! Background answers: one runs at a time, only while no other answer waits or runs, on memory that
//! no session uses.

use super::{Listener, RunningAnswer, Scheduler, WaitingAnswer, finish};
use crate::problem::from_session;
use hearth_llm::{Session, SessionError};
use hearth_protocol::{Event, FinishReason};
use std::sync::Arc;

/// Maximum tokens of a prompt that are read for a background answer, beyond those in the cache.
const MAX_READ: usize = 1024;

impl Scheduler {
    /// Takes the next waiting answer that can be admitted: a background answer only if no other
    /// answer waits or runs.
    pub(super) fn next_waiting(&mut self) -> Option<WaitingAnswer> {
        let foreground = self
            .waiting
            .iter()
            .position(|waiting| !waiting.answer.request.background);
        match foreground {
            Some(index) => self.waiting.remove(index),
            None if self.running.is_empty() => self.waiting.pop_front(),
            None => None,
        }
    }

    /// Moves the running background answer behind all waiting answers if another one waits. Its
    /// tokens are read again later.
    pub(super) fn preempt_background(&mut self) {
        if self.waiting.iter().all(|waiting| waiting.answer.request.background) {
            return;
        }
        if let Some(running) = self.take_background() {
            self.waiting.push_back(WaitingAnswer {
                id: running.id,
                number: running.number,
                answer: running.answer,
                adapted: running.adapted,
                dropped: None,
            });
        }
    }

    /// Takes the running background answer.
    pub(super) fn take_background(&mut self) -> Option<RunningAnswer> {
        let index = self.running.iter().position(RunningAnswer::is_background)?;
        Some(self.running.remove(index))
    }

    /// Whether steps must be short: other answers wait for their end, or may soon.
    pub(super) fn has_short_steps(&self) -> bool {
        self.running.len() > 1 || self.running.iter().any(RunningAnswer::is_background)
    }

    /// Starts a background answer, or ends it if that would drop a session or read many tokens.
    pub(super) fn start_background(&mut self, waiting: WaitingAnswer, empty: &Session, listener: &mut dyn Listener) {
        match self.background_session(&waiting, empty) {
            Ok(Some(session)) => self.start(waiting, session, listener),
            Ok(None) => finish(waiting.id, waiting.answer, FinishReason::Cancelled, listener),
            Err(error) => listener.emit(waiting.id, Event::Failed(from_session(error))),
        }
    }

    /// Returns a session that shares the pages of the idle session with the longest prefix, which
    /// stays. `None` if the free pages are too few, or too many tokens would have to be read.
    fn background_session(&self, waiting: &WaitingAnswer, empty: &Session) -> Result<Option<Session>, SessionError> {
        let WaitingAnswer { answer, adapted, .. } = waiting;
        let mut session = match self.idle.fork(&adapted.adapters, &answer.ids) {
            Some(session) => session,
            None => empty.sharing_cache(Arc::clone(&adapted.model))?,
        };
        let cached = session.begin(&answer.ids)?;
        let is_short = answer.ids.len() - cached <= MAX_READ;
        let needed = (answer.ids.len() + answer.max_more_tokens()).min(session.context());
        Ok(Some(session).filter(|session| is_short && session.has_room(needed)))
    }
}

impl RunningAnswer {
    fn is_background(&self) -> bool {
        self.answer.request.background
    }
}

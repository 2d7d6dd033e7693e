//! Admission: a waiting answer gets a session as soon as the KV cache has room for its prompt.

use super::idle::SessionSource;
use super::{Listener, RunningAnswer, Scheduler, WaitingAnswer};
use crate::numbers::saturating_u32;
use crate::plan::MAX_RUNNING;
use crate::problem::from_session;
use crate::prompt_cache::PromptCache;
use hearth_llm::{Session, SessionError};
use hearth_protocol::Event;
use std::sync::Arc;

/// Tokens of an answer that must have room beside its prompt. With less, it would soon be preempted
/// again.
const MIN_ANSWER_ROOM: usize = 128;

impl Scheduler {
    /// Starts waiting answers in order, until there is no room for the next one.
    pub(super) fn admit(&mut self, empty: &Session, mut cache: Option<&mut PromptCache>, listener: &mut dyn Listener) {
        while self.running.len() < MAX_RUNNING
            && !self.is_full
            && let Some(waiting) = self.next_waiting()
        {
            if waiting.answer.request.background {
                self.start_background(waiting, empty, listener);
                continue;
            }
            match self.session_for(&waiting, empty, cache.as_deref_mut()) {
                Ok(Some(session)) => self.start(waiting, session, listener),
                Ok(None) => return self.waiting.push_front(waiting),
                Err(error) => {
                    self.end_draft(waiting.number);
                    listener.emit(waiting.id, Event::Failed(from_session(error)));
                }
            }
        }
    }

    /// Returns a session with room for an answer, and with as many of its tokens as possible.
    /// `None` if other answers need the room. If no other answer runs, a session is returned in any
    /// case.
    fn session_for(
        &mut self,
        waiting: &WaitingAnswer,
        empty: &Session,
        cache: Option<&mut PromptCache>,
    ) -> Result<Option<Session>, SessionError> {
        let WaitingAnswer { answer, adapted, .. } = waiting;
        let adapters = &adapted.adapters;
        let source = match self.idle.take(adapters, &answer.ids) {
            Some(source) => source,
            None => SessionSource::New(empty.sharing_cache(Arc::clone(&adapted.model))?),
        };
        let needed = answer.ids.len() + MIN_ANSWER_ROOM + self.expected_tokens();
        let needed = if self.running.is_empty() {
            needed.min(empty.context())
        } else {
            needed
        };
        while !source.session().has_room(needed) && (self.idle.drop_oldest() || self.drop_snapshots()) {}
        if !source.session().has_room(needed) && !self.running.is_empty() {
            self.idle.give_back(source);
            return Ok(None);
        }
        let mut session = source.into_session();
        if let (Some(cache), Some(_)) = (cache, answer.request.conversation) {
            cache.restore(&mut session, adapters, &answer.ids);
        }
        Ok(Some(session))
    }

    /// Drops the snapshots of answers in progress, which are only needed to regenerate them.
    /// Returns whether there were any.
    pub(super) fn drop_snapshots(&mut self) -> bool {
        let mut dropped = false;
        for running in &mut self.running {
            dropped |= running.session.drop_snapshots();
        }
        dropped
    }

    /// Tokens that the answers in progress are expected to add to the KV cache soon.
    fn expected_tokens(&self) -> usize {
        let expected =
            |running: &RunningAnswer| running.answer.ids.len() - running.session.tokens().len() + MIN_ANSWER_ROOM;
        self.running.iter().map(expected).sum()
    }

    pub(super) fn start(&mut self, waiting: WaitingAnswer, mut session: Session, listener: &mut dyn Listener) {
        let WaitingAnswer {
            id,
            number,
            mut answer,
            adapted,
            dropped,
        } = waiting;
        let cached = match session.begin(&answer.ids) {
            Ok(cached) => cached,
            Err(error) => {
                self.end_draft(number);
                return listener.emit(id, Event::Failed(from_session(error)));
            }
        };
        if answer.begin(cached) {
            let so_far = answer.take_so_far();
            listener.emit(
                id,
                Event::Started {
                    prompt_tokens: saturating_u32(answer.prompt()),
                    cached_tokens: saturating_u32(cached),
                    dropped,
                    so_far,
                },
            );
        }
        self.running.push(RunningAnswer {
            id,
            number,
            answer,
            adapted,
            session,
            reported: cached,
            last_chunk: 0,
        });
    }
}

//! Waiting answers get a session as soon as there is room for their prompt.

use super::idle::Taken;
use super::{Listener, MAX_RUNNING, Running, Scheduler, Waiting};
use crate::numbers::saturating_u32;
use crate::problem::from_session;
use crate::prompt_cache::PromptCache;
use hearth_llm::{Session, SessionError};
use hearth_protocol::Event;
use std::sync::Arc;

/// Tokens of an answer that must have room beside its prompt, so that it does not soon give its
/// pages up again.
const ANSWER: usize = 128;

impl Scheduler {
    /// Begins waiting answers, in order, until there is no room for one.
    pub(super) fn admit(&mut self, empty: &Session, mut cache: Option<&mut PromptCache>, listener: &mut dyn Listener) {
        while self.running.len() < MAX_RUNNING
            && !self.is_full
            && let Some(waiting) = self.waiting.pop_front()
        {
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

    /// A session with room for an answer, which has as much of its tokens as possible; `None` if
    /// others take the room. An answer that is alone gets one in any case.
    fn session_for(
        &mut self,
        waiting: &Waiting,
        empty: &Session,
        cache: Option<&mut PromptCache>,
    ) -> Result<Option<Session>, SessionError> {
        let Waiting { answer, adapted, .. } = waiting;
        let adapters = &adapted.adapters;
        let taken = match self.idle.take(adapters, &answer.ids) {
            Some(taken) => taken,
            None => Taken::New(empty.sharing_cache(Arc::clone(&adapted.model))?),
        };
        let needed = answer.ids.len() + ANSWER + self.promised();
        let needed = if self.running.is_empty() {
            needed.min(empty.context())
        } else {
            needed
        };
        while !taken.session().has_room(needed) && (self.idle.drop_oldest() || self.drop_snapshots()) {}
        if !taken.session().has_room(needed) && !self.running.is_empty() {
            self.idle.give_back(taken);
            return Ok(None);
        }
        let mut session = taken.into_session();
        if let (Some(cache), Some(_)) = (cache, answer.request.conversation) {
            cache.restore(&mut session, adapters, &answer.ids);
        }
        Ok(Some(session))
    }

    /// Drops the snapshots of answers in progress, which only their regeneration needs. Returns
    /// whether there were any.
    pub(super) fn drop_snapshots(&mut self) -> bool {
        let mut any = false;
        for running in &mut self.running {
            any |= running.session.drop_snapshots();
        }
        any
    }

    /// Tokens that the answers in progress will soon add to the cache.
    fn promised(&self) -> usize {
        let of_one = |running: &Running| running.answer.ids.len() - running.session.tokens().len() + ANSWER;
        self.running.iter().map(of_one).sum()
    }

    fn start(&mut self, waiting: Waiting, mut session: Session, listener: &mut dyn Listener) {
        let Waiting {
            id,
            number,
            mut answer,
            adapted,
            left_out,
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
                    left_out,
                    so_far,
                },
            );
        }
        self.running.push(Running {
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

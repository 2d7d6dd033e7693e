//! Sessions of ended answers, which the next requests of their conversations continue.

use crate::adapters::ActiveAdapters;
use crate::prompt_cache::PromptCache;
use hearth_llm::Session;
use hearth_protocol::ConversationId;

/// Most sessions that are kept. Their number is small, because a full cache drops them, too.
const MAX: usize = 16;

/// Sessions of ended answers, the least recently used first.
#[derive(Default)]
pub(super) struct IdleSessions(Vec<Idle>);

struct Idle {
    session: Session,
    adapters: ActiveAdapters,
    /// The conversation to save it for; `None` if it is saved or belongs to none.
    unsaved: Option<ConversationId>,
}

impl IdleSessions {
    /// Keep a session.
    pub fn add(&mut self, session: Session, adapters: ActiveAdapters, conversation: Option<ConversationId>) {
        if self.0.len() >= MAX {
            self.0.remove(0);
        }
        self.0.push(Idle {
            session,
            adapters,
            unsaved: conversation,
        });
    }

    /// Take the session with these adapters that has the longest part of `ids`, with the
    /// conversation it is not saved for; or a fork of it if it has much more than that.
    pub fn take(&mut self, adapters: &ActiveAdapters, ids: &[u32]) -> Option<(Session, Option<ConversationId>)> {
        let of = |(at, idle): (usize, &Idle)| {
            let shared = idle.session.reusable(ids);
            (idle.adapters == *adapters && shared > 0).then_some((shared, at))
        };
        let (shared, at) = self.0.iter().enumerate().filter_map(of).max()?;
        let idle = &self.0[at];
        if idle.session.tokens().len() > 2 * shared {
            // Probably another conversation with the same system prompt.
            return Some((idle.session.fork(), None));
        }
        let Idle { session, unsaved, .. } = self.0.remove(at);
        Some((session, unsaved))
    }

    /// Drop the least recently used session. Returns `false` if there is none.
    pub fn drop_oldest(&mut self) -> bool {
        let any = !self.0.is_empty();
        if any {
            self.0.remove(0);
        }
        any
    }

    /// Forget to which conversation sessions belong.
    pub fn forget(&mut self, conversation: ConversationId) {
        for idle in &mut self.0 {
            idle.unsaved.take_if(|of| *of == conversation);
        }
    }

    /// Save the sessions that are not saved yet.
    pub fn save(&mut self, cache: &mut PromptCache, give_up: &dyn Fn() -> bool) {
        for idle in &mut self.0 {
            let Some(conversation) = idle.unsaved else { continue };
            if give_up() {
                return;
            }
            cache.save(conversation, &idle.session, &idle.adapters, give_up);
            if !give_up() {
                idle.unsaved = None;
            }
        }
    }
}

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

pub(super) struct Idle {
    session: Session,
    adapters: ActiveAdapters,
    /// The conversation to save it for; `None` if it is saved or belongs to none.
    unsaved: Option<ConversationId>,
}

/// A session for an answer.
pub(super) enum Taken {
    /// One that was kept.
    Whole(Idle),
    /// A fork of one that is still kept.
    Fork(Session),
    /// An empty one.
    New(Session),
}

impl Taken {
    pub fn session(&self) -> &Session {
        match self {
            Self::Whole(idle) => &idle.session,
            Self::Fork(session) | Self::New(session) => session,
        }
    }

    pub fn into_session(self) -> Session {
        match self {
            Self::Whole(idle) => idle.session,
            Self::Fork(session) | Self::New(session) => session,
        }
    }
}

impl IdleSessions {
    /// Adds a session. Above `MAX`, the least recently used one is dropped.
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

    /// Takes the session with these adapters that has the longest prefix of `ids`, or a fork of it
    /// if it is much longer than that prefix.
    pub fn take(&mut self, adapters: &ActiveAdapters, ids: &[u32]) -> Option<Taken> {
        let of = |(at, idle): (usize, &Idle)| {
            let shared = idle.session.reusable(ids);
            (idle.adapters == *adapters && shared > 0).then_some((shared, at))
        };
        let (shared, at) = self.0.iter().enumerate().filter_map(of).max()?;
        let idle = &self.0[at];
        if idle.session.tokens().len() > 2 * shared {
            // Probably another conversation with the same system prompt.
            return Some(Taken::Fork(idle.session.fork()));
        }
        Some(Taken::Whole(self.0.remove(at)))
    }

    /// Puts back a session that was taken and not used.
    pub fn give_back(&mut self, taken: Taken) {
        if let Taken::Whole(idle) = taken {
            self.0.push(idle);
        }
    }

    /// Drops the least recently used session. Returns `false` if there is none.
    pub fn drop_oldest(&mut self) -> bool {
        let any = !self.0.is_empty();
        if any {
            self.0.remove(0);
        }
        any
    }

    /// Detaches sessions from a conversation, so that they are not saved.
    pub fn forget(&mut self, conversation: ConversationId) {
        for idle in &mut self.0 {
            idle.unsaved.take_if(|of| *of == conversation);
        }
    }

    /// Saves the sessions that are not saved yet.
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

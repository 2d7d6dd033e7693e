//! Sessions of ended answers. The next request of a conversation continues its session.

use crate::adapters::ActiveAdapters;
use crate::prompt_cache::PromptCache;
use hearth_llm::Session;
use hearth_protocol::ConversationId;

/// Maximum number of idle sessions. It is small, because a full cache drops them anyway.
const MAX_SESSIONS: usize = 16;

/// Sessions of ended answers, the least recently used first.
#[derive(Default)]
pub(super) struct IdleSessions(Vec<IdleSession>);

/// The session of an ended answer.
pub(super) struct IdleSession {
    session: Session,
    adapters: ActiveAdapters,
    /// The conversation for which it is to be saved. `None` if it is saved, or if it has no
    /// conversation.
    unsaved: Option<ConversationId>,
}

/// A session for an answer, by its source.
pub(super) enum SessionSource {
    /// An idle session.
    Idle(IdleSession),
    /// A fork of an idle session, which is still kept.
    Fork(Session),
    /// An empty session.
    New(Session),
}

impl SessionSource {
    pub fn session(&self) -> &Session {
        match self {
            Self::Idle(idle) => &idle.session,
            Self::Fork(session) | Self::New(session) => session,
        }
    }

    pub fn into_session(self) -> Session {
        match self {
            Self::Idle(idle) => idle.session,
            Self::Fork(session) | Self::New(session) => session,
        }
    }
}

impl IdleSessions {
    /// Adds a session. Above [`MAX_SESSIONS`], the least recently used one is dropped.
    pub fn add(&mut self, session: Session, adapters: ActiveAdapters, conversation: Option<ConversationId>) {
        if self.0.len() >= MAX_SESSIONS {
            self.0.remove(0);
        }
        self.0.push(IdleSession {
            session,
            adapters,
            unsaved: conversation,
        });
    }

    /// Takes the session with these adapters that has the longest prefix of `ids`, or a fork of it
    /// if it is much longer than that prefix.
    pub fn take(&mut self, adapters: &ActiveAdapters, ids: &[u32]) -> Option<SessionSource> {
        let (length, index) = self.longest_prefix(adapters, ids)?;
        let idle = &self.0[index];
        if idle.session.tokens().len() > 2 * length {
            // Probably another conversation with the same system prompt.
            return Some(SessionSource::Fork(idle.session.fork()));
        }
        Some(SessionSource::Idle(self.0.remove(index)))
    }

    /// Forks the session with these adapters that has the longest prefix of `ids`.
    pub fn fork(&self, adapters: &ActiveAdapters, ids: &[u32]) -> Option<Session> {
        let (_, index) = self.longest_prefix(adapters, ids)?;
        Some(self.0[index].session.fork())
    }

    /// The length of the longest prefix of `ids`, and the index of the session with these adapters
    /// that has it.
    fn longest_prefix(&self, adapters: &ActiveAdapters, ids: &[u32]) -> Option<(usize, usize)> {
        let prefix = |(index, idle): (usize, &IdleSession)| {
            let length = idle.session.reusable(ids);
            (idle.adapters == *adapters && length > 0).then_some((length, index))
        };
        self.0.iter().enumerate().filter_map(prefix).max()
    }

    /// Puts back a session that was taken and not used.
    pub fn give_back(&mut self, source: SessionSource) {
        if let SessionSource::Idle(idle) = source {
            self.0.push(idle);
        }
    }

    /// Drops the least recently used session. Returns `false` if there is none.
    pub fn drop_oldest(&mut self) -> bool {
        let has_session = !self.0.is_empty();
        if has_session {
            self.0.remove(0);
        }
        has_session
    }

    /// Detaches sessions from a conversation, so that they are not saved.
    pub fn forget(&mut self, conversation: ConversationId) {
        for idle in &mut self.0 {
            idle.unsaved.take_if(|unsaved| *unsaved == conversation);
        }
    }

    /// Saves the sessions that are not saved yet, until `give_up` returns `true`.
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

//! Counts the tokens of an unsent message in the worker of the model that would answer it, if the
//! model is loaded.

use super::{Target, request, selection::Selection};
use crate::{
    shared::Shared,
    store::{conversation, folder},
    wire::{NewConversation, Problem, UnsentCount, UnsentDraft},
};
use hearth_protocol::{ConversationBefore, CountUnsent, Event, ProblemCode, Request};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{Mutex, MutexGuard, oneshot};

/// The reply to a count.
pub(crate) type Reply = oneshot::Sender<Result<UnsentCount, Problem>>;

/// A message to count.
pub(crate) struct Count {
    pub draft: UnsentDraft,
    /// Id of the model of its conversation. `None` means the selected one.
    pub model: Option<String>,
}

/// The worker, by process id, to which a conversation was sent last, and the conversation's hash.
type KnownConversation = Option<(Option<u32>, u64)>;

/// The counts so far.
#[derive(Default)]
pub(super) struct Counts {
    /// Number of the newest count.
    newest: AtomicU64,
    /// Locked until a request is sent, so that requests reach the worker in the order of the
    /// counts.
    known: Mutex<KnownConversation>,
}

impl Counts {
    /// The number of a new count.
    fn begin(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits until a count can send its request. `None` if there is a newer count.
    async fn turn(&self, number: u64) -> Option<MutexGuard<'_, KnownConversation>> {
        let known = self.known.lock().await;
        (self.newest.load(Ordering::Relaxed) == number).then_some(known)
    }
}

/// Id of the model in the settings of the message's conversation. `None` means that none is set.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn model_of(shared: &Shared, draft: &UnsentDraft) -> Result<Option<String>, Problem> {
    if draft.conversation.is_none() && draft.fresh.settings.model.is_some() {
        return Ok(draft.fresh.settings.model.clone());
    }
    let (row, folder) = shared.store.read(|t| {
        Ok(match draft.conversation {
            Some(id) => (conversation::get(t, id)?, folder::of_conversation(t, id)?),
            None => (
                None,
                draft.fresh.folder.map(|id| folder::get(t, id)).transpose()?.flatten(),
            ),
        })
    })?;
    Ok(request::settings(row.as_ref(), folder.as_ref()).model)
}

/// Starts a count of the tokens of a message, which replies. A newer count cancels it.
pub(super) fn start(shared: Arc<Shared>, selection: Selection, draft: UnsentDraft, counts: Arc<Counts>, reply: Reply) {
    let number = counts.begin();
    tokio::spawn(async move {
        let result = run(&shared, selection, draft, &counts, number).await;
        // The receiver may have been dropped.
        let _ = reply.send(result);
    });
}

async fn run(
    shared: &Arc<Shared>,
    Selection { target, model }: Selection,
    draft: UnsentDraft,
    counts: &Counts,
    number: u64,
) -> Result<UnsentCount, Problem> {
    // Before the conversation is read from the store.
    let Some(mut known) = counts.turn(number).await else {
        return Ok(UnsentCount::Unavailable);
    };
    let UnsentDraft {
        conversation,
        leaf,
        text,
        files,
        fresh,
    } = draft;
    let before = shared.blocking(move |shared| hashed_conversation(shared, &target, conversation, leaf, fresh));
    let (before, hash) = before.await?;
    let Some(lease) = model.loaded() else {
        return Ok(UnsentCount::Unavailable);
    };
    let current = Some((lease.process_id(), hash));
    let is_known = *known == current && text.base.is_some();
    let events = lease.request(Request::CountUnsent(Box::new(CountUnsent {
        conversation: hash,
        before: (!is_known).then_some(before),
        text,
        files: files.map(|files| files.into_iter().map(Into::into).collect()),
    })));
    *known = current;
    drop(known);
    match events.last().await {
        Ok(Event::UnsentCounted { tokens: Some(tokens) }) => Ok(UnsentCount::Counted { tokens }),
        Ok(_) => Ok(UnsentCount::Unknown),
        Err(problem) if problem.code == ProblemCode::Cancelled => Ok(UnsentCount::Unavailable),
        Err(problem) => Err(problem),
    }
}

/// The conversation before a message, and its hash.
fn hashed_conversation(
    shared: &Shared,
    target: &Target,
    conversation: Option<i64>,
    leaf: Option<i64>,
    fresh: NewConversation,
) -> Result<(ConversationBefore, u64), Problem> {
    let before = request::conversation_before(shared, target, conversation, leaf, fresh)?;
    let mut hasher = DefaultHasher::new();
    let json = serde_json::to_vec(&before).map_err(|error| Problem::detail(ProblemCode::Internal, error))?;
    json.hash(&mut hasher);
    Ok((before, hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_newest_of_the_counts_that_wait_gets_a_turn() {
        let counts = Counts::default();
        let first = counts.begin();
        let turn = counts.turn(first).await.expect("a turn");
        let [second, third] = [counts.begin(), counts.begin()];
        drop(turn);
        assert!(counts.turn(third).await.is_some());
        assert!(counts.turn(second).await.is_none(), "it is older");
    }
}

//! Methods of [`App`] that delete and restore messages.

use crate::{
    App, adapters,
    chat::Command,
    conversations::{days_left, existing_message, no_conversation, no_message, open},
    lock::lock,
    prompt_cache,
    shared::{Shared, is_unfinished},
    store::{
        conversation,
        deleted_message::{self, Restoration},
        message,
    },
    title,
    wire::{ChatReason, Conversation, DeletedMessages, MessageDeletion, Problem, ProblemCode},
};
use hearth_protocol::Part;
use rusqlite::Transaction;
use std::{collections::HashSet, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Longest wait for the end of answers that are deleted.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between requests to stop the answers: one that was just added may not have reached the
/// chat yet.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

/// Most characters of the first words in the list of deletions, without the ellipsis.
const MAX_FIRST_WORDS: usize = 79;

/// The outcome of an attempt to delete messages.
enum Attempt<T> {
    Deleted(T),
    /// These answers among the messages are unfinished.
    Answering(HashSet<i64>),
}

impl App {
    /// Deletes a message and all messages below it, in all versions, which can be restored for a
    /// while. Stops the answers among them.
    pub async fn delete_message(&self, id: i64) -> Result<DeletedMessages, Problem> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match self.shared.blocking(move |shared| delete(shared, id)).await? {
                Attempt::Deleted(deleted) => {
                    // Votes for them no longer count.
                    adapters::announce_later(&self.shared);
                    return Ok(deleted);
                }
                Attempt::Answering(_) if Instant::now() > deadline => return Err(not_stopped()),
                Attempt::Answering(messages) => {
                    let stop = self.request_chat(|done| Command::StopAnswers { messages, done });
                    stopped_by(deadline, stop).await?;
                    tokio::time::sleep(STOP_INTERVAL).await;
                }
            }
        }
    }

    /// Undoes the deletion of a message and of those that were deleted with it.
    pub async fn restore_messages(&self, id: i64) -> Result<Conversation, Problem> {
        let conversation = self.shared.blocking(move |shared| restore(shared, id)).await?;
        adapters::announce_later(&self.shared);
        Ok(conversation)
    }

    /// The deletions of messages in conversations that are not deleted, last deleted first.
    pub async fn message_deletions(&self) -> Result<Vec<MessageDeletion>, Problem> {
        self.shared
            .blocking(|shared| {
                let now = shared.store.time();
                let first_words = |parts: &[Part]| title::shown(&title::first_words(parts, MAX_FIRST_WORDS));
                let rows = shared.store.read(|t| deleted_message::deletions(t, first_words))?;
                let deletions = rows.into_iter().map(|row| MessageDeletion {
                    id: row.id,
                    conversation: row.conversation,
                    title: title::shown(&row.title),
                    first_words: row.first_words,
                    count: row.count,
                    days_left: days_left(row.deleted_at, now),
                });
                Ok(deletions.collect())
            })
            .await
    }

    /// Removes deleted messages for good. `ids` are from [`App::message_deletions`].
    pub async fn purge_messages(&self, ids: Vec<i64>) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                for id in ids {
                    let conversation = shared.store.write(|t| deleted_message::remove(t, id))?;
                    // It may contain tokens of the messages.
                    conversation.into_iter().for_each(|id| prompt_cache::remove(shared, id));
                }
                Ok(())
            })
            .await
    }
}

/// Waits until the answers have stopped. The chat may itself wait for a worker that hangs.
async fn stopped_by(deadline: Instant, stop: impl Future<Output = Result<(), Problem>>) -> Result<(), Problem> {
    timeout_at(deadline, stop).await.unwrap_or_else(|_| Err(not_stopped()))
}

fn not_stopped() -> Problem {
    Problem::new(ProblemCode::Busy, ChatReason::AnswerNotStopped)
}

fn delete(shared: &Shared, id: i64) -> Result<Attempt<DeletedMessages>, Problem> {
    shared.save_deferred();
    // No answer is added meanwhile.
    let _one_at_a_time = lock(&shared.adding);
    let live = shared.live();
    let delete = |t: &Transaction<'_>| {
        let root = match existing_message(t, id)? {
            Ok(root) => root,
            Err(problem) => return Ok(Err(problem)),
        };
        if conversation::get(t, root.conversation)?.is_none() {
            return Ok(Err(no_conversation()));
        }
        let ids = message::subtree(t, id)?;
        let unsaved = || ids.iter().filter_map(|id| live.get(id));
        let unfinished: HashSet<i64> = unsaved().filter(|m| is_unfinished(m)).map(|m| m.id).collect();
        if !unfinished.is_empty() {
            return Ok(Ok(Attempt::Answering(unfinished)));
        }
        // Newer than their rows, because the disk was full or the store locked.
        for message in unsaved() {
            message::save(t, &message.into())?;
        }
        let count = deleted_message::delete(t, &root, shared.store.time())?;
        Ok(Ok(Attempt::Deleted((root.conversation, ids, count))))
    };
    let (conversation, ids, count) = match shared.store.write(delete)?? {
        Attempt::Deleted(deleted) => deleted,
        Attempt::Answering(messages) => return Ok(Attempt::Answering(messages)),
    };
    for id in ids {
        shared.clear_live(id);
    }
    shared.announce_conversation(conversation)?;
    Ok(Attempt::Deleted(DeletedMessages {
        conversation: open(shared, conversation)?,
        count,
    }))
}

fn restore(shared: &Shared, id: i64) -> Result<Conversation, Problem> {
    let conversation = match shared.store.write(|t| deleted_message::restore(t, id))? {
        Restoration::Done { conversation } => conversation,
        Restoration::ParentDeleted => {
            return Err(Problem::new(ProblemCode::BadRequest, ChatReason::ParentDeleted));
        }
        Restoration::Missing => return Err(no_message()),
    };
    shared.announce_conversation(conversation)?;
    open(shared, conversation)
}

#[cfg(test)]
mod tests {
    use super::{not_stopped, stopped_by};
    use std::future::{pending, ready};
    use tokio::time::Instant;

    #[tokio::test]
    async fn a_chat_that_does_not_stop_an_answer_in_time_is_a_problem() {
        let now = Instant::now();
        assert_eq!(stopped_by(now, ready(Ok(()))).await, Ok(()));
        assert_eq!(stopped_by(now, pending()).await, Err(not_stopped()));
    }
}

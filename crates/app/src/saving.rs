//! Deferred saving while the disk is full or another process locks the store. Memory holds
//! everything until it is saved.

use crate::{
    lock::lock,
    shared::{Shared, is_unfinished},
    store::{self, StoreError, answer_tokens, conversation, message},
    wire::{Event, Message, MessageState},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The retry interval while another process locks the store.
pub(crate) const SAVE_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The retry interval while the app waits for that to close.
pub(crate) const CLOSING_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The result of saving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved<T> {
    /// It is in the store.
    Done(T),
    /// Not saved: another process locks the store, or a thread of this one has a transaction.
    Locked,
}

impl Shared {
    /// Writes rows that are retried if another process locks the store. Emits
    /// [`Event::StoreLocked`] if it does for long.
    pub(crate) fn save<T>(
        &self,
        writes: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<Saved<T>, StoreError> {
        let saved = match self.store.write_if_free(writes) {
            Ok(done) => Ok(Saved::Done(done)),
            Err(StoreError::Busy { .. }) => Ok(Saved::Locked),
            // An import or a backup, and no other program.
            Err(StoreError::Occupied) => return Ok(Saved::Locked),
            Err(error) => Err(error),
        };
        let mut lock = lock(&self.foreign_lock);
        let changed = match &saved {
            Ok(Saved::Locked) => lock.locked(self.store.busy_timeout()),
            Ok(Saved::Done(_)) => lock.unlocked(),
            Err(_) => None,
        };
        if let Some(locked) = changed {
            self.emit(Event::StoreLocked { locked });
        }
        saved
    }

    /// Saves an answer that has ended, with its tokens if they are known.
    pub(crate) fn save_ended(&self, last: &Message, tokens: Option<&[u32]>) -> Result<Saved<()>, StoreError> {
        let row = message::Message::from(last);
        let saved = self.save(|t| {
            message::save(t, &row)?;
            if let Some(tokens) = tokens {
                answer_tokens::set(t, row.id, tokens)?;
            }
            conversation::touch(t, row.conversation, row.model.as_deref(), store::now()).map(drop)
        })?;
        if let Saved::Done(()) = saved {
            self.clear_live(row.id);
        }
        Ok(saved)
    }

    /// Announces a conversation in which something was saved; a failure only leaves its old place
    /// in the list.
    pub(crate) fn announce_touched(&self, conversation: i64) {
        if let Err(error) = self.announce_conversation(conversation) {
            tracing::warn!(%error, conversation, "a conversation could not be announced");
        }
    }

    /// Retries all deferred saves. Returns [`Saved::Locked`] if another process still locks the
    /// store.
    pub(crate) fn save_deferred(&self) -> Saved<()> {
        let ended = self.live().into_values().filter(|message| !is_unfinished(message));
        let mut still = Saved::Done(());
        for message in ended {
            let saved = match message.state {
                // Its state is the reason why it could not be saved; the conversation is unchanged.
                MessageState::Failed { .. } => self.save(|t| message::save(t, &(&message).into())).inspect(|saved| {
                    if let Saved::Done(()) = saved {
                        self.clear_live(message.id);
                    }
                }),
                _ => self.save_ended(&message, None),
            };
            match saved {
                Ok(Saved::Done(())) => self.announce_touched(message.conversation),
                Ok(Saved::Locked) => still = Saved::Locked,
                Err(error) => {
                    tracing::warn!(%error, message = message.id, "an answer could not be saved yet");
                    self.fail_unsaved(message, error);
                }
            }
        }
        still
    }

    /// Emits an answer that cannot be saved as failed, in full. It is saved once there is space.
    fn fail_unsaved(&self, message: Message, error: StoreError) {
        if matches!(message.state, MessageState::Failed { .. }) {
            return;
        }
        let message = Message {
            state: MessageState::Failed { problem: error.into() },
            ..message
        };
        self.show(message);
    }

    /// Retries deferred saves in the background until the store is unlocked.
    pub(crate) fn save_later(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SAVE_RETRY_INTERVAL).await;
                let Some(shared) = shared.upgrade() else { return };
                if shared.save_again().await != Saved::Locked {
                    return;
                }
            }
        });
    }

    /// Waits until everything is saved, for [`crate::Options::shutdown_timeout`] at most.
    pub(crate) async fn save_before_closing(self: &Arc<Self>) {
        let until = Instant::now() + self.shutdown_timeout;
        while self.save_again().await == Saved::Locked && Instant::now() < until {
            tokio::time::sleep(CLOSING_RETRY_INTERVAL).await;
        }
    }

    async fn save_again(self: &Arc<Self>) -> Saved<()> {
        let saved = self.blocking(|shared| Ok(shared.save_deferred())).await;
        saved.unwrap_or(Saved::Done(()))
    }
}

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

/// The retry interval while the app is closing.
pub(crate) const CLOSING_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The result of saving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved<T> {
    /// The rows are in the store.
    Done(T),
    /// They are not: another process locks the store, or another thread has a transaction.
    Locked,
}

impl Shared {
    /// Writes rows. If another process locks the store, the caller retries the write later. Emits
    /// [`Event::StoreLocked`] once the lock has lasted for the store's busy timeout.
    pub(crate) fn save<T>(
        &self,
        writes: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<Saved<T>, StoreError> {
        let saved = match self.store.write_if_free(writes) {
            Ok(value) => Ok(Saved::Done(value)),
            Err(StoreError::Busy { .. }) => Ok(Saved::Locked),
            // An import or a backup of this process, so the lock is not foreign.
            Err(StoreError::Occupied) => return Ok(Saved::Locked),
            Err(error) => Err(error),
        };
        let mut foreign_lock = lock(&self.foreign_lock);
        let announced = match &saved {
            Ok(Saved::Locked) => foreign_lock.locked(self.store.busy_timeout()),
            Ok(Saved::Done(_)) => foreign_lock.unlocked(),
            Err(_) => None,
        };
        if let Some(locked) = announced {
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

    /// Announces a conversation after a save. A failure is only logged: the conversation then keeps
    /// its old position in the list.
    pub(crate) fn announce_touched(&self, conversation: i64) {
        if let Err(error) = self.announce_conversation(conversation) {
            tracing::warn!(%error, conversation, "a conversation could not be announced");
        }
    }

    /// Retries all deferred saves. Returns [`Saved::Locked`] if another process still locks the
    /// store.
    pub(crate) fn save_deferred(&self) -> Saved<()> {
        let ended = self.live().into_values().filter(|message| !is_unfinished(message));
        let mut result = Saved::Done(());
        for message in ended {
            let saved = match message.state {
                // A failed answer changes neither the time nor the model of its conversation.
                MessageState::Failed { .. } => self.save(|t| message::save(t, &(&message).into())).inspect(|saved| {
                    if let Saved::Done(()) = saved {
                        self.clear_live(message.id);
                    }
                }),
                _ => self.save_ended(&message, None),
            };
            match saved {
                Ok(Saved::Done(())) => self.announce_touched(message.conversation),
                Ok(Saved::Locked) => result = Saved::Locked,
                Err(error) => {
                    tracing::warn!(%error, message = message.id, "an answer could not be saved yet");
                    self.fail_unsaved(message, error);
                }
            }
        }
        result
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
                if shared.retry_saves().await != Saved::Locked {
                    return;
                }
            }
        });
    }

    /// Waits until everything is saved, for [`crate::Options::shutdown_timeout`] at most.
    pub(crate) async fn save_before_closing(self: &Arc<Self>) {
        let deadline = Instant::now() + self.shutdown_timeout;
        while self.retry_saves().await == Saved::Locked && Instant::now() < deadline {
            tokio::time::sleep(CLOSING_RETRY_INTERVAL).await;
        }
    }

    /// [`Shared::save_deferred`] on a blocking thread.
    async fn retry_saves(self: &Arc<Self>) -> Saved<()> {
        let saved = self.blocking(|shared| Ok(shared.save_deferred())).await;
        saved.unwrap_or(Saved::Done(()))
    }
}

//! What is not in the store yet: it is full, or another process holds it. Memory has all of it, and it is saved as soon as that can be.

use crate::{
    shared::{Shared, is_unfinished},
    store::{
        self, StoreError,
        conversation::{self, Conversation},
        message,
    },
    wire::{Event, Message, MessageState},
};
use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

/// Where another process holds the store, saving is tried again after this long.
pub(crate) const SAVE_AGAIN: Duration = Duration::from_secs(1);

/// Where the app waits for that to close.
pub(crate) const CLOSING_AGAIN: Duration = Duration::from_millis(100);

/// That another process holds the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    since: Instant,
    is_told: bool,
}

/// What came of saving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved<T> {
    /// It is in the store.
    Done(T),
    /// Another process holds the store.
    Held,
}

impl Shared {
    /// Saves something that is tried again where another process holds the store; if it does for long, everybody is told.
    pub(crate) fn save<T>(
        &self,
        writes: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<Saved<T>, StoreError> {
        let saved = match self.store.write_if_free(writes) {
            Ok(done) => Ok(Saved::Done(done)),
            Err(StoreError::Busy { .. }) => Ok(Saved::Held),
            Err(error) => Err(error),
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match (&saved, &mut *held) {
            (Ok(Saved::Held), None) => {
                *held = Some(Held {
                    since: Instant::now(),
                    is_told: false,
                });
            }
            (Ok(Saved::Held), Some(now)) if !now.is_told && now.since.elapsed() >= self.store.patience() => {
                now.is_told = true;
                self.emit(Event::StoreHeld { held: true });
            }
            (Ok(Saved::Done(_)), Some(now)) => {
                if now.is_told {
                    self.emit(Event::StoreHeld { held: false });
                }
                *held = None;
            }
            _ => {}
        }
        saved
    }

    /// Saves an answer that has ended; its conversation then, if that is there.
    pub(crate) fn save_ended(&self, last: &Message) -> Result<Saved<Option<Conversation>>, StoreError> {
        let row = message::Message::from(last);
        let saved = self.save(|t| {
            message::save(t, &row)?;
            conversation::touch(t, row.conversation, row.model.as_deref(), store::now())?;
            conversation::get(t, row.conversation)
        })?;
        if let Saved::Done(_) = saved {
            self.settle(row.id);
        }
        Ok(saved)
    }

    /// Tries again to save what a full disk refused, or another process held up; whether it still does.
    pub(crate) fn save_refused(&self) -> Saved<()> {
        let ended = self.live().into_values().filter(|message| !is_unfinished(message));
        let mut still = Saved::Done(());
        for message in ended {
            let saved = match message.state {
                // It says why it was refused, and is no news.
                MessageState::Failed { .. } => self
                    .save(|t| message::save(t, &(&message).into()).map(|()| None))
                    .inspect(|saved| {
                        if let Saved::Done(_) = saved {
                            self.settle(message.id);
                        }
                    }),
                _ => self.save_ended(&message),
            };
            match saved {
                Ok(Saved::Done(Some(row))) => self.emit_conversation(&row),
                Ok(Saved::Done(None)) => {}
                Ok(Saved::Held) => still = Saved::Held,
                Err(error) => {
                    tracing::warn!(%error, message = message.id, "an answer could not be saved yet");
                    self.refused(message, error);
                }
            }
        }
        still
    }

    /// Shows an answer that cannot be saved as failed, whole; it is saved when there is room again.
    fn refused(&self, message: Message, error: StoreError) {
        if matches!(message.state, MessageState::Failed { .. }) {
            return;
        }
        let message = Message {
            state: MessageState::Failed { problem: error.into() },
            ..message
        };
        self.keep_live(message.clone());
        self.emit(Event::MessageChanged { message });
    }

    /// Saves what another process holds up, once it lets the store go.
    pub(crate) fn save_later(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SAVE_AGAIN).await;
                let Some(shared) = shared.upgrade() else { return };
                if shared.save_again().await != Saved::Held {
                    return;
                }
            }
        });
    }

    /// Waits until everything is saved, as long as a person is to wait for that.
    pub(crate) async fn save_before_closing(self: &Arc<Self>) {
        let until = Instant::now() + self.close_within;
        while self.save_again().await == Saved::Held && Instant::now() < until {
            tokio::time::sleep(CLOSING_AGAIN).await;
        }
    }

    async fn save_again(self: &Arc<Self>) -> Saved<()> {
        let saved = self.blocking(|shared| Ok(shared.save_refused())).await;
        saved.unwrap_or(Saved::Done(()))
    }
}

//! One answer, from request to end: the worker's events, shown and saved as it grows.

use crate::{
    convert,
    saving::{SAVE_RETRY_INTERVAL, Saved},
    shared::Shared,
    store::message,
    wire::{CutReason, Event, LeftOut, Message, MessageState, Problem, Stats},
};
use hearth_protocol::{GenerationId, Summary};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How often a growing answer is saved: the most that a crash costs.
const SAVE_INTERVAL: Duration = Duration::from_millis(300);

/// How long a worker may take to cancel before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The answer that the worker generates.
pub(super) struct Answer {
    shared: Arc<Shared>,
    /// The worker's id of it.
    pub(super) generation: GenerationId,
    /// The message up to now.
    message: Message,
    cached: u32,
    first_text: Option<Instant>,
    /// Time of the next save. `None` means that nothing is new.
    pub(super) save_at: Option<Instant>,
    /// When the worker is killed if it does not cancel. `None` means that no cancellation was
    /// requested.
    pub(super) stop_by: Option<Instant>,
    /// It could not be saved: further events of the worker are ignored.
    has_failed: bool,
}

impl Answer {
    pub(super) fn new(shared: Arc<Shared>, generation: GenerationId, message: Message) -> Self {
        Self {
            shared,
            generation,
            message,
            cached: 0,
            first_text: None,
            save_at: None,
            stop_by: None,
            has_failed: false,
        }
    }

    pub(super) fn conversation(&self) -> i64 {
        self.message.conversation
    }

    /// Sets the deadline of a requested cancellation.
    pub(super) fn set_cancelled(&mut self) {
        self.stop_by.get_or_insert_with(|| Instant::now() + STOP_TIMEOUT);
    }

    pub(super) fn started(&mut self, prompt_tokens: u32, cached: u32, left_out: Option<LeftOut>) {
        self.cached = cached;
        self.message.left_out = left_out;
        self.change(MessageState::Prefill {
            done: cached,
            total: prompt_tokens,
        });
    }

    pub(super) fn prefill(&mut self, done: u32, total: u32) {
        if self.first_text.is_none() {
            self.change(MessageState::Prefill { done, total });
        }
    }

    pub(super) fn text(&mut self, text: String, tokens: u32) {
        if self.has_failed {
            return;
        }
        let first = match self.first_text {
            Some(first) => first,
            None => {
                self.change(MessageState::Streaming);
                *self.first_text.insert(Instant::now())
            }
        };
        self.message.content += &text;
        self.shared.set_live(self.message.clone());
        let seconds = first.elapsed().as_secs_f64();
        let tokens_per_second = if seconds > 0.0 {
            f64::from(tokens.saturating_sub(1)) / seconds
        } else {
            0.0
        };
        self.shared.emit(Event::MessageDelta {
            conversation: self.message.conversation,
            message: self.message.id,
            text,
            tokens,
            tokens_per_second,
        });
        self.save_at.get_or_insert_with(|| Instant::now() + SAVE_INTERVAL);
    }

    /// Saves the text up to now, or schedules that if another process locks the store. Any other
    /// error fails the answer, whose text stays in memory. Returns `false` if it failed.
    pub(super) async fn save(&mut self) -> bool {
        self.save_at = None;
        let row = message::Message::from(&self.message);
        let saved = self
            .shared
            .blocking(move |shared| Ok(shared.save(|t| message::save(t, &row))?))
            .await;
        match saved {
            Ok(Saved::Done(_)) => true,
            Ok(Saved::Locked) => {
                self.save_at = Some(Instant::now() + SAVE_RETRY_INTERVAL);
                true
            }
            Err(problem) => {
                self.has_failed = true;
                self.change(MessageState::Failed { problem });
                false
            }
        }
    }

    pub(super) async fn finish(mut self, summary: Summary) {
        self.message.stats = Some(Stats {
            prompt_tokens: summary.prompt_tokens,
            cached_tokens: self.cached,
            tokens: summary.tokens,
            tokens_per_second: summary.tokens_per_second,
            prompt_tokens_per_second: summary.prompt_tokens_per_second,
            first_token_seconds: summary.first_token_seconds,
            context_used: summary.context_used,
            context: summary.context,
        });
        self.shared.emit(Event::ContextUsed {
            conversation: self.message.conversation,
            used: summary.context_used,
            total: summary.context,
        });
        let state = match convert::ended(summary.reason) {
            // The context may be full before the worker sees the cancellation.
            MessageState::Cut {
                reason: CutReason::ContextFull,
            } if self.stop_by.is_some() => MessageState::Stopped,
            state => state,
        };
        self.end(state).await;
    }

    pub(super) async fn stop(self) {
        self.end(MessageState::Stopped).await;
    }

    pub(super) async fn fail(self, problem: Problem) {
        // A requested cancellation counts as stopped, however the answer ended.
        let state = if self.stop_by.is_some() {
            MessageState::Stopped
        } else {
            MessageState::Failed { problem }
        };
        self.end(state).await;
    }

    async fn end(mut self, state: MessageState) {
        if !self.has_failed {
            self.message.state = state;
        }
        end(&self.shared, self.message).await;
    }

    fn change(&mut self, state: MessageState) {
        if matches!(self.message.state, MessageState::Failed { .. }) {
            return;
        }
        self.message.state = state;
        self.shared.set_live(self.message.clone());
        self.shared.emit(Event::MessageChanged {
            message: self.message.clone(),
        });
    }
}

/// Saves a message in its final state and emits it. If another process locks the store, it is saved
/// later. A message that cannot be saved is shown as failed, in full, while the app runs, and is
/// saved once there is space.
pub(super) async fn end(shared: &Arc<Shared>, mut last: Message) {
    let message = last.clone();
    let saved = shared
        .blocking(move |shared| {
            let saved = shared.save_ended(&message)?;
            if saved == Saved::Locked {
                shared.set_live(message);
            }
            Ok(saved)
        })
        .await;
    match saved {
        Ok(Saved::Done(conversation)) => {
            shared.emit(Event::MessageChanged { message: last });
            if let Some(row) = conversation {
                shared.emit_conversation(&row);
            }
        }
        Ok(Saved::Locked) => {
            shared.emit(Event::MessageChanged { message: last });
            shared.save_later();
        }
        Err(problem) => {
            last.state = MessageState::Failed { problem };
            shared.set_live(last.clone());
            shared.emit(Event::MessageChanged { message: last });
        }
    }
}

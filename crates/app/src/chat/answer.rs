//! One answer from the question to its end: what the worker says of it, shown and saved as it grows.

use crate::{
    convert,
    saving::{SAVE_AGAIN, Saved},
    shared::Shared,
    store::message,
    wire::{CutReason, Event, LeftOut, Message, MessageState, Problem, Stats},
};
use hearth_protocol::{GenerationId, Summary};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// An answer that grows is saved this often: what a crash may cost.
const SAVE_EVERY: Duration = Duration::from_millis(300);

/// A worker that was told to stop has this long before it is ended.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// An answer that the worker is making.
pub(super) struct Answer {
    shared: Arc<Shared>,
    /// The worker's name for it.
    pub(super) generation: GenerationId,
    /// The message as it is now.
    message: Message,
    cached: u32,
    first_text: Option<Instant>,
    /// When it is saved next; none: nothing is new.
    pub(super) save_at: Option<Instant>,
    /// When the worker is ended because it does not stop; none: it was not told to.
    pub(super) stop_by: Option<Instant>,
    /// It failed before the worker knew: what still comes of it is not wanted.
    over: bool,
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
            over: false,
        }
    }

    pub(super) fn conversation(&self) -> i64 {
        self.message.conversation
    }

    /// The worker was told to stop.
    pub(super) fn stopping(&mut self) {
        self.stop_by.get_or_insert_with(|| Instant::now() + STOP_WITHIN);
    }

    pub(super) fn started(&mut self, prompt_tokens: u32, cached: u32, left_out: Option<LeftOut>) {
        self.cached = cached;
        self.message.left_out = left_out;
        self.change(MessageState::Reading {
            done: cached,
            total: prompt_tokens,
        });
    }

    pub(super) fn reading(&mut self, done: u32, total: u32) {
        if self.first_text.is_none() {
            self.change(MessageState::Reading { done, total });
        }
    }

    pub(super) fn text(&mut self, text: String, tokens: u32) {
        if self.over {
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
        self.shared.keep_live(self.message.clone());
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
        self.save_at.get_or_insert_with(|| Instant::now() + SAVE_EVERY);
    }

    /// Saves what is there, later if another process holds the store. Where that fails the answer fails, but what was said stays in
    /// memory; whether it goes on.
    pub(super) async fn save(&mut self) -> bool {
        self.save_at = None;
        let row = message::Message::from(&self.message);
        let saved = self
            .shared
            .blocking(move |shared| Ok(shared.save(|t| message::save(t, &row))?))
            .await;
        match saved {
            Ok(Saved::Done(_)) => true,
            Ok(Saved::Held) => {
                self.save_at = Some(Instant::now() + SAVE_AGAIN);
                true
            }
            Err(problem) => {
                self.over = true;
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
            // A worker that ends because its context is full may not know that it was asked to stop meanwhile.
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
        // Whoever asked for the end gets it, whichever way it came.
        let state = if self.stop_by.is_some() {
            MessageState::Stopped
        } else {
            MessageState::Failed { problem }
        };
        self.end(state).await;
    }

    async fn end(mut self, state: MessageState) {
        if !self.over {
            self.message.state = state;
        }
        end(&self.shared, self.message).await;
    }

    fn change(&mut self, state: MessageState) {
        if matches!(self.message.state, MessageState::Failed { .. }) {
            return;
        }
        self.message.state = state;
        self.shared.keep_live(self.message.clone());
        self.shared.emit(Event::MessageChanged {
            message: self.message.clone(),
        });
    }
}

/// Saves a message in its last state and tells everybody. Where another process holds the store it is shown as it is, and saved later. One
/// that cannot be saved is shown as failed, whole, for as long as the app runs, and is saved when there is room again.
pub(super) async fn end(shared: &Arc<Shared>, mut last: Message) {
    let message = last.clone();
    let saved = shared
        .blocking(move |shared| {
            let saved = shared.save_ended(&message)?;
            if saved == Saved::Held {
                shared.keep_live(message);
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
        Ok(Saved::Held) => {
            shared.emit(Event::MessageChanged { message: last });
            shared.save_later();
        }
        Err(problem) => {
            last.state = MessageState::Failed { problem };
            shared.keep_live(last.clone());
            shared.emit(Event::MessageChanged { message: last });
        }
    }
}

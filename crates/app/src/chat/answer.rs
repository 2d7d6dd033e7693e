//! One answer, from request to end. It waits for the model, then shows and saves the text as the
//! worker's events arrive. Each answer is a separate task.

use super::{
    lookup::SelectionResult,
    request,
    selection::{Selection, died, not_ready},
    titling::TitleJob,
};
use crate::{
    chat::stats::{self, ThinkingTimer},
    convert,
    saving::{SAVE_RETRY_INTERVAL, Saved},
    shared::Shared,
    store::message,
    task::at,
    wire::{Event, Message, MessageState, Problem, TruncationReason},
};
use hearth_protocol::{
    self as protocol, Lease, LoadError, Model, ModelStatus, Part, Request, Responses, Summary, TextKind, append_text,
    fold_text, text_of, thinking_of,
};
use std::{
    future::pending,
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::Instant,
};

/// Interval between saves of a growing answer: a crash loses at most the text of one interval.
const SAVE_INTERVAL: Duration = Duration::from_millis(300);
/// Added to it per character, so that the bytes written do not grow with the square of a long
/// answer's length: 100,000 characters are saved once a second.
const SAVE_INTERVAL_PER_CHARACTER: Duration = Duration::from_micros(10);

/// Whether an answer should end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stop {
    /// It should continue.
    #[default]
    No,
    /// As soon as the worker has cancelled it.
    Cancel,
    /// At once, with the text up to now.
    Now,
}

/// The conditions that an answer waits for before it begins.
pub(super) struct Wait {
    /// Its model, once that is looked up.
    pub selection: oneshot::Receiver<SelectionResult>,
    /// The end of a measurement.
    pub is_measuring: watch::Receiver<bool>,
    /// The model that generates it, once chosen.
    pub model: Arc<OnceLock<Model>>,
}

/// An answer in progress.
pub(super) struct Answer {
    shared: Arc<Shared>,
    /// The model that generates it, once the request is sent.
    selection: Option<Selection>,
    /// The message up to now.
    message: Message,
    /// Its final state if it is stopped before it gets new text: the state before it was continued.
    previous_state: MessageState,
    /// Its number of tokens before it was continued.
    previous_tokens: u32,
    /// The parts to which its first text is appended, if they are not the parts of the message.
    so_far: Option<Vec<Part>>,
    thinking_timer: ThinkingTimer,
    /// Bytes of its text and thinking.
    length: u32,
    /// Tokens of the prompt.
    prompt: u32,
    /// Tokens of the prompt from the prompt cache.
    cached: u32,
    /// Time of the first new text.
    first_text: Option<Instant>,
    /// Time of the next save. `None` means that nothing is new.
    save_at: Option<Instant>,
    saving: Option<JoinHandle<Result<Saved<()>, Problem>>>,
    is_cancelled: bool,
    /// It could not be saved: further events of the worker are ignored.
    has_failed: bool,
}

impl Answer {
    /// `previous_state` is the state of an answer that is continued.
    pub(super) fn new(shared: Arc<Shared>, message: Message, previous_state: Option<MessageState>) -> Self {
        let length = text_of(&message.parts).len() + thinking_of(&message.parts).len();
        Self {
            shared,
            selection: None,
            previous_state: previous_state.unwrap_or(MessageState::Stopped),
            previous_tokens: message.stats.as_ref().map_or(0, |stats| stats.tokens),
            so_far: None,
            thinking_timer: ThinkingTimer::default(),
            message,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            prompt: 0,
            cached: 0,
            first_text: None,
            save_at: None,
            saving: None,
            is_cancelled: false,
            has_failed: false,
        }
    }

    /// Generates the answer, and saves it. Returns the conversation to title if the answer is
    /// complete.
    pub(super) async fn run(mut self, wait: Wait, mut stop: watch::Receiver<Stop>) -> Option<TitleJob> {
        let started = tokio::select! {
            biased;
            _ = next_stop(&mut stop) => Err(MessageState::Stopped),
            started = self.start(wait) => started,
        };
        match started {
            Ok((lease, events)) => return self.follow(lease, events, stop).await,
            Err(MessageState::Stopped) => {
                let state = self.stopped();
                self.end(state, None).await;
            }
            Err(state) => self.end(state, None).await,
        }
        None
    }

    /// The state of an answer that was stopped.
    fn stopped(&self) -> MessageState {
        match self.first_text {
            Some(_) => MessageState::Stopped,
            None => self.previous_state.clone(),
        }
    }

    /// Waits for the model and sends the request. Returns the final state as `Err` if it is not
    /// sent.
    async fn start(&mut self, mut wait: Wait) -> Result<(Lease, Responses), MessageState> {
        let failed = |problem| MessageState::Failed { problem };
        // An error means that it was stopped.
        let selection = wait.selection.await.map_err(|_| MessageState::Stopped)?;
        let mut selection = selection.map_err(failed)?;
        let (selected, lease) = loop {
            let selected = selection.borrow_and_update().clone().ok_or(MessageState::Stopped)?;
            tokio::select! {
                biased;
                changed = selection.changed() => changed.map_err(|_| MessageState::Stopped)?,
                ready = self.ready(&selected.model) => match (ready, selection.has_changed()) {
                    (Ok(lease), _) => break (selected, lease),
                    // Another model was selected while this one failed.
                    (Err(_), Ok(true)) => {}
                    (Err(error), _) => {
                        return Err(not_ready(error).map_or(MessageState::Stopped, failed));
                    }
                },
            }
        };
        if self.message.state != MessageState::Waiting {
            self.change(MessageState::Waiting);
        }
        // An answer starts once, so the cell is empty.
        let _ = wait.model.set(selected.model.clone());
        // An error means that the chat has ended.
        let _ = wait.is_measuring.wait_for(|is_measuring| !is_measuring).await;
        self.message.model = Some(selected.target.name.clone());
        let (message, target) = (self.message.clone(), Arc::clone(&selected.target));
        let request = self
            .shared
            .blocking(move |shared| request::build(shared, &target, &message));
        let (request, settings) = request.await.map_err(failed)?;
        self.message.settings = Some(settings);
        self.selection = Some(selected);
        let events = lease.request(Request::Generate(request));
        Ok((lease, events))
    }

    /// Waits until a model is loaded, and shows the progress.
    async fn ready(&mut self, model: &Model) -> Result<Lease, LoadError> {
        let mut status = model.status();
        let mut ready = pin!(model.ready());
        loop {
            let state = match status.borrow_and_update().clone() {
                ModelStatus::Loading { fraction, stage } => MessageState::Loading { fraction, stage },
                _ => MessageState::Waiting,
            };
            if state != self.message.state {
                self.change(state);
            }
            tokio::select! {
                biased;
                ready = &mut ready => return ready,
                // The model holds the sender.
                _ = status.changed() => {}
            }
        }
    }

    /// Follows the worker until the answer has ended and is saved.
    async fn follow(
        mut self,
        lease: Lease,
        mut events: Responses,
        mut stop: watch::Receiver<Stop>,
    ) -> Option<TitleJob> {
        let last_event = loop {
            tokio::select! {
                biased;
                stop = next_stop(&mut stop) => match stop {
                    Stop::Now => break None,
                    _ => self.cancel(&mut events),
                },
                result = save_result(&mut self.saving) => {
                    if !self.handle_save_result(result) {
                        // Stops the generation: its text cannot be saved.
                        self.cancel(&mut events);
                    }
                }
                () = at(self.save_at) => self.save(),
                event = events.next() => match event {
                    Some(event) if !event.is_last() => self.handle_event(event),
                    last => break last,
                },
            }
        };
        let is_alive = lease.is_alive();
        // From here on the model is free: see `Running::has_ended`.
        drop((stop, lease));
        match last_event {
            Some(protocol::Event::Finished(summary)) => return self.finish(summary).await,
            Some(protocol::Event::Failed(problem)) => self.fail(problem, is_alive).await,
            _ => {
                let state = self.stopped();
                self.end(state, None).await;
            }
        }
        None
    }

    fn cancel(&mut self, events: &mut Responses) {
        self.is_cancelled = true;
        events.cancel();
    }

    fn handle_event(&mut self, event: protocol::Event) {
        match event {
            protocol::Event::Started {
                prompt_tokens,
                cached_tokens,
                dropped,
                so_far,
            } => {
                self.so_far = so_far;
                (self.prompt, self.cached) = (prompt_tokens, cached_tokens);
                self.message.dropped = dropped;
                self.change(MessageState::Prefill {
                    done: cached_tokens,
                    total: prompt_tokens,
                });
            }
            protocol::Event::Prefill { done, total } if self.first_text.is_none() => {
                self.change(MessageState::Prefill { done, total });
            }
            protocol::Event::Text { kind, text, tokens } => self.append(kind, text, tokens),
            protocol::Event::Folded => self.fold(),
            _ => {}
        }
    }

    /// Shows the answer as streaming. Returns the time of the first text.
    fn ensure_streaming(&mut self) -> Instant {
        match self.first_text {
            Some(first) => first,
            None => {
                if let Some(parts) = self.so_far.take() {
                    self.message.parts = parts;
                }
                self.change(MessageState::Streaming);
                *self.first_text.insert(Instant::now())
            }
        }
    }

    /// Turns the text since the last thought into a thought.
    fn fold(&mut self) {
        if self.has_failed {
            return;
        }
        self.ensure_streaming();
        self.thinking_timer.fold();
        fold_text(&mut self.message.parts);
        self.shared.fold_live(&self.message);
        self.save_soon();
    }

    fn append(&mut self, kind: TextKind, text: String, tokens: u32) {
        if self.has_failed {
            return;
        }
        let first = self.ensure_streaming();
        self.thinking_timer.record(kind);
        append_text(&mut self.message.parts, kind, &text);
        self.length = self
            .length
            .saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.shared.extend_live(self.message.id, kind, &text);
        let seconds = first.elapsed().as_secs_f64();
        let tokens_per_second = if seconds > 0.0 {
            f64::from(tokens.saturating_sub(1)) / seconds
        } else {
            0.0
        };
        self.shared.emit(Event::MessageDelta {
            conversation: self.message.conversation,
            message: self.message.id,
            kind,
            text,
            tokens: self.previous_tokens.saturating_add(tokens),
            tokens_per_second,
            context_used: self.prompt.saturating_add(tokens),
        });
        self.save_soon();
    }

    fn save_soon(&mut self) {
        let interval = SAVE_INTERVAL + SAVE_INTERVAL_PER_CHARACTER * self.length;
        self.save_at.get_or_insert_with(|| Instant::now() + interval);
    }

    /// Starts a save of the text up to now. While another one is in progress, schedules it for
    /// later.
    fn save(&mut self) {
        self.save_at = None;
        if self.saving.is_some() {
            self.save_at = Some(Instant::now() + SAVE_INTERVAL);
            return;
        }
        let (shared, row) = (self.shared.clone(), message::Message::from(&self.message));
        self.saving = Some(tokio::spawn(async move {
            shared
                .blocking(move |shared| Ok(shared.save(|t| message::save(t, &row).map(drop))?))
                .await
        }));
    }

    /// Schedules another save if another process locks the store. Any other error fails the answer,
    /// whose text stays in memory. Returns `false` if it failed.
    fn handle_save_result(&mut self, result: Result<Saved<()>, Problem>) -> bool {
        match result {
            Ok(Saved::Done(())) => true,
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

    async fn finish(mut self, summary: Summary) -> Option<TitleJob> {
        let thinking_seconds = self.thinking_timer.seconds();
        self.message.stats = Some(stats::from_summary(
            &summary,
            self.cached,
            thinking_seconds,
            self.message.stats.take(),
        ));
        self.shared.emit(Event::ContextUsed {
            conversation: self.message.conversation,
            used: summary.context_used,
            total: summary.context,
        });
        let state = match convert::final_state(summary.finish_reason) {
            // The context may be full before the worker sees the cancellation.
            MessageState::Truncated {
                reason: TruncationReason::ContextFull,
            } if self.is_cancelled => self.stopped(),
            MessageState::Stopped => self.stopped(),
            state => state,
        };
        // A request that was cancelled while it waited has no tokens.
        let tokens = (summary.context > 0).then_some(summary.ids);
        let selection = self.selection.take().filter(|_| !self.has_failed);
        let title_job = selection.and_then(|selection| TitleJob::new(selection, &self.message, &state));
        self.end(state, tokens).await;
        title_job
    }

    async fn fail(self, problem: protocol::Problem, is_worker_alive: bool) {
        let problem = if is_worker_alive { problem } else { died(problem) };
        // A requested cancellation counts as stopped, however the answer ended.
        let state = if self.is_cancelled {
            self.stopped()
        } else {
            MessageState::Failed { problem }
        };
        self.end(state, None).await;
    }

    async fn end(mut self, state: MessageState, tokens: Option<Vec<u32>>) {
        // A save in progress would overwrite the final state.
        if let Some(saving) = &mut self.saving {
            let _ = saving.await;
        }
        if !self.has_failed {
            self.message.state = state;
        }
        end(&self.shared, self.message, tokens).await;
    }

    fn change(&mut self, state: MessageState) {
        if matches!(self.message.state, MessageState::Failed { .. }) {
            return;
        }
        self.message.state = state;
        self.shared.show(self.message.clone());
    }
}

/// The next request to end the answer. Never completes after the sender was dropped.
async fn next_stop(stop: &mut watch::Receiver<Stop>) -> Stop {
    match stop.changed().await {
        Ok(()) => *stop.borrow_and_update(),
        Err(_) => pending().await,
    }
}

/// The result of the save in progress. Never completes without one.
async fn save_result(saving: &mut Option<JoinHandle<Result<Saved<()>, Problem>>>) -> Result<Saved<()>, Problem> {
    let Some(handle) = saving else { return pending().await };
    let result = handle.await;
    *saving = None;
    // A save that was aborted with the runtime needs no report.
    result.unwrap_or(Ok(Saved::Locked))
}

/// Saves a message in its final state and announces it. If another process locks the store, it is
/// saved later. A message that cannot be saved is shown as failed, in full, while the app runs, and
/// is saved once there is space.
pub(super) async fn end(shared: &Arc<Shared>, mut message: Message, tokens: Option<Vec<u32>>) {
    let last = message.clone();
    let saved = shared
        .blocking(move |shared| {
            let saved = shared.save_ended(&last, tokens.as_deref())?;
            let conversation = last.conversation;
            match saved {
                Saved::Locked => shared.show(last),
                Saved::Done(()) => {
                    // The announcer orders it after older states that are being announced.
                    if shared.announce_message(last.id).is_err() {
                        shared.emit(Event::MessageChanged {
                            message: Box::new(last),
                        });
                    }
                    shared.announce_touched(conversation);
                }
            }
            Ok(saved)
        })
        .await;
    match saved {
        Ok(Saved::Done(())) => {}
        Ok(Saved::Locked) => shared.save_later(),
        Err(problem) => {
            message.state = MessageState::Failed { problem };
            shared.show(message);
        }
    }
}

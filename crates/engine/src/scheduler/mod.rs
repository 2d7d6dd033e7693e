//! The scheduler: answers in progress share the steps of one model and the pages of its cache.
//!
//! A step appends one token to each answer that is being generated, and a chunk to those whose
//! prompts are being read (continuous batching: Yu et al., "Orca", OSDI 2022). On a CPU, batching
//! does not change an answer, since the bits of a row do not depend on the other rows.
//!
//! Sessions of ended answers stay in the cache for the next request of their conversation. If the
//! cache is full, the least recently used of these sessions is dropped. If there is none, the
//! newest answer is preempted: its pages are freed, and its tokens are read again once there is
//! room.
//!
//! A background answer runs alone, and any other answer preempts it.

mod admit;
mod background;
mod draft;
mod idle;
mod step;

use crate::adapters::AdaptedModel;
use crate::answer::Answer;
use crate::drafting::Drafting;
use crate::prompt_cache::PromptCache;
use hearth_llm::{Chunk, Session};
use hearth_protocol::{ConversationId, DroppedTurns, Event, FinishReason, Problem, RequestId};
use idle::IdleSessions;
use std::collections::VecDeque;

/// Receives the events of answers, and reports which answers are cancelled.
pub(crate) trait Listener {
    /// Whether an answer is cancelled. Called before each step, and during a prefill before each
    /// layer.
    fn is_cancelled(&self, id: RequestId) -> bool;

    /// Receives an event of an answer. The last event is [`Event::Finished`] or [`Event::Failed`].
    fn emit(&mut self, id: RequestId, event: Event);
}

/// The answers to one model's requests.
#[derive(Default)]
pub(crate) struct Scheduler {
    /// Answers without a session, in the order in which they are admitted.
    waiting: VecDeque<WaitingAnswer>,
    running: Vec<RunningAnswer>,
    idle: IdleSessions,
    /// Whether an answer was preempted. No answer is admitted before another one has ended, since
    /// it would take the pages that the running answers need next.
    is_full: bool,
    chunks: Chunks,
    /// The draft of speculative decoding. `None` means plain decoding.
    drafting: Option<Drafting>,
    /// Number of the last request.
    last: u64,
}

/// An answer without a session.
struct WaitingAnswer {
    id: RequestId,
    /// Number of the request. Answers may be queued in another order, because the preparation of a
    /// prompt may take long.
    number: u64,
    answer: Answer,
    adapted: AdaptedModel,
    dropped: Option<DroppedTurns>,
}

/// An answer with its session. The tokens of `answer.ids` that the session does not have yet are
/// appended to it.
struct RunningAnswer {
    id: RequestId,
    number: u64,
    answer: Answer,
    adapted: AdaptedModel,
    session: Session,
    /// Prefilled tokens as of the last progress event.
    reported: usize,
    /// The step of its last chunk. The answer that waits longest gets the next chunk.
    last_chunk: u64,
}

/// The sizes of chunks.
#[derive(Default)]
struct Chunks {
    /// With one answer in progress: limited by the time until a cancellation takes effect.
    alone: Chunk,
    /// With several answers, or a background one: limited by the time of a step, because others
    /// wait for it.
    shared: Chunk,
    /// Number of steps.
    steps: u64,
}

impl Scheduler {
    /// A scheduler without answers. `None` means plain decoding.
    pub fn new(drafting: Option<Drafting>) -> Self {
        Self {
            drafting,
            ..Self::default()
        }
    }

    /// Returns the number of a new request, for [`Scheduler::add`].
    pub fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Queues the answer to the request with this number.
    pub fn add(
        &mut self,
        id: RequestId,
        number: u64,
        mut answer: Answer,
        adapted: AdaptedModel,
        dropped: Option<DroppedTurns>,
    ) {
        if !answer.request.background {
            self.prepare_draft(&mut answer);
        }
        self.waiting.push_back(WaitingAnswer {
            id,
            number,
            answer,
            adapted,
            dropped,
        });
    }

    /// Whether there are no answers.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Drops all answers and sessions.
    pub fn clear(&mut self) {
        let mut drafting = self.drafting.take();
        drafting.iter_mut().for_each(Drafting::clear);
        *self = Self {
            last: self.last,
            drafting,
            ..Self::default()
        };
    }

    /// Drops the sessions of ended answers.
    pub fn drop_idle(&mut self) {
        self.idle = IdleSessions::default();
    }

    /// Detaches answers and sessions from a conversation, so that they are not saved.
    pub fn forget(&mut self, conversation: ConversationId) {
        let waiting = self.waiting.iter_mut().map(|waiting| &mut waiting.answer);
        let running = self.running.iter_mut().map(|running| &mut running.answer);
        for answer in waiting.chain(running) {
            answer.request.conversation.take_if(|own| *own == conversation);
        }
        self.idle.forget(conversation);
    }

    /// Saves the sessions of ended answers to the prompt cache, until `give_up` returns `true`.
    pub fn save(&mut self, cache: &mut PromptCache, give_up: &dyn Fn() -> bool) {
        self.idle.save(cache, give_up);
    }

    /// Ends the answers that are cancelled.
    fn end_cancelled(&mut self, listener: &mut dyn Listener) {
        let waiting = std::mem::take(&mut self.waiting);
        for waiting in waiting {
            if listener.is_cancelled(waiting.id) {
                self.end_draft(waiting.number);
                finish(waiting.id, waiting.answer, FinishReason::Cancelled, listener);
            } else {
                self.waiting.push_back(waiting)
            }
        }
        for running in std::mem::take(&mut self.running) {
            if listener.is_cancelled(running.id) {
                self.end(running, Ok(FinishReason::Cancelled), listener)
            } else {
                self.running.push(running)
            }
        }
    }

    pub(super) fn end_draft(&mut self, number: u64) {
        if let Some(drafting) = &mut self.drafting {
            drafting.end(number);
        }
    }

    /// Ends an answer, and keeps its session for the next request, unless it is a background
    /// answer.
    fn end(&mut self, running: RunningAnswer, result: Result<FinishReason, Problem>, listener: &mut dyn Listener) {
        self.is_full = false;
        self.end_draft(running.number);
        let RunningAnswer {
            id,
            answer,
            adapted,
            session,
            ..
        } = running;
        let conversation = answer.request.conversation;
        let is_background = answer.request.background;
        match result {
            Ok(reason) => {
                finish(id, answer, reason, listener);
                if !is_background {
                    self.idle.add(session, adapted.adapters, conversation);
                }
            }
            Err(problem) => listener.emit(id, Event::Failed(problem)),
        }
    }
}

fn finish(id: RequestId, answer: Answer, reason: FinishReason, listener: &mut dyn Listener) {
    let summary = answer.finish(reason, &mut |event| listener.emit(id, event));
    listener.emit(id, Event::Finished(summary));
}

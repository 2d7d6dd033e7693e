//! The scheduler: answers in progress share the steps of one model and the pages of its cache.
//!
//! A step appends one token to each answer that is being generated, and a chunk to those whose
//! prompts are being read (continuous batching: Yu et al., "Orca", OSDI 2022). On a CPU an answer
//! has the same bits as alone, since the bits of a row do not depend on the other rows.
//!
//! Sessions of ended answers stay in the cache for the next request of their conversation. If the
//! cache is full, the least recently used of these are dropped; then the newest answer gives its
//! pages up, and is read again once there is room.

mod admit;
mod draft;
mod idle;
mod step;

use crate::adapters::Adapted;
use crate::answer::Answer;
use crate::prompt_cache::PromptCache;
pub(crate) use draft::{AnswerDraft, Drafting};
use hearth_llm::{Chunk, Session};
use hearth_protocol::{ConversationId, Event, FinishReason, LeftOut, Problem, RequestId};
use idle::IdleSessions;
use std::collections::VecDeque;

/// Most answers in progress; others wait.
pub(crate) const MAX_RUNNING: usize = 32;

/// Receives the events of answers, and knows which are cancelled.
pub(crate) trait Listener {
    /// Whether an answer is cancelled. Asked before each layer while a prompt is read, and before
    /// each step.
    fn is_cancelled(&self, id: RequestId) -> bool;

    /// An event of an answer. The last is [`Event::Finished`] or [`Event::Failed`].
    fn emit(&mut self, id: RequestId, event: Event);
}

/// The answers to one model's requests.
#[derive(Default)]
pub(crate) struct Scheduler {
    /// Answers without a session, in the order in which they get one.
    waiting: VecDeque<Waiting>,
    running: Vec<Running>,
    idle: IdleSessions,
    /// An answer had to give its pages up: none begins before another has ended. Otherwise it would
    /// take the pages that the others are about to need.
    is_full: bool,
    chunks: Chunks,
    /// The draft of speculative decoding. `None` means plain decoding.
    drafting: Option<Drafting>,
    /// Number of the last request.
    last: u64,
}

/// An answer that has no session.
struct Waiting {
    id: RequestId,
    /// Ascending with the time of the request. Prompts that take long to prepare arrive later.
    number: u64,
    answer: Answer,
    adapted: Adapted,
    left_out: Option<LeftOut>,
}

/// An answer with its session, to which the tokens of `answer.ids` beyond it are appended.
struct Running {
    id: RequestId,
    number: u64,
    answer: Answer,
    adapted: Adapted,
    session: Session,
    /// Progress of the prefill as it was emitted last.
    reported: usize,
    /// The step in which it got the last part of a chunk: who waits longest is next.
    last_chunk: u64,
}

/// The sizes of chunks.
#[derive(Default)]
struct Chunks {
    /// If a single answer is in progress: bounded by the time until it can be cancelled.
    alone: Chunk,
    /// If there are others: bounded by the time of the step, for which they wait.
    shared: Chunk,
    /// Number of steps.
    steps: u64,
}

impl Scheduler {
    /// No answers yet. `None` means plain decoding.
    pub fn new(drafting: Option<Drafting>) -> Self {
        Self {
            drafting,
            ..Self::default()
        }
    }

    /// The number of a new request, for [`Scheduler::add`].
    pub fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Queue the answer to the request with this number.
    pub fn add(&mut self, id: RequestId, number: u64, mut answer: Answer, adapted: Adapted, left_out: Option<LeftOut>) {
        self.prepare_draft(&mut answer);
        self.waiting.push_back(Waiting {
            id,
            number,
            answer,
            adapted,
            left_out,
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
            answer.request.conversation.take_if(|of| *of == conversation);
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

    /// Ends an answer, and keeps its session for the next one.
    fn end(&mut self, running: Running, ended: Result<FinishReason, Problem>, listener: &mut dyn Listener) {
        self.is_full = false;
        self.end_draft(running.number);
        let Running {
            id,
            answer,
            adapted,
            session,
            ..
        } = running;
        let conversation = answer.request.conversation;
        match ended {
            Ok(reason) => {
                finish(id, answer, reason, listener);
                self.idle.add(session, adapted.adapters, conversation);
            }
            Err(problem) => listener.emit(id, Event::Failed(problem)),
        }
    }
}

fn finish(id: RequestId, answer: Answer, reason: FinishReason, listener: &mut dyn Listener) {
    let summary = answer.finish(reason, &mut |event| listener.emit(id, event));
    listener.emit(id, Event::Finished(summary));
}

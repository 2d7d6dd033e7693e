//! One step of the model for all answers in progress.

use super::draft::verify;
use super::{Listener, Running, Scheduler, Waiting};
use crate::engine::Texts;
use crate::numbers::saturating_u32;
use crate::problem::{from_session, internal};
use crate::prompt_cache::PromptCache;
use hearth_llm::draft::Drafted;
use hearth_llm::{CacheError, Chunk, Output, Session, SessionError, SessionRows, Want, step_sessions};
use hearth_protocol::{Event, FinishReason, Problem, RequestId};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of progress events of a prefill.
const PREFILL_STEPS: usize = 100;

/// The tokens that an answer gets in a step.
pub(super) struct Part {
    /// Its index among those running.
    pub at: usize,
    /// Of its tokens, those to append.
    pub tokens: Range<usize>,
    /// Drafted tokens to append behind its last one.
    pub draft: Vec<Drafted>,
}

/// The progress of a prompt that a step reads.
struct Reading {
    at: usize,
    id: RequestId,
    tokens: Range<usize>,
    total: usize,
    reported: usize,
}

impl Scheduler {
    /// Ends cancelled answers, begins waiting ones, and advances all in progress by one step.
    ///
    /// # Errors
    /// A GPU failed, or a bug. No answer can be continued then.
    pub fn step(
        &mut self,
        texts: &Texts,
        empty: &Session,
        cache: Option<&mut PromptCache>,
        listener: &mut dyn Listener,
    ) -> Result<(), Problem> {
        self.end_cancelled(listener);
        self.admit(empty, cache, listener);
        // The weights are read once for consecutive rows of one model.
        self.running
            .sort_by_key(|running| (Arc::as_ptr(running.session.model()) as usize, running.number));
        let mut parts = self.parts();
        if parts.is_empty() {
            return Ok(());
        }
        let drafting = self.draft(&mut parts, listener)?;
        let began = Instant::now();
        let mut ran = self.run(&parts, listener);
        if is_full(&ran) && parts.iter().any(|part| !part.draft.is_empty()) {
            // A draft takes no pages from anything else.
            parts.iter_mut().for_each(|part| part.draft.clear());
            ran = self.run(&parts, listener);
        }
        let outputs = match ran {
            Ok(ControlFlow::Continue(outputs)) => outputs,
            // A cancelled answer ends at the beginning of the next step.
            Ok(ControlFlow::Break(())) => return Ok(()),
            ran if is_full(&ran) => return self.make_room(listener),
            Err(error) => return Err(from_session(error)),
        };
        let plain = self.record_times(&parts, began.elapsed(), drafting);
        self.adapt(&parts, began);
        self.advance(texts, parts, outputs, plain, listener)
    }

    /// The parts of a step: one token for each answer that is being generated, and a chunk for
    /// prompts, those that wait longest first.
    fn parts(&mut self) -> Vec<Part> {
        self.chunks.steps += 1;
        let mut chunk = match self.running.len() {
            1 => self.chunks.alone.tokens(),
            _ => self.chunks.shared.tokens(),
        };
        let mut order: Vec<usize> = (0..self.running.len()).collect();
        order.sort_by_key(|&at| self.running[at].last_chunk);
        let mut parts = Vec::with_capacity(order.len());
        for at in order {
            let running = &mut self.running[at];
            let (done, all) = (running.session.tokens().len(), running.answer.ids.len());
            let size = match all - done {
                1 => 1,
                missing => missing.min(chunk),
            };
            if size > 1 {
                running.last_chunk = self.chunks.steps;
                chunk -= size;
            }
            if size > 0 {
                let tokens = done..done + size;
                let draft = Vec::new();
                parts.push(Part { at, tokens, draft });
            }
        }
        parts.sort_by_key(|part| part.at);
        parts
    }

    fn run(
        &mut self,
        parts: &[Part],
        listener: &mut dyn Listener,
    ) -> Result<ControlFlow<(), Vec<Output>>, SessionError> {
        let mut reading: Vec<Reading> = parts.iter().filter_map(|part| self.reading(part)).collect();
        let ids: Vec<RequestId> = self.running.iter().map(|running| running.id).collect();
        let with_drafts: Vec<Option<Vec<u32>>> = parts.iter().map(|part| self.with_draft(part)).collect();
        let (mut rows, mut next) = (
            Vec::with_capacity(parts.len()),
            parts.iter().zip(&with_drafts).peekable(),
        );
        let mut layers = 1;
        for (at, Running { session, answer, .. }) in self.running.iter_mut().enumerate() {
            let Some((part, with_draft)) = next.next_if(|(part, _)| part.at == at) else {
                continue;
            };
            layers = session.model().config().n_layers.max(1);
            rows.push(SessionRows {
                session,
                ids: with_draft.as_deref().unwrap_or(&answer.ids[part.tokens.clone()]),
                wanted: part.tokens.len() - 1..part.tokens.len() + part.draft.len(),
                want: match (part.tokens.end == answer.ids.len(), answer.is_greedy) {
                    (false, _) => Want::Nothing,
                    (true, true) => Want::Argmax,
                    (true, false) => Want::Logits,
                },
            });
        }
        let with_draft = parts.iter().filter(|part| !part.draft.is_empty());
        let drafted: Vec<RequestId> = with_draft.map(|part| ids[part.at]).collect();
        let ran = step_sessions(&mut rows, &mut |layer| {
            // A step with many rows may take long.
            if drafted.iter().any(|id| listener.is_cancelled(*id)) {
                return ControlFlow::Break(());
            }
            for reading in &mut reading {
                if listener.is_cancelled(reading.id) {
                    return ControlFlow::Break(());
                }
                reading.report(layer, layers, listener);
            }
            ControlFlow::Continue(())
        });
        for reading in reading {
            self.running[reading.at].reported = reading.reported;
        }
        ran
    }

    /// The tokens of a part that has a draft.
    fn with_draft(&self, part: &Part) -> Option<Vec<u32>> {
        let tokens = &self.running[part.at].answer.ids[part.tokens.clone()];
        let drafted = part.draft.iter().map(|drafted| drafted.token);
        (!part.draft.is_empty()).then(|| tokens.iter().copied().chain(drafted).collect())
    }

    fn reading(&self, part: &Part) -> Option<Reading> {
        let running = &self.running[part.at];
        // An answer that had to give its pages up is read again in silence.
        let is_prompt = part.tokens.end <= running.answer.prompt();
        (is_prompt && part.tokens.len() > 1).then(|| Reading {
            at: part.at,
            id: running.id,
            tokens: part.tokens.clone(),
            total: running.answer.prompt(),
            reported: running.reported,
        })
    }

    /// Adapts the size of the next chunk to the time of this step.
    fn adapt(&mut self, parts: &[Part], began: Instant) {
        let took = began.elapsed();
        let read: usize = parts
            .iter()
            .map(|part| part.tokens.len())
            .filter(|tokens| *tokens > 1)
            .sum();
        let [first, ..] = &*self.running else { return };
        let shared = self.running.len() > 1;
        let target = Chunk::step_time(first.session.model(), shared);
        let chunk = if shared {
            &mut self.chunks.shared
        } else {
            &mut self.chunks.alone
        };
        chunk.adapt(read, took, target);
    }

    /// Adds the next token to each answer whose tokens are all in the cache.
    fn advance(
        &mut self,
        texts: &Texts,
        parts: Vec<Part>,
        outputs: Vec<Output>,
        plain: f64,
        listener: &mut dyn Listener,
    ) -> Result<(), Problem> {
        let mut ended = Vec::new();
        for (part, output) in parts.iter().zip(&outputs) {
            let running = &mut self.running[part.at];
            if matches!(output, Output::Nothing) {
                continue;
            }
            if part.tokens.end == running.answer.prompt() {
                running.answer.prompt_done();
                // For the next answer to the same prompt.
                running.session.take_snapshot();
            }
            let id = running.id;
            let advanced = verify(texts, running, part, output, plain, &mut |event| {
                listener.emit(id, event)
            });
            if let Some(end) = advanced.transpose() {
                ended.push((part.at, end));
            }
        }
        for (at, end) in ended.into_iter().rev() {
            let running = self.running.remove(at);
            self.end(running, end, listener);
        }
        Ok(())
    }

    /// Frees pages for the next step: drops a session of an ended answer, or snapshots, or makes
    /// the newest answer wait.
    fn make_room(&mut self, listener: &mut dyn Listener) -> Result<(), Problem> {
        if self.idle.drop_oldest() || self.drop_snapshots() {
            return Ok(());
        }
        let newest = (0..self.running.len()).max_by_key(|&at| self.running[at].number);
        let Some(newest) = newest.map(|at| self.running.remove(at)) else {
            return Err(internal("a cache without answers is full"));
        };
        if self.running.is_empty() {
            self.end(newest, Ok(FinishReason::ContextFull), listener);
            return Ok(());
        }
        self.is_full = true;
        self.end_draft(newest.number);
        let Running {
            id,
            number,
            answer,
            adapted,
            ..
        } = newest;
        self.waiting.push_front(Waiting {
            id,
            number,
            answer,
            adapted,
            left_out: None,
        });
        Ok(())
    }
}

/// Whether a step found no page.
fn is_full<T>(ran: &Result<T, SessionError>) -> bool {
    matches!(ran, Err(SessionError::Cache(CacheError::CacheFull { .. })))
}

impl Reading {
    /// Emits the progress of a prompt, at most a hundred times.
    fn report(&mut self, layer: usize, layers: usize, listener: &mut dyn Listener) {
        let done = self.tokens.start + self.tokens.len() * layer / layers;
        if done > self.reported + self.total / PREFILL_STEPS {
            self.reported = done;
            let (done, total) = (saturating_u32(done), saturating_u32(self.total));
            listener.emit(self.id, Event::Prefill { done, total });
        }
    }
}

//! One step of the model for all answers in progress.

use super::draft::verify;
use super::{Listener, RunningAnswer, Scheduler, WaitingAnswer};
use crate::numbers::saturating_u32;
use crate::problem::{from_session, internal};
use crate::prompt_cache::PromptCache;
use crate::texts::Texts;
use hearth_llm::draft::Drafted;
use hearth_llm::{CacheError, Chunk, Output, Session, SessionError, SessionRows, Want, step_sessions};
use hearth_protocol::{Event, FinishReason, Problem, RequestId};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of progress events of a prefill.
const MAX_PREFILL_EVENTS: usize = 100;

/// The tokens of an answer in a step.
pub(super) struct Part {
    /// Index of the answer in `running`.
    pub index: usize,
    /// The range of `answer.ids` to append.
    pub tokens: Range<usize>,
    /// Drafted tokens to append after them.
    pub draft: Vec<Drafted>,
}

/// Progress of the prefill of a prompt in a step.
struct Prefill {
    /// Index of the answer in `running`.
    index: usize,
    id: RequestId,
    /// Tokens of the prompt in this step.
    tokens: Range<usize>,
    /// Tokens of the prompt.
    total: usize,
    /// Prefilled tokens as of the last progress event.
    reported: usize,
}

impl Scheduler {
    /// Ends cancelled answers, admits waiting ones, and advances all running ones by one step.
    ///
    /// # Errors
    /// A GPU failed, or the step has a bug. No answer can be continued after an error.
    pub fn step(
        &mut self,
        texts: &Texts,
        empty: &Session,
        cache: Option<&mut PromptCache>,
        listener: &mut dyn Listener,
    ) -> Result<(), Problem> {
        self.end_cancelled(listener);
        self.preempt_background();
        self.admit(empty, cache, listener);
        // Sorted by model, because a step reads the weights once for consecutive rows of one model.
        self.running
            .sort_by_key(|running| (Arc::as_ptr(running.session.model()) as usize, running.number));
        let mut parts = self.parts();
        if parts.is_empty() {
            return Ok(());
        }
        let drafting = self.draft(&mut parts, listener)?;
        let start = Instant::now();
        let mut result = self.run(&parts, listener);
        if is_full(&result) && parts.iter().any(|part| !part.draft.is_empty()) {
            // Drafts must not take pages from sessions or answers, so the step runs without them.
            parts.iter_mut().for_each(|part| part.draft.clear());
            result = self.run(&parts, listener);
        }
        let outputs = match result {
            Ok(ControlFlow::Continue(outputs)) => outputs,
            // A cancelled answer ends at the beginning of the next step.
            Ok(ControlFlow::Break(())) => return Ok(()),
            result if is_full(&result) => return self.make_room(listener),
            Err(error) => return Err(from_session(error)),
        };
        let plain_seconds = self.record_times(&parts, start.elapsed(), drafting);
        self.adapt_chunk(&parts, start.elapsed());
        self.advance(texts, parts, outputs, plain_seconds, listener)
    }

    /// The parts of a step: one token of each answer that is being generated, and a chunk of
    /// prompts. The prompts that wait longest come first.
    fn parts(&mut self) -> Vec<Part> {
        self.chunks.steps += 1;
        let mut chunk = if self.has_short_steps() {
            self.chunks.shared.tokens()
        } else {
            self.chunks.alone.tokens()
        };
        let mut order: Vec<usize> = (0..self.running.len()).collect();
        order.sort_by_key(|&index| self.running[index].last_chunk);
        let mut parts = Vec::with_capacity(order.len());
        for index in order {
            let running = &mut self.running[index];
            let (done, total) = (running.session.tokens().len(), running.answer.ids.len());
            let size = match total - done {
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
                parts.push(Part { index, tokens, draft });
            }
        }
        parts.sort_by_key(|part| part.index);
        parts
    }

    /// Runs the model on the parts. Breaks if an answer is cancelled meanwhile.
    fn run(
        &mut self,
        parts: &[Part],
        listener: &mut dyn Listener,
    ) -> Result<ControlFlow<(), Vec<Output>>, SessionError> {
        let mut prefills: Vec<Prefill> = parts.iter().filter_map(|part| self.prefill(part)).collect();
        let ids: Vec<RequestId> = self.running.iter().map(|running| running.id).collect();
        let with_drafts: Vec<Option<Vec<u32>>> = parts.iter().map(|part| self.with_draft(part)).collect();
        let mut rows = Vec::with_capacity(parts.len());
        let mut next = parts.iter().zip(&with_drafts).peekable();
        let mut layers = 1;
        for (index, RunningAnswer { session, answer, .. }) in self.running.iter_mut().enumerate() {
            let Some((part, with_draft)) = next.next_if(|(part, _)| part.index == index) else {
                continue;
            };
            layers = session.model().config().n_layers().max(1);
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
        let drafting_ids: Vec<RequestId> = with_draft.map(|part| ids[part.index]).collect();
        let result = step_sessions(&mut rows, &mut |layer| {
            // A step with many rows may take long.
            if drafting_ids.iter().any(|id| listener.is_cancelled(*id)) {
                return ControlFlow::Break(());
            }
            for prefill in &mut prefills {
                if listener.is_cancelled(prefill.id) {
                    return ControlFlow::Break(());
                }
                prefill.report(layer, layers, listener);
            }
            ControlFlow::Continue(())
        });
        for prefill in prefills {
            self.running[prefill.index].reported = prefill.reported;
        }
        result
    }

    /// The tokens of a part followed by its draft. `None` if it has no draft.
    fn with_draft(&self, part: &Part) -> Option<Vec<u32>> {
        let tokens = &self.running[part.index].answer.ids[part.tokens.clone()];
        let drafted = part.draft.iter().map(|drafted| drafted.token);
        (!part.draft.is_empty()).then(|| tokens.iter().copied().chain(drafted).collect())
    }

    /// The prefill in a part, whose progress is reported. `None` if the part has none.
    fn prefill(&self, part: &Part) -> Option<Prefill> {
        let running = &self.running[part.index];
        // The generated tokens of a preempted answer are read again without a report.
        let is_prompt = part.tokens.end <= running.answer.prompt();
        (is_prompt && part.tokens.len() > 1).then(|| Prefill {
            index: part.index,
            id: running.id,
            tokens: part.tokens.clone(),
            total: running.answer.prompt(),
            reported: running.reported,
        })
    }

    /// Adapts the size of the next chunk to the time of this step.
    fn adapt_chunk(&mut self, parts: &[Part], elapsed: Duration) {
        let prefilled: usize = parts
            .iter()
            .map(|part| part.tokens.len())
            .filter(|tokens| *tokens > 1)
            .sum();
        let [first, ..] = &*self.running else { return };
        let shared = self.has_short_steps();
        let target = Chunk::step_time(first.session.model(), shared);
        let chunk = if shared {
            &mut self.chunks.shared
        } else {
            &mut self.chunks.alone
        };
        chunk.adapt(prefilled, elapsed, target);
    }

    /// Adds the next tokens to each answer whose tokens are all in the KV cache, and ends answers.
    fn advance(
        &mut self,
        texts: &Texts,
        parts: Vec<Part>,
        outputs: Vec<Output>,
        plain_seconds: f64,
        listener: &mut dyn Listener,
    ) -> Result<(), Problem> {
        let mut ended = Vec::new();
        for (part, output) in parts.iter().zip(&outputs) {
            let running = &mut self.running[part.index];
            if matches!(output, Output::Nothing) {
                continue;
            }
            if part.tokens.end == running.answer.prompt() {
                running.answer.prompt_done();
                // The snapshot is for the next answer to the same prompt.
                running.session.take_snapshot();
            }
            let id = running.id;
            let end = verify(texts, running, part, output, plain_seconds, &mut |event| {
                listener.emit(id, event)
            });
            if let Some(end) = end.transpose() {
                ended.push((part.index, end));
            }
        }
        for (index, end) in ended.into_iter().rev() {
            let running = self.running.remove(index);
            self.end(running, end, listener);
        }
        Ok(())
    }

    /// Frees pages for the next step: ends a background answer, or drops an idle session, or else
    /// snapshots, or else preempts the newest answer.
    fn make_room(&mut self, listener: &mut dyn Listener) -> Result<(), Problem> {
        if let Some(background) = self.take_background() {
            self.end(background, Ok(FinishReason::ContextFull), listener);
            return Ok(());
        }
        if self.idle.drop_oldest() || self.drop_snapshots() {
            return Ok(());
        }
        let newest = (0..self.running.len()).max_by_key(|&index| self.running[index].number);
        let Some(newest) = newest.map(|index| self.running.remove(index)) else {
            return Err(internal("a cache without answers is full"));
        };
        if self.running.is_empty() {
            self.end(newest, Ok(FinishReason::ContextFull), listener);
            return Ok(());
        }
        self.is_full = true;
        self.end_draft(newest.number);
        let RunningAnswer {
            id,
            number,
            answer,
            adapted,
            ..
        } = newest;
        self.waiting.push_front(WaitingAnswer {
            id,
            number,
            answer,
            adapted,
            dropped: None,
        });
        Ok(())
    }
}

/// Whether a step failed because the KV cache has no free page.
fn is_full<T>(result: &Result<T, SessionError>) -> bool {
    matches!(result, Err(SessionError::Cache(CacheError::CacheFull { .. })))
}

impl Prefill {
    /// Emits the progress, at most [`MAX_PREFILL_EVENTS`] times per prompt.
    fn report(&mut self, layer: usize, layers: usize, listener: &mut dyn Listener) {
        let done = self.tokens.start + self.tokens.len() * layer / layers;
        if done > self.reported + self.total / MAX_PREFILL_EVENTS {
            self.reported = done;
            let (done, total) = (saturating_u32(done), saturating_u32(self.total));
            listener.emit(self.id, Event::Prefill { done, total });
        }
    }
}

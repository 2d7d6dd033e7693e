//! A smaller model as a draft, with a separate KV cache.

use super::rounds::{self, ActiveDraft, DraftTime};
use super::{BUCKETS, DraftRequest, Drafter, OnLayer, TokenMap};
use crate::cache::{Cache, CacheSize, Sequence};
use crate::chunk::Chunk;
use crate::error::SessionError;
use crate::model::Model;
use crate::ops::MatmulPrecision;
use crate::sample::Sampler;
use crate::session::common_prefix;
use crate::step::{Rows, Want, step};
use hearth_kernels::attention::KvFormat;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Maximum tokens that are prefilled in the step that drafts the first token. More are prefilled in
/// chunks before it.
const MAX_CATCH_UP: usize = 16;
/// Maximum tokens of a draft by a model with sliding windows. Its cache releases pages with each
/// token, and can be truncated by this many tokens without prefilling again.
const MAX_WINDOWED: usize = 16;
/// Maximum sequences of ended answers that are cached for the next message of their conversation.
const MAX_IDLE: usize = 16;
/// Minimum shared prefix for which the sequence of an ended answer is continued, in tokens.
const MIN_SHARED_PREFIX: usize = 16;

/// Drafts by a smaller model.
pub struct ModelDrafter {
    model: Arc<Model>,
    cache: Arc<Cache>,
    map: Option<TokenMap>,
    relative_cost: f64,
    chunk: Chunk,
    /// The least recently used first.
    sequences: Vec<DraftSequence>,
}

/// The draft model's sequence for an answer.
struct DraftSequence {
    /// The id of the answer; `None` means that it has ended.
    answer: Option<u64>,
    sequence: Sequence,
    /// The answer's tokens in the draft's vocabulary.
    ids: Vec<u32>,
    /// The number of the target's tokens in `ids`.
    mapped: usize,
}

impl ModelDrafter {
    /// Creates the draft's cache, with the context length of the target. `map` translates tokens
    /// between two different vocabularies. Drafting a token is expected to take the fraction
    /// `relative_cost` of a step of the target.
    pub fn new(model: Arc<Model>, format: KvFormat, context: usize, map: Option<TokenMap>, relative_cost: f64) -> Self {
        let size = CacheSize::draft(context, model.groups());
        Self {
            cache: Cache::new(model.groups(), format, size),
            model,
            map,
            relative_cost,
            chunk: Chunk::default(),
            sequences: Vec::new(),
        }
    }

    /// The draft's KV cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Moves the sequence of a request's answer to the end, or adds one, and updates its tokens.
    fn prepare(&mut self, request: &DraftRequest) {
        let index = self.sequences.iter().position(|draft| draft.answer == Some(request.id));
        let mut draft = match index {
            Some(index) => self.sequences.remove(index),
            None => DraftSequence::new(request.id, &self.cache),
        };
        draft.map_tokens(request.ids, self.map.as_ref(), self.cache.context());
        if index.is_none() {
            // The sequence of an earlier answer of the same conversation has most of the tokens.
            let shared_prefix = |(index, idle): (usize, &DraftSequence)| {
                let shared = common_prefix(idle.sequence.ids(), &draft.ids);
                (idle.answer.is_none() && shared >= MIN_SHARED_PREFIX).then_some((shared, index))
            };
            if let Some((_, index)) = self.sequences.iter().enumerate().filter_map(shared_prefix).max() {
                draft.sequence = self.sequences.remove(index).sequence;
            }
        }
        draft.rewind();
        self.sequences.push(draft);
    }

    /// Makes room for the last sequence by dropping sequences of ended answers. Returns whether
    /// there is room.
    fn make_room(&mut self) -> bool {
        loop {
            let Some(draft) = self.sequences.last() else {
                return false;
            };
            if draft
                .sequence
                .has_room((draft.ids.len() + super::MAX_DRAFTED).min(self.cache.context()))
            {
                return draft.ids.len() <= self.cache.context();
            }
            match self.sequences.iter().position(|draft| draft.answer.is_none()) {
                Some(idle) => drop(self.sequences.remove(idle)),
                None => return false,
            }
        }
    }

    /// Prefills at most `budget` missing tokens of the last sequence, and subtracts their number
    /// from `budget`. Returns whether the sequence can draft: at most [`MAX_CATCH_UP`] tokens are
    /// missing.
    fn prefill(&mut self, budget: &mut usize, on_layer: &mut OnLayer) -> Result<bool, SessionError> {
        let Some(draft) = self.sequences.last_mut() else {
            return Ok(false);
        };
        let missing = draft.ids.len() - draft.sequence.len();
        // The last tokens are prefilled in the step that drafts the first token.
        let tokens = missing.saturating_sub(1).min(*budget);
        if missing <= MAX_CATCH_UP || tokens == 0 {
            // No token is missing if the draft's vocabulary spells none of the target's tokens.
            return Ok((1..=MAX_CATCH_UP).contains(&missing));
        }
        let (start, cached) = (Instant::now(), draft.sequence.len());
        let ids = &draft.ids[cached..cached + tokens];
        let mut rows = [Rows::last(&mut draft.sequence, &self.model, ids, Want::Nothing)];
        match step(&mut rows, MatmulPrecision::Int8Activations, on_layer) {
            Ok(ControlFlow::Continue(_)) => {}
            Ok(ControlFlow::Break(())) => return Ok(false),
            Err(error) if !rounds::is_device_failure(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        // Answers wait for this step.
        self.chunk
            .adapt(tokens, start.elapsed(), Chunk::step_time(&self.model, true));
        *budget -= tokens;
        Ok(missing - tokens <= MAX_CATCH_UP)
    }
}

impl Drafter for ModelDrafter {
    fn propose(&mut self, requests: &mut [DraftRequest], on_layer: &mut OnLayer) -> Result<DraftTime, SessionError> {
        let mut prefill_budget = self.chunk.tokens();
        // The indices of requests whose sequences can draft.
        let mut ready = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter_mut().enumerate() {
            if self.cache.is_windowed() {
                let max_tokens = &mut request.length_policy.max_tokens;
                *max_tokens = (*max_tokens).min(MAX_WINDOWED);
            }
            if request.decline_if_unpaid() {
                continue;
            }
            self.prepare(request);
            if self.make_room() && self.prefill(&mut prefill_budget, on_layer)? {
                ready.push(index);
            }
        }
        let mut drafts = Vec::with_capacity(ready.len());
        let mut sequences: Vec<&mut DraftSequence> = self.sequences.iter_mut().collect();
        for (index, request) in requests.iter_mut().enumerate() {
            if !ready.contains(&index) {
                continue;
            }
            let id = request.id;
            let Some(position) = sequences.iter().position(|draft| draft.answer == Some(id)) else {
                continue;
            };
            let draft = sequences.swap_remove(position);
            // The logits of another vocabulary do not fit the sampler's penalties.
            let sampler = request.sampler.filter(|_| self.map.is_none());
            drafts.push(ActiveDraft {
                sampler: sampler.map(Sampler::fork),
                request,
                next: draft.ids[draft.sequence.len()..].to_vec(),
                sequence: &mut draft.sequence,
                model: &self.model,
                map: self.map.as_ref(),
                probability: 1.0,
                expected: 0.0,
            });
        }
        rounds::draft(drafts, on_layer)
    }

    fn end(&mut self, id: u64) {
        for draft in &mut self.sequences {
            draft.answer.take_if(|answer| *answer == id);
        }
        let idle = self.sequences.iter().filter(|draft| draft.answer.is_none()).count();
        if idle > MAX_IDLE
            && let Some(oldest) = self.sequences.iter().position(|draft| draft.answer.is_none())
        {
            self.sequences.remove(oldest);
        }
    }

    fn clear(&mut self) {
        self.sequences.clear();
    }

    fn priors(&self) -> [f64; BUCKETS] {
        rounds::PRIORS
    }

    fn relative_cost(&self) -> f64 {
        self.relative_cost
    }
}

impl DraftSequence {
    fn new(answer: u64, cache: &Arc<Cache>) -> Self {
        Self {
            answer: Some(answer),
            sequence: Sequence::new(cache),
            ids: Vec::new(),
            mapped: 0,
        }
    }

    /// Adds the answer's new tokens. Stops beyond `context` tokens, for which there is no room.
    fn map_tokens(&mut self, ids: &[u32], map: Option<&TokenMap>, context: usize) {
        for &token in ids.get(self.mapped..).unwrap_or_default() {
            if self.ids.len() > context {
                break;
            }
            match map {
                None => self.ids.push(token),
                Some(map) => self.ids.extend_from_slice(map.draft_tokens(token)),
            }
        }
        self.mapped = ids.len();
    }

    /// Truncates the sequence to the accepted tokens, without the last one, whose logits are needed
    /// again.
    fn rewind(&mut self) {
        let shared = common_prefix(self.sequence.ids(), &self.ids);
        let length = shared.min(self.ids.len().saturating_sub(1));
        if !self.sequence.truncate(length) {
            self.sequence.clear();
        }
    }
}

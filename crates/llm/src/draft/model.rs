//! A smaller model as a draft, with a separate KV cache.

use super::rounds::{self, DraftTime, Line};
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

/// Tokens that are read together with the first drafted one; more are read in chunks first.
const MAX_CATCH_UP: usize = 16;
/// Most tokens of a draft by a model with windows: its cache releases pages with each token, and
/// can take as many back without reading them again.
const MAX_WINDOWED: usize = 16;
/// Most sequences of ended answers that are cached for the next message of their conversation.
const MAX_IDLE: usize = 16;
/// The shortest prefix for which the sequence of an ended answer is continued.
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

/// The draft's sequence for an answer.
struct DraftSequence {
    /// `None` means that its answer has ended.
    answer: Option<u64>,
    sequence: Sequence,
    /// The answer's tokens in the draft's vocabulary, and how many of the target's they are.
    ids: Vec<u32>,
    mapped: usize,
}

impl ModelDrafter {
    /// A draft for contexts of `context` tokens, the target's own. Tokens of another vocabulary
    /// are translated by `map`. Drafting a token is expected to take `relative_cost` of a step of
    /// the target.
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

    /// Puts the sequence of a request's answer last, with the answer's tokens; it may be new.
    fn prepare(&mut self, request: &DraftRequest) {
        let own = self.sequences.iter().position(|held| held.answer == Some(request.id));
        let mut held = match own {
            Some(at) => self.sequences.remove(at),
            None => DraftSequence::new(request.id, &self.cache),
        };
        held.map(request.ids, self.map.as_ref(), self.cache.context());
        if own.is_none() {
            // One of an earlier answer of the same conversation.
            let shared = |(at, idle): (usize, &DraftSequence)| {
                let shared = common_prefix(idle.sequence.ids(), &held.ids);
                (idle.answer.is_none() && shared >= MIN_SHARED_PREFIX).then_some((shared, at))
            };
            if let Some((_, at)) = self.sequences.iter().enumerate().filter_map(shared).max() {
                held.sequence = self.sequences.remove(at).sequence;
            }
        }
        held.rewind();
        self.sequences.push(held);
    }

    /// Makes room for the last sequence by dropping sequences of ended answers. Returns whether
    /// there is room.
    fn make_room(&mut self) -> bool {
        loop {
            let Some(held) = self.sequences.last() else {
                return false;
            };
            if held
                .sequence
                .has_room((held.ids.len() + super::MAX_DRAFTED).min(self.cache.context()))
            {
                return held.ids.len() <= self.cache.context();
            }
            match self.sequences.iter().position(|held| held.answer.is_none()) {
                Some(idle) => drop(self.sequences.remove(idle)),
                None => return false,
            }
        }
    }

    /// Reads a chunk of what the last sequence lacks; returns whether only a few tokens are left.
    fn read(&mut self, left: &mut usize, on_layer: &mut OnLayer) -> Result<bool, SessionError> {
        let Some(held) = self.sequences.last_mut() else {
            return Ok(false);
        };
        let missing = held.ids.len() - held.sequence.len();
        // The last tokens are read with the first drafted one.
        let tokens = missing.saturating_sub(1).min(*left);
        if missing <= MAX_CATCH_UP || tokens == 0 {
            // A text of which the draft has no token gives it nothing to begin with.
            return Ok((1..=MAX_CATCH_UP).contains(&missing));
        }
        let (began, done) = (Instant::now(), held.sequence.len());
        let ids = &held.ids[done..done + tokens];
        let mut rows = [Rows::last(&mut held.sequence, &self.model, ids, Want::Nothing)];
        match step(&mut rows, MatmulPrecision::Int8Activations, on_layer) {
            Ok(ControlFlow::Continue(_)) => {}
            Ok(ControlFlow::Break(())) => return Ok(false),
            Err(error) if !rounds::is_of_device(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        // Answers wait for a draft.
        self.chunk
            .adapt(tokens, began.elapsed(), Chunk::step_time(&self.model, true));
        *left -= tokens;
        Ok(missing - tokens <= MAX_CATCH_UP)
    }
}

impl Drafter for ModelDrafter {
    fn propose(&mut self, requests: &mut [DraftRequest], on_layer: &mut OnLayer) -> Result<DraftTime, SessionError> {
        let mut left = self.chunk.tokens();
        let mut ready = Vec::with_capacity(requests.len());
        for (at, request) in requests.iter_mut().enumerate() {
            if self.cache.is_windowed() {
                request.budget.most = request.budget.most.min(MAX_WINDOWED);
            }
            if request.declines() {
                continue;
            }
            self.prepare(request);
            if self.make_room() && self.read(&mut left, on_layer)? {
                ready.push((at, request.id));
            }
        }
        let mut lines = Vec::with_capacity(ready.len());
        let mut sequences: Vec<&mut DraftSequence> = self.sequences.iter_mut().collect();
        for (at, request) in requests.iter_mut().enumerate() {
            let Some(&(_, id)) = ready.iter().find(|(ready, _)| *ready == at) else {
                continue;
            };
            let Some(own) = sequences.iter().position(|held| held.answer == Some(id)) else {
                continue;
            };
            let held = sequences.swap_remove(own);
            // The logits of another vocabulary do not fit the sampler's penalties.
            let sampler = request.sampler.filter(|_| self.map.is_none());
            lines.push(Line {
                sampler: sampler.map(Sampler::fork),
                request,
                next: held.ids[held.sequence.len()..].to_vec(),
                sequence: &mut held.sequence,
                model: &self.model,
                map: self.map.as_ref(),
                reached: 1.0,
                expected: 0.0,
            });
        }
        rounds::draft(lines, on_layer)
    }

    fn end(&mut self, id: u64) {
        for held in &mut self.sequences {
            held.answer.take_if(|answer| *answer == id);
        }
        let idle = self.sequences.iter().filter(|held| held.answer.is_none()).count();
        if idle > MAX_IDLE
            && let Some(oldest) = self.sequences.iter().position(|held| held.answer.is_none())
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

    /// Adds the answer's new tokens, up to one more than `context`: then the draft has no room.
    fn map(&mut self, ids: &[u32], map: Option<&TokenMap>, context: usize) {
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

    /// Removes tokens that were drafted and not accepted, and one that must be computed again.
    fn rewind(&mut self) {
        let shared = common_prefix(self.sequence.ids(), &self.ids);
        let length = shared.min(self.ids.len().saturating_sub(1));
        if !self.sequence.truncate(length) {
            self.sequence.clear();
        }
    }
}

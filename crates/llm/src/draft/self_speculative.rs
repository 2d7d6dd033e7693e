//! Self-speculative decoding: drafts by the target's first layers, followed by its output layer
//! (Zhang et al., "Draft & Verify", ACL 2024, without the search for layers). The drafts share the
//! target's KV cells of these layers, and copy only the last page of a sequence.

use super::rounds::{self, ActiveDraft, DraftTime};
use super::{BUCKETS, DraftRequest, Drafter, OnLayer};
use crate::cache::{Cache, Sequence};
use crate::error::{CacheError, SessionError};
use crate::model::Model;
use crate::sample::Sampler;
use std::sync::Arc;

/// Drafts by the first layers of the target.
pub struct SelfSpeculativeDrafter {
    /// The number of the target's first layers.
    layers: usize,
    relative_cost: f64,
    cache: Option<BorrowedCache>,
    models: Vec<DraftModel>,
}

/// A cache of the target, and the cache that borrows its first layers.
struct BorrowedCache {
    target: Arc<Cache>,
    draft: Arc<Cache>,
}

/// A target, and the model of its first layers. Targets differ in adapters.
struct DraftModel {
    target: Arc<Model>,
    draft: Arc<Model>,
}

impl SelfSpeculativeDrafter {
    /// A drafter with the first `layers` layers of the target: at least one, and not all. Drafting
    /// a token is expected to take the fraction `relative_cost` of a step of the target.
    ///
    /// # Errors
    /// If `layers` is 0, or not less than the target's number of layers.
    pub fn new(target: &Model, layers: usize, relative_cost: f64) -> Result<Self, CacheError> {
        let all = target.decoder().layers().len();
        if layers == 0 || layers >= all {
            return Err(CacheError::NoSuchLayer {
                layer: layers,
                layers: all,
            });
        }
        Ok(Self {
            layers,
            relative_cost,
            cache: None,
            models: Vec::new(),
        })
    }

    /// The cache that borrows the first layers of a target's cache.
    fn draft_cache(&mut self, target: &Arc<Cache>) -> Result<Arc<Cache>, CacheError> {
        if let Some(cache) = &self.cache
            && Arc::ptr_eq(&cache.target, target)
        {
            return Ok(Arc::clone(&cache.draft));
        }
        let layers: Vec<usize> = (0..self.layers).collect();
        let draft = Cache::borrowing(target, &layers)?;
        self.cache = Some(BorrowedCache {
            target: Arc::clone(target),
            draft: Arc::clone(&draft),
        });
        Ok(draft)
    }

    /// The model of a target's first layers.
    fn draft_model(&mut self, target: &Arc<Model>) -> Arc<Model> {
        if let Some(model) = self.models.iter().find(|model| Arc::ptr_eq(&model.target, target)) {
            return Arc::clone(&model.draft);
        }
        let draft = Arc::new(target.first_layers(self.layers));
        self.models.push(DraftModel {
            target: Arc::clone(target),
            draft: Arc::clone(&draft),
        });
        draft
    }
}

impl Drafter for SelfSpeculativeDrafter {
    fn propose(&mut self, requests: &mut [DraftRequest], on_layer: &mut OnLayer) -> Result<DraftTime, SessionError> {
        // Models with adapters that no answer uses any more are dropped.
        let is_used = |target: &Arc<Model>| {
            requests
                .iter()
                .any(|request| Arc::ptr_eq(target, request.target.model()))
        };
        self.models.retain(|model| is_used(&model.target));
        // Forks of the targets' sequences. They read the same cells, and write to copies of the
        // last pages, which are freed when the forks are dropped.
        let mut forks: Vec<(usize, Sequence, Arc<Model>)> = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter_mut().enumerate() {
            if request.decline_if_unpaid() {
                continue;
            }
            if request.ids.len() != request.target.tokens().len() + 1 {
                continue;
            }
            let cache = self.draft_cache(request.target.cache())?;
            let fork = request.target.sequence.borrowed_by(&cache)?;
            forks.push((index, fork, self.draft_model(request.target.model())));
        }
        let mut forks = forks.iter_mut().peekable();
        let mut drafts = Vec::new();
        for (index, request) in requests.iter_mut().enumerate() {
            let Some((_, sequence, model)) = forks.next_if(|(fork_index, ..)| *fork_index == index) else {
                continue;
            };
            drafts.push(ActiveDraft {
                next: request.ids[request.ids.len() - 1..].to_vec(),
                sampler: request.sampler.map(Sampler::fork),
                request,
                sequence,
                model,
                map: None,
                probability: 1.0,
                expected: 0.0,
            });
        }
        rounds::draft(drafts, on_layer)
    }

    fn end(&mut self, _id: u64) {}

    fn clear(&mut self) {
        (self.cache, self.models) = (None, Vec::new());
    }

    fn priors(&self) -> [f64; BUCKETS] {
        rounds::PRIORS
    }

    fn relative_cost(&self) -> f64 {
        self.relative_cost
    }
}

//! The target's own first layers as a draft, with its output layer (Zhang et al., "Draft & Verify",
//! ACL 2024, without the search for layers). It shares the target's KV pages of those layers, and
//! copies only the last page of a sequence.

use super::rounds::{self, DraftTime, Line};
use super::{BUCKETS, DraftRequest, Drafter, OnLayer};
use crate::cache::{Cache, Sequence};
use crate::error::{CacheError, SessionError};
use crate::model::Model;
use crate::sample::Sampler;
use std::sync::Arc;

/// Drafts by the first layers of the target.
pub struct SelfSpeculativeDrafter {
    layers: usize,
    relative_cost: f64,
    /// The cache that borrows the first layers of the target's.
    cache: Option<(Arc<Cache>, Arc<Cache>)>,
    /// Targets, which differ in adapters, and their first layers.
    models: Vec<(Arc<Model>, Arc<Model>)>,
}

impl SelfSpeculativeDrafter {
    /// A draft by the first `layers` layers; at least one, and at most all but one. Drafting a
    /// token is expected to take `relative_cost` of a step of the target.
    ///
    /// # Errors
    /// If the model has no layer to leave out.
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

    /// The cache that borrows the first layers of a target's.
    fn cache(&mut self, target: &Arc<Cache>) -> Result<Arc<Cache>, CacheError> {
        if let Some((of, borrowed)) = &self.cache
            && Arc::ptr_eq(of, target)
        {
            return Ok(Arc::clone(borrowed));
        }
        let layers: Vec<usize> = (0..self.layers).collect();
        let borrowed = Cache::borrowing(target, &layers)?;
        self.cache = Some((Arc::clone(target), Arc::clone(&borrowed)));
        Ok(borrowed)
    }

    /// The first layers of a target.
    fn first_layers(&mut self, target: &Arc<Model>) -> Arc<Model> {
        if let Some((_, first)) = self.models.iter().find(|(of, _)| Arc::ptr_eq(of, target)) {
            return Arc::clone(first);
        }
        let first = Arc::new(target.first_layers(self.layers));
        self.models.push((Arc::clone(target), Arc::clone(&first)));
        first
    }
}

impl Drafter for SelfSpeculativeDrafter {
    fn propose(&mut self, requests: &mut [DraftRequest], on_layer: &mut OnLayer) -> Result<DraftTime, SessionError> {
        // Adapters that no answer uses any more are dropped.
        let is_used = |of: &Arc<Model>| requests.iter().any(|request| Arc::ptr_eq(of, request.target.model()));
        self.models.retain(|(of, _)| is_used(of));
        // Forks of the targets' sequences: they read the same cells, and write to copies of the
        // last pages. Dropping them gives those pages back.
        let mut forks: Vec<(usize, Sequence, Arc<Model>)> = Vec::with_capacity(requests.len());
        for (at, request) in requests.iter_mut().enumerate() {
            if request.declines() {
                continue;
            }
            if request.ids.len() != request.target.tokens().len() + 1 {
                continue;
            }
            let cache = self.cache(request.target.cache())?;
            let fork = request.target.sequence.borrowed_by(&cache)?;
            forks.push((at, fork, self.first_layers(request.target.model())));
        }
        let mut forks = forks.iter_mut().peekable();
        let mut lines = Vec::new();
        for (at, request) in requests.iter_mut().enumerate() {
            let Some((_, sequence, model)) = forks.next_if(|(of, ..)| *of == at) else {
                continue;
            };
            lines.push(Line {
                next: request.ids[request.ids.len() - 1..].to_vec(),
                sampler: request.sampler.map(Sampler::fork),
                request,
                sequence,
                model,
                map: None,
                reached: 1.0,
                expected: 0.0,
            });
        }
        rounds::draft(lines, on_layer)
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

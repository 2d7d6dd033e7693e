//! Speculative decoding: a draft proposes tokens, and one step of the model verifies them all
//! (Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding",
//! 2023, <https://arxiv.org/abs/2211.17192>).
//!
//! A proposed token is accepted if the sampler draws it from the target's logits, as it would have
//! without a draft: same random number, same filters, same penalties. So an answer does not depend
//! on its draft, nor on the lengths of drafts, which follow measured times. A draft draws from its
//! own logits with the same numbers, so that similar distributions mostly give equal tokens
//! (Daliri, Musco and Suresh, "Coupling without Communication and Drafter-Invariant Speculative
//! Decoding", 2024, <https://arxiv.org/abs/2408.07978>).
//!
//! A later kind of draft (prediction layers, an assistant) implements [`Drafter`].

mod acceptance;
mod costs;
mod length;
mod model;
mod ngram;
mod rounds;
mod self_speculative;
#[cfg(test)]
mod tests;
mod token_map;

pub use acceptance::{Acceptance, BUCKETS};
pub use costs::StepCosts;
pub use length::Budget;
pub use model::ModelDrafter;
pub use ngram::NgramDrafter;
pub use rounds::DraftTime;
pub use self_speculative::SelfSpeculativeDrafter;
pub use token_map::TokenMap;

use crate::error::SessionError;
use crate::sample::Sampler;
use crate::session::Session;
use std::ops::ControlFlow;

/// Called before a layer with its number; breaks to cancel.
pub type OnLayer<'a> = dyn FnMut(usize) -> ControlFlow<()> + 'a;

/// Most tokens of a draft.
pub const MAX_DRAFTED: usize = 32;

/// Proposes tokens that may follow sequences.
pub trait Drafter: Send {
    /// Proposes tokens for each request, in [`DraftRequest::drafted`]; none if it has nothing to
    /// propose, or its budget says that it would not pay.
    ///
    /// # Errors
    /// If a GPU failed. A draft that runs out of room or context proposes nothing instead.
    ///
    /// `on_layer` is called before each layer of a draft's model; if it breaks, what was drafted so
    /// far is proposed.
    fn propose(&mut self, requests: &mut [DraftRequest], on_layer: &mut OnLayer) -> Result<DraftTime, SessionError>;

    /// The answer `id` has ended, so that its state can be dropped or reused.
    fn end(&mut self, id: u64);

    /// Drops all state.
    fn clear(&mut self);

    /// The expected share of accepted tokens in each bucket, before anything was measured.
    fn priors(&self) -> [f64; BUCKETS];

    /// The expected time of drafting a token, as a share of a step of the target with one row.
    fn relative_cost(&self) -> f64;
}

/// A sequence that could use a draft.
pub struct DraftRequest<'a> {
    /// Id of the answer; its tokens only grow between calls.
    pub id: u64,
    /// All tokens; the last one is not in the cache yet.
    pub ids: &'a [u32],
    /// The target's session, which has all tokens but the last.
    pub target: &'a Session,
    /// The answer's sampler, a fork of which draws for a draft. `None` means greedy.
    pub sampler: Option<&'a Sampler>,
    /// Chooses the draft length.
    pub budget: Budget<'a>,
    /// The proposed tokens.
    pub drafted: Vec<Drafted>,
    /// The bucket of tokens that were there but would not have paid. `None` means that some were
    /// proposed, or that there was nothing to propose.
    pub declined: Option<usize>,
    /// The bucket of a token that was computed, but would not have paid.
    pub unpaid: Option<usize>,
}

impl DraftRequest<'_> {
    /// Declines the draft of a model if no length pays at the acceptance of all tokens; returns
    /// whether it does.
    fn declines(&mut self) -> bool {
        let budget = self.budget;
        let declines = budget.length(Acceptance::ALL, budget.costs.draft()) == 0;
        if declines {
            self.declined = (budget.most > 0).then_some(Acceptance::ALL);
        }
        declines
    }
}

/// A proposed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drafted {
    /// The token, in the target's vocabulary.
    pub token: u32,
    /// The draft's confidence: an index below [`BUCKETS`].
    pub bucket: usize,
}

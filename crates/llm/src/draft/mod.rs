//! Speculative decoding: a draft proposes tokens, and one step of the target model verifies them
//! all (Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding",
//! 2023, <https://arxiv.org/abs/2211.17192>).
//!
//! A proposed token is accepted if the sampler draws it from the target's logits with the random
//! number, filters and penalties that it uses without a draft. So an answer depends neither on its
//! draft nor on the draft's length, which follows measured times. A draft draws from its own logits
//! with the same random numbers, so that similar distributions mostly give equal tokens (Daliri,
//! Musco and Suresh, "Coupling without Communication and Drafter-Invariant Speculative Decoding",
//! 2024, <https://arxiv.org/abs/2408.07978>).
//!
//! Further kinds of drafts, such as layers for multi-token prediction, can implement [`Drafter`].

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
pub use length::LengthPolicy;
pub use model::ModelDrafter;
pub use ngram::NgramDrafter;
pub use rounds::DraftTime;
pub use self_speculative::SelfSpeculativeDrafter;
pub use token_map::TokenMap;

use crate::cache::CacheSize;
use crate::error::SessionError;
use crate::sample::Sampler;
use crate::session::Session;
use std::ops::ControlFlow;

/// Called before a layer with its index; breaks to cancel.
pub type OnLayer<'a> = dyn FnMut(usize) -> ControlFlow<()> + 'a;

/// Maximum tokens of a draft.
pub const MAX_DRAFTED: usize = CacheSize::MAX_DRAFTED;

/// A source of drafts.
pub trait Drafter: Send {
    /// Proposes tokens for each request in [`DraftRequest::drafted`]: none if there is nothing to
    /// propose, or if no token pays by the request's length policy.
    ///
    /// `on_layer` is called before each layer of a draft model. If it breaks, the tokens drafted so
    /// far are proposed.
    ///
    /// # Errors
    /// If a GPU failed. A draft that does not fit its cache or context proposes nothing instead.
    fn propose(&mut self, requests: &mut [DraftRequest], on_layer: &mut OnLayer) -> Result<DraftTime, SessionError>;

    /// Ends the answer `id`: its state can be dropped or reused.
    fn end(&mut self, id: u64);

    /// Drops all state.
    fn clear(&mut self);

    /// The expected acceptance rate of each bucket before measurements.
    fn priors(&self) -> [f64; BUCKETS];

    /// The expected time of drafting a token, as a fraction of a step of the target with one row.
    fn relative_cost(&self) -> f64;
}

/// A request for a draft of one answer.
pub struct DraftRequest<'a> {
    /// Id of the answer. Between calls, tokens are only appended to it.
    pub id: u64,
    /// All tokens of the prompt and the answer. The last one is not in the target's cache yet.
    pub ids: &'a [u32],
    /// The target's session, which has all tokens but the last.
    pub target: &'a Session,
    /// The answer's sampler, of which a fork draws the draft's tokens. `None` means greedy.
    pub sampler: Option<&'a Sampler>,
    /// Chooses the draft length.
    pub length_policy: LengthPolicy<'a>,
    /// The proposed tokens.
    pub drafted: Vec<Drafted>,
    /// The bucket of a possible draft that was declined because it does not pay. `None` means that
    /// tokens were proposed, or that there was nothing to propose.
    pub declined: Option<usize>,
    /// The bucket of a token that was computed but not proposed, because it does not pay.
    pub unpaid: Option<usize>,
}

impl DraftRequest<'_> {
    /// Declines the draft of a model if no length pays at the overall acceptance rate. Returns
    /// whether it was declined.
    fn decline_if_unpaid(&mut self) -> bool {
        let policy = self.length_policy;
        let is_declined = policy.length(Acceptance::ALL, policy.costs.draft()) == 0;
        if is_declined {
            self.declined = (policy.max_tokens > 0).then_some(Acceptance::ALL);
        }
        is_declined
    }
}

/// A proposed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drafted {
    /// The token, in the target's vocabulary.
    pub token: u32,
    /// The bucket of the draft's confidence, below [`BUCKETS`].
    pub bucket: usize,
}

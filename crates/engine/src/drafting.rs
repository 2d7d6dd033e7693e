//! The draft of a loaded model, and its state and statistics in an answer.

use crate::numbers::saturating_u32;
use hearth_llm::draft::{Acceptance, Drafted, Drafter, StepCosts};
use hearth_protocol::{DraftKind, DraftStats};

/// The draft of a model, and the measured times of its steps.
pub(crate) struct Drafting {
    kind: DraftKind,
    pub drafter: Box<dyn Drafter>,
    pub costs: StepCosts,
    /// Tokens to draft, at any cost. `None` means the number that is predicted to be fastest.
    pub tokens: Option<usize>,
}

impl Drafting {
    pub fn new(kind: DraftKind, drafter: Box<dyn Drafter>, tokens: Option<usize>) -> Self {
        Self {
            tokens,
            kind,
            costs: StepCosts::new(drafter.relative_cost()),
            drafter,
        }
    }

    pub fn kind(&self) -> DraftKind {
        self.kind
    }

    /// Drops the draft's state of an answer.
    pub fn end(&mut self, number: u64) {
        self.drafter.end(number);
    }

    /// Drops the draft's state of all answers.
    pub fn clear(&mut self) {
        self.drafter.clear();
    }
}

/// State and statistics of the draft of an answer.
#[derive(Debug)]
pub(crate) struct AnswerDraft {
    kind: DraftKind,
    pub acceptance: Acceptance,
    pub drafted: usize,
    accepted: usize,
    /// Number of decode steps.
    pub steps: usize,
    /// Number of decode steps that verified a draft.
    pub drafted_steps: usize,
    /// Measured seconds of decode steps and their drafts.
    pub seconds: f64,
    /// Estimated seconds of plain decode of the same tokens.
    pub plain_seconds: f64,
    /// Whether the last draft was declined because it would not have saved time.
    is_stopped: bool,
}

impl AnswerDraft {
    /// The state before the first step.
    pub fn new(drafting: &Drafting) -> Self {
        Self {
            kind: drafting.kind,
            acceptance: Acceptance::new(drafting.drafter.priors()),
            drafted: 0,
            accepted: 0,
            steps: 0,
            drafted_steps: 0,
            seconds: 0.0,
            plain_seconds: 0.0,
            is_stopped: false,
        }
    }

    /// The statistics of an answer that has ended.
    pub fn stats(&self) -> DraftStats {
        let gain = if self.seconds > 0.0 {
            self.plain_seconds / self.seconds
        } else {
            1.0
        };
        DraftStats {
            kind: self.kind,
            drafted: saturating_u32(self.drafted),
            accepted: saturating_u32(self.accepted),
            gain,
            used: self.drafted_steps as f64 / self.steps.max(1) as f64,
            stopped: self.is_stopped && gain < 1.0,
        }
    }

    /// Records what the draft proposed for a step.
    pub fn record_proposal(&mut self, proposal: &Proposal) {
        if let Some(bucket) = proposal.declined.or(proposal.unpaid) {
            self.acceptance.record_declined(bucket);
        }
        if proposal.unpaid.is_some() {
            // Its computation took time, but no token was proposed.
            self.acceptance.record(Acceptance::ALL, false);
        }
        let is_empty = proposal.drafted.is_empty();
        let was_declined = is_empty && (proposal.declined.is_some() || proposal.unpaid.is_some());
        self.is_stopped = was_declined || (self.is_stopped && is_empty);
    }

    /// Records a verified token.
    pub fn record(&mut self, drafted: Drafted, accepted: bool, plain_seconds: f64) {
        self.acceptance.record(drafted.bucket, accepted);
        if accepted {
            self.accepted += 1;
            self.plain_seconds += plain_seconds;
        }
    }
}

/// The draft that was proposed for an answer, with the fields of
/// [`DraftRequest`](hearth_llm::draft::DraftRequest).
pub(crate) struct Proposal {
    pub drafted: Vec<Drafted>,
    pub declined: Option<usize>,
    pub unpaid: Option<usize>,
}

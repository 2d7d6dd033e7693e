//! Drafts in the scheduler: proposed before a step, verified by it.

use super::step::Part;
use super::{Listener, Running, Scheduler};
use crate::answer::{Answer, Next};
use crate::engine::Texts;
use crate::numbers::saturating_u32;
use crate::problem::{from_session, internal};
use hearth_llm::draft::{Acceptance, Budget, DraftRequest, Drafted, Drafter, MAX_DRAFTED, StepCosts};
use hearth_llm::{Output, Session};
use hearth_protocol::{DraftKind, DraftStats, Event, FinishReason, Problem};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The draft of a model, and the measured times of its steps.
pub(crate) struct Drafting {
    kind: DraftKind,
    drafter: Box<dyn Drafter>,
    costs: StepCosts,
    /// Tokens to draft, whatever they cost. `None` means as many as pay.
    tokens: Option<usize>,
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

    /// Ends an answer.
    pub fn end(&mut self, number: u64) {
        self.drafter.end(number);
    }

    pub fn clear(&mut self) {
        self.drafter.clear();
    }
}

/// State and statistics of the draft of an answer.
#[derive(Debug)]
pub(crate) struct AnswerDraft {
    kind: DraftKind,
    acceptance: Acceptance,
    drafted: usize,
    accepted: usize,
    /// Number of decode steps.
    steps: usize,
    /// Number of decode steps that verified a draft.
    drafted_steps: usize,
    /// Measured time of decode steps and their drafts, in seconds.
    took: f64,
    /// Estimated time of plain decoding, in seconds.
    plain: f64,
    /// Whether the last draft was declined because it would not have paid.
    is_stopped: bool,
}

impl AnswerDraft {
    fn new(drafting: &Drafting) -> Self {
        Self {
            kind: drafting.kind,
            acceptance: Acceptance::new(drafting.drafter.priors()),
            drafted: 0,
            accepted: 0,
            steps: 0,
            drafted_steps: 0,
            took: 0.0,
            plain: 0.0,
            is_stopped: false,
        }
    }

    /// The figures of an answer that has ended.
    pub fn stats(&self) -> DraftStats {
        let gain = if self.took > 0.0 { self.plain / self.took } else { 1.0 };
        DraftStats {
            kind: self.kind,
            drafted: saturating_u32(self.drafted),
            accepted: saturating_u32(self.accepted),
            gain,
            used: self.drafted_steps as f64 / self.steps.max(1) as f64,
            stopped: self.is_stopped && gain < 1.0,
        }
    }
}

impl Scheduler {
    /// Adds drafts to the parts of answers that are being generated. Returns the time that it took.
    ///
    /// # Errors
    /// A GPU failed.
    pub(super) fn draft(&mut self, parts: &mut [Part], listener: &dyn Listener) -> Result<Duration, Problem> {
        let began = Instant::now();
        let Self { running, drafting, .. } = self;
        let Some(Drafting {
            drafter, costs, tokens, ..
        }) = drafting
        else {
            return Ok(Duration::ZERO);
        };
        let rows = parts.iter().filter(|part| part.tokens.len() == 1).count();
        let mut requests: Vec<DraftRequest> = Vec::with_capacity(rows);
        let mut of_parts: Vec<&mut Part> = Vec::with_capacity(rows);
        for part in parts {
            let Running {
                number,
                answer,
                session,
                ..
            } = &running[part.at];
            let most = most_drafted(answer, part);
            // The time without a draft is measured first.
            let may_draft = most > 0 && (tokens.is_some() || costs.is_known(rows));
            if let Some(draft) = answer.draft.as_ref().filter(|_| may_draft) {
                requests.push(DraftRequest {
                    id: *number,
                    ids: &answer.ids,
                    target: session,
                    sampler: (!answer.is_greedy).then(|| answer.sampler()),
                    budget: Budget {
                        acceptance: &draft.acceptance,
                        costs,
                        rows,
                        most: tokens.map_or(most, |tokens| tokens.min(most)),
                        is_forced: tokens.is_some(),
                    },
                    drafted: Vec::new(),
                    declined: None,
                    unpaid: None,
                });
                of_parts.push(part);
            }
        }
        if requests.is_empty() {
            return Ok(Duration::ZERO);
        }
        // A cancelled answer ends at the beginning of the next step.
        let mut on_layer = |_| {
            if running.iter().any(|running| listener.is_cancelled(running.id)) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let time = drafter.propose(&mut requests, &mut on_layer).map_err(from_session)?;
        let proposed = requests
            .into_iter()
            .map(|request| (request.drafted, request.declined, request.unpaid));
        let proposed: Vec<_> = proposed.collect();
        let is_declined = proposed.iter().all(|(drafted, ..)| drafted.is_empty());
        if is_declined && time.tokens == 0 && proposed.iter().any(|(_, declined, _)| declined.is_some()) {
            costs.record_declined();
        }
        costs.record_draft(time.tokens, time.took.as_secs_f64());
        // The times of larger steps are unknown, and their logits take much memory.
        let mut rows_left = StepCosts::MAX_ROWS.saturating_sub(rows);
        for (part, (drafted, declined, unpaid)) in of_parts.into_iter().zip(proposed) {
            if let Some(draft) = &mut running[part.at].answer.draft {
                draft.note_proposal(&drafted, declined, unpaid);
            }
            part.draft = drafted;
            part.draft.truncate(rows_left);
            rows_left -= part.draft.len();
        }
        Ok(began.elapsed())
    }

    /// Records the times of a step for the lengths of later drafts, and for the figures of answers.
    /// Returns the seconds that a plain step takes; 0 if the step also read a prompt.
    pub(super) fn record_times(&mut self, parts: &[Part], step: Duration, drafting: Duration) -> f64 {
        let Some(Drafting { costs, .. }) = &mut self.drafting else {
            return 0.0;
        };
        if parts.iter().any(|part| part.tokens.len() > 1) {
            return 0.0;
        }
        let drafted: usize = parts.iter().map(|part| part.draft.len()).sum();
        costs.record(parts.len() + drafted, step.as_secs_f64());
        let plain = costs.step(parts.len());
        for part in parts {
            if let Some(draft) = &mut self.running[part.at].answer.draft {
                draft.steps += 1;
                draft.drafted_steps += usize::from(!part.draft.is_empty());
                draft.took += (step + drafting).as_secs_f64();
                // For the token that is not drafted; accepted ones add theirs.
                draft.plain += plain;
            }
        }
        plain
    }

    /// Gives an answer what it needs for drafts, if there are any.
    pub(super) fn prepare_draft(&self, answer: &mut Answer) {
        answer.draft = self.drafting.as_ref().map(AnswerDraft::new);
    }
}

/// Most tokens that can be drafted for an answer in a step: they, and the token that follows them,
/// must fit its limit and the context.
fn most_drafted(answer: &Answer, part: &Part) -> usize {
    let is_decoding = part.tokens.len() == 1 && part.tokens.end == answer.ids.len();
    if is_decoding && answer.ids.len() > answer.prompt() {
        MAX_DRAFTED.min(answer.most_further().saturating_sub(1))
    } else {
        0
    }
}

impl AnswerDraft {
    fn note_proposal(&mut self, drafted: &[Drafted], declined: Option<usize>, unpaid: Option<usize>) {
        if let Some(bucket) = declined.or(unpaid) {
            self.acceptance.record_declined(bucket);
        }
        if unpaid.is_some() {
            // It took time and gave nothing.
            self.acceptance.record(Acceptance::ALL, false);
        }
        let gave_nothing = drafted.is_empty() && (declined.is_some() || unpaid.is_some());
        self.is_stopped = gave_nothing || (self.is_stopped && drafted.is_empty());
    }

    /// Records a verified token.
    fn record(&mut self, drafted: Drafted, accepted: bool, plain: f64) {
        self.acceptance.record(drafted.bucket, accepted);
        if accepted {
            self.accepted += 1;
            self.plain += plain;
        }
    }
}

/// Adds the tokens that a step gave to an answer: the drafted ones as far as the answer's own
/// sampler chooses them too, and the one after them. Takes the cells of the others back. Returns
/// the reason if the answer has ended.
///
/// # Errors
/// No logit is finite, or the step gave something else.
pub(super) fn verify(
    texts: &Texts,
    running: &mut Running,
    part: &Part,
    output: &Output,
    plain: f64,
    emit: &mut dyn FnMut(Event),
) -> Result<Option<FinishReason>, Problem> {
    let Running { answer, session, .. } = running;
    if let Some(draft) = &mut answer.draft {
        draft.drafted += part.draft.len();
    }
    let (mut accepted, mut end) = (0, None);
    for row in 0..=part.draft.len() {
        let before = answer.ids.len();
        end = answer.advance(texts, output_of(output, row, session)?, emit)?;
        let Some(&drafted) = part.draft.get(row) else { break };
        let is_accepted = answer.ids.get(before) == Some(&drafted.token);
        if let Some(draft) = &mut answer.draft {
            draft.record(drafted, is_accepted, plain);
        }
        if !is_accepted {
            break;
        }
        accepted += 1;
        if end.is_some() {
            break;
        }
    }
    session.truncate(part.tokens.end + accepted);
    Ok(end)
}

/// The output of a row of an answer.
fn output_of<'a>(output: &'a Output, row: usize, session: &Session) -> Result<Next<'a>, Problem> {
    let vocab = session.model().config().vocab;
    match output {
        Output::Logits(logits) => logits.get(row * vocab..(row + 1) * vocab).map(Next::Logits),
        Output::Argmax(chosen) => chosen.get(row).map(|id| Next::Argmax(*id)),
        Output::Nothing | Output::Hidden(_) => None,
    }
    .ok_or_else(|| internal("a step returned too little"))
}

//! Drafts in the scheduler: proposed before a step, and verified by it.

use super::step::Part;
use super::{Listener, RunningAnswer, Scheduler};
use crate::answer::{Answer, Next};
use crate::drafting::{AnswerDraft, Drafting, Proposal};
use crate::problem::{from_session, internal};
use crate::texts::Texts;
use hearth_llm::draft::{DraftRequest, LengthPolicy, MAX_DRAFTED, StepCosts};
use hearth_llm::{Output, Session};
use hearth_protocol::{Event, FinishReason, Problem};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

impl Scheduler {
    /// Adds drafts to the parts of answers that are being generated. Returns the elapsed time.
    ///
    /// # Errors
    /// A GPU failed.
    pub(super) fn draft(&mut self, parts: &mut [Part], listener: &dyn Listener) -> Result<Duration, Problem> {
        let start = Instant::now();
        let Self { running, drafting, .. } = self;
        let Some(Drafting {
            drafter, costs, tokens, ..
        }) = drafting
        else {
            return Ok(Duration::ZERO);
        };
        let rows = parts.iter().filter(|part| part.tokens.len() == 1).count();
        let mut requests: Vec<DraftRequest> = Vec::with_capacity(rows);
        let mut drafting_parts: Vec<&mut Part> = Vec::with_capacity(rows);
        for part in parts {
            let RunningAnswer {
                number,
                answer,
                session,
                ..
            } = &running[part.index];
            let max_draft = max_draft(answer, part);
            // The time of a step without a draft is measured first.
            let may_draft = max_draft > 0 && (tokens.is_some() || costs.is_known(rows));
            if let Some(draft) = answer.draft.as_ref().filter(|_| may_draft) {
                requests.push(DraftRequest {
                    id: *number,
                    ids: &answer.ids,
                    target: session,
                    sampler: (!answer.is_greedy).then(|| answer.sampler()),
                    length_policy: LengthPolicy {
                        acceptance: &draft.acceptance,
                        costs,
                        rows,
                        max_tokens: tokens.map_or(max_draft, |tokens| tokens.min(max_draft)),
                        is_forced: tokens.is_some(),
                    },
                    drafted: Vec::new(),
                    declined: None,
                    unpaid: None,
                });
                drafting_parts.push(part);
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
        let proposals = requests.into_iter().map(|request| Proposal {
            drafted: request.drafted,
            declined: request.declined,
            unpaid: request.unpaid,
        });
        let proposals: Vec<Proposal> = proposals.collect();
        let is_declined = proposals.iter().all(|proposal| proposal.drafted.is_empty());
        if is_declined && time.tokens == 0 && proposals.iter().any(|proposal| proposal.declined.is_some()) {
            costs.record_declined();
        }
        costs.record_draft(time.tokens, time.took.as_secs_f64());
        // The times of larger steps are unknown, and their logits need much memory.
        let mut rows_left = StepCosts::MAX_ROWS.saturating_sub(rows);
        for (part, proposal) in drafting_parts.into_iter().zip(proposals) {
            if let Some(draft) = &mut running[part.index].answer.draft {
                draft.record_proposal(&proposal);
            }
            part.draft = proposal.drafted;
            part.draft.truncate(rows_left);
            rows_left -= part.draft.len();
        }
        Ok(start.elapsed())
    }

    /// Records the times of a step, for the lengths of later drafts and for the statistics of
    /// answers. Returns the estimated seconds of a step without drafts. 0 if the step also read a
    /// prompt.
    pub(super) fn record_times(&mut self, parts: &[Part], step: Duration, drafting: Duration) -> f64 {
        let Some(Drafting { costs, .. }) = &mut self.drafting else {
            return 0.0;
        };
        if parts.iter().any(|part| part.tokens.len() > 1) {
            return 0.0;
        }
        let drafted: usize = parts.iter().map(|part| part.draft.len()).sum();
        costs.record(parts.len() + drafted, step.as_secs_f64());
        let plain_seconds = costs.step(parts.len());
        for part in parts {
            if let Some(draft) = &mut self.running[part.index].answer.draft {
                draft.steps += 1;
                draft.drafted_steps += usize::from(!part.draft.is_empty());
                draft.seconds += (step + drafting).as_secs_f64();
                // For the token that is not drafted. `verify` adds the time of accepted tokens.
                draft.plain_seconds += plain_seconds;
            }
        }
        plain_seconds
    }

    /// Adds the state for drafts to an answer, if the model has a draft.
    pub(super) fn prepare_draft(&self, answer: &mut Answer) {
        answer.draft = self.drafting.as_ref().map(AnswerDraft::new);
    }
}

/// Maximum number of tokens to draft for an answer in a step: these tokens and the one after them
/// must be within the answer's limit and the context.
fn max_draft(answer: &Answer, part: &Part) -> usize {
    let is_decoding = part.tokens.len() == 1 && part.tokens.end == answer.ids.len();
    if is_decoding && answer.ids.len() > answer.prompt() {
        MAX_DRAFTED.min(answer.max_more_tokens().saturating_sub(1))
    } else {
        0
    }
}

/// Verifies a draft: adds the drafted tokens to the answer as far as its sampler chooses them, too,
/// and the sampled token after them. Frees the cells of rejected tokens. Returns the reason if the
/// answer has ended.
///
/// # Errors
/// No logit is finite, or the step has too few outputs.
pub(super) fn verify(
    texts: &Texts,
    running: &mut RunningAnswer,
    part: &Part,
    output: &Output,
    plain_seconds: f64,
    emit: &mut dyn FnMut(Event),
) -> Result<Option<FinishReason>, Problem> {
    let RunningAnswer { answer, session, .. } = running;
    if let Some(draft) = &mut answer.draft {
        draft.drafted += part.draft.len();
    }
    let (mut accepted, mut end) = (0, None);
    for row in 0..=part.draft.len() {
        let position = answer.ids.len();
        end = answer.advance(texts, output_of(output, row, session)?, emit)?;
        let Some(&drafted) = part.draft.get(row) else { break };
        let is_accepted = answer.ids.get(position) == Some(&drafted.token);
        if let Some(draft) = &mut answer.draft {
            draft.record(drafted, is_accepted, plain_seconds);
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
        Output::Argmax(ids) => ids.get(row).map(|id| Next::Argmax(*id)),
        Output::Nothing | Output::Hidden(_) => None,
    }
    .ok_or_else(|| internal("a step returned too little"))
}

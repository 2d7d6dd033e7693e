//! Pending plan requests. The worker gets one at a time, and a newer request for the same model
//! replaces an older one, so that a moving slider never lags.

use crate::wire::{Code, Plan, Problem};
use hearth_protocol::{GenerationId, PlanRequest};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// The reply to a plan request.
pub(crate) type Reply = oneshot::Sender<Result<Plan, Problem>>;

/// The pending plan requests.
#[derive(Default)]
pub(super) struct Plans {
    /// Requests not sent yet, oldest first; one per model.
    waiting: VecDeque<(PlanRequest, Reply)>,
    /// The request sent to the worker.
    sent: Option<(GenerationId, PlanRequest, Reply)>,
}

impl Plans {
    /// Adds a request. An unsent one for the same model fails with [`Code::Superseded`].
    pub(super) fn request(&mut self, request: PlanRequest, reply: Reply) {
        match self.waiting.iter_mut().find(|(older, _)| older.path == request.path) {
            Some(waiting) => {
                let (_, older) = std::mem::replace(waiting, (request, reply));
                // Here and below, the receiver may have been dropped.
                let _ = older.send(Err(Problem {
                    code: Code::Superseded,
                    message: "A newer plan replaced this one.".to_owned(),
                }));
            }
            None => self.waiting.push_back((request, reply)),
        }
    }

    /// Whether any request is pending.
    pub(super) fn is_pending(&self) -> bool {
        self.sent.is_some() || !self.waiting.is_empty()
    }

    /// The next request to send. `None` means that there is none, or that the last one is not
    /// complete.
    pub(super) fn next(&mut self, id: GenerationId) -> Option<PlanRequest> {
        if self.sent.is_some() {
            return None;
        }
        let (request, reply) = self.waiting.pop_front()?;
        self.sent = Some((id, request.clone(), reply));
        Some(request)
    }

    /// Completes the request that was sent with this id.
    pub(super) fn complete(&mut self, id: GenerationId, answer: Result<Plan, Problem>) {
        if let Some((_, _, reply)) = self.sent.take_if(|(sent, ..)| *sent == id) {
            let _ = reply.send(answer);
        }
    }

    /// Marks the sent request as unsent, for a new worker.
    pub(super) fn resend(&mut self) {
        if let Some((_, request, reply)) = self.sent.take() {
            self.waiting.push_front((request, reply));
        }
    }

    /// Fails all requests.
    pub(super) fn fail(&mut self, problem: &Problem) {
        self.resend();
        for (_, reply) in self.waiting.drain(..) {
            let _ = reply.send(Err(problem.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Plans};
    use hearth_protocol::PlanRequest;
    use tokio::sync::oneshot;

    fn plan_request(path: &str, context: u32) -> PlanRequest {
        PlanRequest {
            path: path.into(),
            context: Some(context),
            ..PlanRequest::default()
        }
    }

    #[test]
    fn the_newest_request_of_a_model_is_sent_once_the_worker_is_free() {
        let mut plans = Plans::default();
        let request = |plans: &mut Plans, path, context| {
            let (reply, answer) = oneshot::channel();
            plans.request(plan_request(path, context), reply);
            answer
        };
        let _first = request(&mut plans, "a", 1);
        assert_eq!(plans.next(7), Some(plan_request("a", 1)));
        let mut older = request(&mut plans, "a", 2);
        let mut other = request(&mut plans, "b", 3);
        let _newest = request(&mut plans, "a", 4);
        assert_eq!(plans.next(8), None, "one at a time");
        let superseded = older.try_recv().expect("an answer").expect_err("no plan");
        assert_eq!(superseded.code, Code::Superseded);
        assert!(other.try_recv().is_err(), "another model's request is pending");
        // A new worker gets the same request.
        plans.resend();
        assert_eq!(plans.next(9), Some(plan_request("a", 1)));
        plans.complete(7, Err(superseded.clone()));
        assert_eq!(plans.next(10), None, "that was the response to an older request");
        plans.complete(9, Err(superseded));
        assert_eq!(plans.next(10), Some(plan_request("a", 4)));
    }
}

//! Plans that were asked for: the worker is asked for one at a time, and a newer wish for the same model takes the place of
//! an older one, so that a slider which moves is never behind.

use crate::wire::{Code, Plan, Problem};
use hearth_protocol::{GenerationId, PlanRequest};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// Who waits for a plan.
pub(crate) type Reply = oneshot::Sender<Result<Plan, Problem>>;

/// Plans that were asked for.
#[derive(Default)]
pub(super) struct Plans {
    /// What the worker was not asked yet, oldest first; one a model.
    waiting: VecDeque<(PlanRequest, Reply)>,
    /// What the worker was asked.
    asked: Option<(GenerationId, PlanRequest, Reply)>,
}

impl Plans {
    /// Takes a wish on. An older one for the same model that the worker was not asked yet ends here.
    pub(super) fn want(&mut self, request: PlanRequest, reply: Reply) {
        match self.waiting.iter_mut().find(|(older, _)| older.path == request.path) {
            Some(place) => {
                let (_, older) = std::mem::replace(place, (request, reply));
                // Whoever asked may have gone; here and below.
                let _ = older.send(Err(Problem {
                    code: Code::Superseded,
                    message: "A newer plan took this one's place.".to_owned(),
                }));
            }
            None => self.waiting.push_back((request, reply)),
        }
    }

    /// Whether a worker is needed.
    pub(super) fn wanted(&self) -> bool {
        self.asked.is_some() || !self.waiting.is_empty()
    }

    /// What to ask the worker next, if it may be asked.
    pub(super) fn next(&mut self, id: GenerationId) -> Option<PlanRequest> {
        if self.asked.is_some() {
            return None;
        }
        let (request, reply) = self.waiting.pop_front()?;
        self.asked = Some((id, request.clone(), reply));
        Some(request)
    }

    /// The worker has answered.
    pub(super) fn answered(&mut self, id: GenerationId, answer: Result<Plan, Problem>) {
        if let Some((_, _, reply)) = self.asked.take_if(|(asked, ..)| *asked == id) {
            let _ = reply.send(answer);
        }
    }

    /// The worker is let go: another one is asked again.
    pub(super) fn ask_again(&mut self) {
        if let Some((_, request, reply)) = self.asked.take() {
            self.waiting.push_front((request, reply));
        }
    }

    /// Nobody will answer.
    pub(super) fn fail(&mut self, problem: &Problem) {
        self.ask_again();
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

    fn wish(path: &str, context: u32) -> PlanRequest {
        PlanRequest {
            path: path.into(),
            context: Some(context),
            ..PlanRequest::default()
        }
    }

    #[test]
    fn the_newest_wish_of_a_model_is_asked_once_the_worker_is_free() {
        let mut plans = Plans::default();
        let want = |plans: &mut Plans, path, context| {
            let (reply, answer) = oneshot::channel();
            plans.want(wish(path, context), reply);
            answer
        };
        let _first = want(&mut plans, "a", 1);
        assert_eq!(plans.next(7), Some(wish("a", 1)));
        let mut older = want(&mut plans, "a", 2);
        let mut other = want(&mut plans, "b", 3);
        let _newest = want(&mut plans, "a", 4);
        assert_eq!(plans.next(8), None, "one at a time");
        let superseded = older.try_recv().expect("an answer").expect_err("no plan");
        assert_eq!(superseded.code, Code::Superseded);
        assert!(other.try_recv().is_err(), "another model's wish waits");
        // Its worker is let go: another one is asked the same.
        plans.ask_again();
        assert_eq!(plans.next(9), Some(wish("a", 1)));
        plans.answered(7, Err(superseded.clone()));
        assert_eq!(plans.next(10), None, "that was the answer to an older question");
        plans.answered(9, Err(superseded));
        assert_eq!(plans.next(10), Some(wish("a", 4)));
    }
}

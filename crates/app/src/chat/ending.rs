//! How answers, loads and the worker end, other than well.

use super::{Chat, END_WITHIN, Loaded, answer, checking::Checks, measuring, plans::Plans};
use crate::wire::{Code, Event, MessageState, Problem};
use hearth_protocol::Request;

impl Chat {
    pub(super) async fn stop(&mut self, conversation: i64) {
        if self
            .current
            .as_ref()
            .is_some_and(|answer| answer.conversation() == conversation)
        {
            self.stop_current();
        }
        // Two of them where answers are compared.
        let (stopped, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|message| message.conversation == conversation);
        self.waiting = waiting.into();
        for mut message in stopped {
            message.state = MessageState::Stopped;
            answer::end(&self.shared, message).await;
        }
    }

    /// Tells the worker to stop; the answer ends when it has.
    pub(super) fn stop_current(&mut self) {
        if let (Some(answer), Some((worker, _))) = (&mut self.current, &self.worker) {
            answer.stopping();
            // A worker that is gone says so by itself.
            let _ = worker.send(Request::Cancel { id: answer.generation });
        }
    }

    pub(super) async fn end_deaf_worker(&mut self) {
        tracing::warn!("the worker does not stop and is ended");
        self.let_worker_go();
        if let Some(answer) = self.current.take() {
            answer.stop().await;
        }
        // What is wanted is loaded again by a new one.
        self.set(Loaded::Nothing);
    }

    pub(super) async fn worker_died(&mut self, mut problem: Problem) {
        problem.message += match problem.code {
            Code::OutOfMemory => {
                " Close other programs, or choose a shorter context or a smaller model; then send again."
            }
            _ => " Send again to restart it; if that happens again, choose a smaller model.",
        };
        self.end_measuring(&problem);
        self.let_worker_go();
        self.shared.emit(Event::WorkerDied {
            problem: problem.clone(),
        });
        for reply in self.devices_wanted.drain(..) {
            let _ = reply.send(Err(problem.clone()));
        }
        self.plans.fail(&problem);
        self.checks.fail(&problem);
        // The usual build decides anew.
        self.handed = None;
        if let Some(answer) = self.current.take() {
            answer.fail(problem.clone()).await;
        }
        if matches!(self.loaded, Loaded::Loading { .. }) {
            self.load_failed(problem).await;
        } else {
            // The model that was loaded is loaded again when it is needed; another that was asked for meanwhile, now.
            self.wanted = self.wanted.take_if(|wanted| !self.loaded.is(wanted));
            self.set(Loaded::Nothing);
        }
    }

    /// What waited for the model fails with it; the next message tries again.
    pub(super) async fn load_failed(&mut self, problem: Problem) {
        // A worker that lost its GPU loads by itself, and may fail at that.
        if let Loaded::Loading { target, .. } | Loaded::Ready { target, .. } = &self.loaded {
            let target = target.clone();
            if self.wanted.as_ref() == Some(&target) {
                self.wanted = None;
            }
            self.set(Loaded::Failed {
                target,
                problem: problem.clone(),
            });
        }
        if self.wanted.is_none() {
            self.fail_waiting(&problem).await;
        }
    }

    pub(super) async fn fail_waiting(&mut self, problem: &Problem) {
        for mut message in std::mem::take(&mut self.waiting) {
            message.state = MessageState::Failed {
                problem: problem.clone(),
            };
            answer::end(&self.shared, message).await;
        }
    }

    /// Ends the worker without waiting for it.
    pub(super) fn let_worker_go(&mut self) {
        self.devices_asked = false;
        self.plans.ask_again();
        self.checks.ask_again();
        self.end_measuring(&measuring::stopped());
        if let Some(starting) = self.starting.take() {
            starting.abort();
        }
        self.worker = None;
    }

    /// Ends every answer, keeping what was said.
    pub(super) async fn stop_all(&mut self) {
        if let Some(answer) = self.current.take() {
            answer.stop().await;
        }
        for mut message in std::mem::take(&mut self.waiting) {
            message.state = MessageState::Stopped;
            answer::end(&self.shared, message).await;
        }
    }

    pub(super) async fn end(&mut self) {
        self.stop_all().await;
        self.wanted = None;
        // Whoever asked hears that nobody answers.
        self.devices_wanted.clear();
        self.plans = Plans::default();
        self.checks = Checks::default();
        if let Some((worker, said)) = self.worker.take() {
            // Its last words are not wanted, and must not make it wait.
            drop(said);
            worker.shut_down(END_WITHIN).await;
        }
        self.let_worker_go();
        self.set(Loaded::Nothing);
    }
}

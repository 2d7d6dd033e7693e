//! Stopping and failing of answers, loads and the worker.

use super::{Chat, LoadState, WORKER_SHUTDOWN_TIMEOUT, answer, device_checks::DeviceChecks, measuring, plans::Plans};
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
        // A comparison has two answers.
        let (stopped, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|message| message.conversation == conversation);
        self.waiting = waiting.into();
        for mut message in stopped {
            message.state = MessageState::Stopped;
            answer::end(&self.shared, message).await;
        }
    }

    /// Cancels the current answer, which ends with the worker's event.
    pub(super) fn stop_current(&mut self) {
        if let (Some(answer), Some((worker, _))) = (&mut self.current, &self.worker) {
            answer.set_cancelled();
            // The exit of a worker is reported as a message.
            let _ = worker.send(Request::Cancel { id: answer.generation });
        }
    }

    pub(super) async fn end_unresponsive_worker(&mut self) {
        tracing::warn!("the worker does not cancel and is killed");
        self.drop_worker();
        if let Some(answer) = self.current.take() {
            answer.stop().await;
        }
        // A new worker loads the requested model.
        self.set(LoadState::Nothing);
    }

    pub(super) async fn worker_died(&mut self, mut problem: Problem) {
        problem.message += match problem.code {
            Code::OutOfMemory => {
                " Close other programs, or choose a shorter context or a smaller model, then send again."
            }
            _ => " Send again to restart it. If it happens again, choose a smaller model.",
        };
        self.end_measuring(&problem);
        self.drop_worker();
        self.shared.emit(Event::WorkerDied {
            problem: problem.clone(),
        });
        for reply in self.device_requests.drain(..) {
            let _ = reply.send(Err(problem.clone()));
        }
        self.plans.fail(&problem);
        self.checks.fail(&problem);
        // The default build decides again.
        self.switched_build = None;
        if let Some(answer) = self.current.take() {
            answer.fail(problem.clone()).await;
        }
        if matches!(self.loaded, LoadState::Loading { .. }) {
            self.load_failed(problem).await;
        } else {
            // The loaded model is reloaded on demand; another requested model is loaded now.
            self.requested = self.requested.take_if(|requested| !self.loaded.is(requested));
            self.set(LoadState::Nothing);
        }
    }

    /// Fails the answers that wait for the model; the next message retries the load.
    pub(super) async fn load_failed(&mut self, problem: Problem) {
        // A worker that lost its GPU reloads on its own, which may fail.
        if let LoadState::Loading { target, .. } | LoadState::Ready { target, .. } = &self.loaded {
            let target = target.clone();
            if self.requested.as_ref() == Some(&target) {
                self.requested = None;
            }
            self.set(LoadState::Failed {
                target,
                problem: problem.clone(),
            });
        }
        if self.requested.is_none() {
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

    /// Kills the worker without waiting for its exit.
    pub(super) fn drop_worker(&mut self) {
        self.are_devices_requested = false;
        self.plans.resend();
        self.checks.resend();
        self.end_measuring(&measuring::stopped());
        if let Some(starting) = self.starting.take() {
            starting.abort();
        }
        self.worker = None;
    }

    /// Stops every answer; their text up to now is saved.
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
        self.requested = None;
        // Dropping the senders fails the requests.
        self.device_requests.clear();
        self.plans = Plans::default();
        self.checks = DeviceChecks::default();
        if let Some((worker, messages)) = self.worker.take() {
            // A full channel must not block the worker's last messages.
            drop(messages);
            worker.shut_down(WORKER_SHUTDOWN_TIMEOUT).await;
        }
        self.drop_worker();
        self.set(LoadState::Nothing);
    }
}

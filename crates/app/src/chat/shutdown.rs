//! Stopping and failing of answers and of the worker.

use super::{Chat, LoadState, WORKER_SHUTDOWN_TIMEOUT, answer, answer::Stop};
use crate::wire::{Code, Event, MessageState, Problem};

impl Chat {
    pub(super) async fn stop(&mut self, conversation: i64) {
        for running in self
            .answers
            .values()
            .filter(|running| running.conversation == conversation)
        {
            running.stop.send_replace(Stop::Cancel);
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

    /// Cancels the answers in progress, which end with the worker's event.
    pub(super) fn stop_running(&self) {
        for running in self.answers.values() {
            running.stop.send_replace(Stop::Cancel);
        }
    }

    pub(super) async fn worker_died(&mut self, problem: Problem) {
        let problem = died(problem);
        self.drop_worker();
        self.shared.emit(Event::WorkerDied {
            problem: problem.clone(),
        });
        // The default build decides again.
        self.build = None;
        if let LoadState::Loading { .. } = self.loaded {
            self.load_failed(problem).await;
        } else {
            // The loaded model is reloaded on demand; another requested model is loaded now.
            self.requested = self.requested.take_if(|requested| !self.loaded.is(requested));
            self.set(LoadState::Nothing);
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
        if let Some(starting) = self.starting.take() {
            starting.abort();
        }
        self.load = None;
        if let Some(worker) = self.worker.take() {
            worker.kill();
        }
    }

    /// Stops every answer; their text up to now is saved.
    pub(super) async fn stop_all(&mut self) {
        for running in self.answers.values() {
            running.stop.send_replace(Stop::Now);
        }
        for (_, running) in self.answers.drain() {
            // A task that panicked has no text to save.
            let _ = running.task.await;
        }
        for mut message in std::mem::take(&mut self.waiting) {
            message.state = MessageState::Stopped;
            answer::end(&self.shared, message).await;
        }
    }

    pub(super) async fn end(&mut self) {
        self.stop_measuring();
        self.stop_all().await;
        self.requested = None;
        if let Some(worker) = self.worker.take() {
            worker.shut_down(WORKER_SHUTDOWN_TIMEOUT).await;
        }
        self.drop_worker();
        self.set(LoadState::Nothing);
    }
}

/// The problem of a dead worker, with what to do.
pub(super) fn died(mut problem: Problem) -> Problem {
    problem.message += match problem.code {
        Code::OutOfMemory => " Close other programs, or choose a shorter context or a smaller model, then send again.",
        _ => " Send again to restart it. If it happens again, choose a smaller model.",
    };
    problem
}

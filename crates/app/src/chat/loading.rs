//! Loading a model: starts a worker for it, in another build of Hearth if that is faster.

use super::{Chat, LoadState, Target};
use crate::{
    prompt_cache,
    task::Started,
    wire::{Event, Problem},
};
use hearth_protocol as protocol;
use protocol::{ModelInfo, Request, Worker};
use std::path::PathBuf;

/// The device of a load after a GPU failed.
const CPU: &str = "cpu";

/// The build that a load was switched to, and the device and build requested then.
pub(super) struct SwitchedBuild {
    program: PathBuf,
    device: Option<String>,
    build: Option<String>,
}

impl Chat {
    /// Begins to load a target, in place of the loaded one.
    pub(super) fn begin_load(&mut self, target: Target) {
        if self.load.is_some() {
            // An obsolete load is cancelled fastest by killing the process.
            self.drop_worker();
        }
        let is_other =
            |build: &SwitchedBuild| build.device != target.settings.device || build.build != target.settings.build;
        if self.build.as_ref().is_some_and(is_other) {
            // The default build decides again.
            self.drop_worker();
            self.build = None;
        }
        self.set(LoadState::loading(target, false));
        self.request_load();
    }

    /// Sends the load request, or starts a worker for it.
    fn request_load(&mut self) {
        let LoadState::Loading { target, on_cpu, .. } = &self.loaded else {
            return;
        };
        match &self.worker {
            Some(worker) => {
                let settings = target.settings.clone();
                let mut request = settings.load(target.path.clone(), prompt_cache::for_worker(&self.shared));
                if *on_cpu {
                    request.device = Some(CPU.to_owned());
                }
                self.load = Some(worker.request(Request::Load(request)));
            }
            None if self.starting.is_none() => {
                let command = match &self.build {
                    Some(build) => self.shared.worker.for_build(build.program.clone()),
                    None => self.shared.worker.clone(),
                };
                self.starting = Some(tokio::spawn(async move { Worker::start(&command).await }));
            }
            None => {}
        }
    }

    pub(super) async fn started(&mut self, started: Started) {
        match started {
            Ok(worker) => {
                self.worker = Some(worker);
                self.request_load();
            }
            Err(error) => self.worker_died(protocol::Problem::from(error).into()).await,
        }
    }

    pub(super) async fn handle_load_event(&mut self, event: Option<protocol::Event>) {
        match event {
            Some(protocol::Event::Progress { fraction, stage }) => {
                if let LoadState::Loading {
                    fraction: f, stage: s, ..
                } = &mut self.loaded
                {
                    (*f, *s) = (fraction, stage);
                    self.shared.emit(Event::ModelState {
                        state: self.loaded.state(),
                    });
                }
            }
            Some(protocol::Event::Loaded(info)) => self.loaded(info),
            Some(protocol::Event::SwitchBuild { program }) => self.switch_build(program),
            Some(protocol::Event::Failed(problem)) => {
                self.load = None;
                // A death is handled by itself.
                if self.worker.as_ref().is_some_and(Worker::is_alive) {
                    self.load_failed(problem.into()).await;
                }
            }
            Some(_) | None => self.load = None,
        }
    }

    fn loaded(&mut self, mut info: ModelInfo) {
        self.load = None;
        let LoadState::Loading { target, on_cpu, .. } = &self.loaded else {
            return;
        };
        if *on_cpu {
            let notice = "The GPU failed during an answer, so the model runs on the CPU until it is reloaded.";
            info.notices.push(notice.to_owned());
        }
        let target = target.clone();
        self.set(LoadState::Ready {
            target,
            info: Box::new(info),
        });
    }

    /// Repeats the load in a worker of another build.
    fn switch_build(&mut self, program: PathBuf) {
        let LoadState::Loading { target, .. } = &self.loaded else {
            return;
        };
        let (device, build) = (target.settings.device.clone(), target.settings.build.clone());
        self.drop_worker();
        self.build = Some(SwitchedBuild { program, device, build });
        self.request_load();
    }

    /// Reloads the model on the CPU after its GPU failed.
    pub(super) fn reload_on_cpu(&mut self) {
        if let LoadState::Ready { target, .. } = &self.loaded {
            let target = target.clone();
            self.set(LoadState::loading(target, true));
            self.request_load();
        }
    }

    /// Fails the answers that wait for the model; the next message retries the load.
    pub(super) async fn load_failed(&mut self, problem: Problem) {
        if let LoadState::Loading { target, .. } = &self.loaded {
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
}

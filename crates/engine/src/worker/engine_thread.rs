//! The thread that owns the engine: advances answers, and executes jobs in order.

use super::job::{Job, Task};
use super::load::load;
use super::shared::Shared;
use super::{guarded, no_model, training};
use crate::problem::problem;
use crate::scheduler::Listener;
use crate::{Engine, memory};
use hearth_protocol::{Event, GenerateRequest, LoadRequest, Problem, ProblemCode, RequestId};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::Instant;

pub(super) struct EngineThread<'a> {
    engine: Option<Engine>,
    /// Jobs that were received, in order.
    pending: VecDeque<Job>,
    shared: &'a Shared,
}

/// Passes the events of answers on.
struct Answers<'a>(&'a Shared);

impl Listener for Answers<'_> {
    fn is_cancelled(&self, id: RequestId) -> bool {
        self.0.is_cancelled(id)
    }

    fn emit(&mut self, id: RequestId, event: Event) {
        match event.is_last() {
            true => self.0.end(id, event),
            false => self.0.emit(id, event),
        }
    }
}

impl<'a> EngineThread<'a> {
    pub fn new(shared: &'a Shared) -> Self {
        Self {
            engine: None,
            pending: VecDeque::new(),
            shared,
        }
    }

    /// Executes jobs until the worker closes.
    pub fn run(&mut self, jobs: &mpsc::Receiver<Job>) {
        while !self.shared.state().closing {
            let is_answering = self.engine.as_ref().is_some_and(Engine::is_answering);
            let next = self
                .pending
                .pop_front_if(|job| !is_answering || job.task.runs_beside_answers());
            if let Some(job) = next {
                self.execute(job);
            } else if is_answering {
                self.step();
                self.pending.extend(jobs.try_iter());
            } else {
                self.save_prompt_cache();
                match jobs.recv() {
                    Ok(job) => self.pending.push_back(job),
                    Err(_) => return,
                }
                self.pending.extend(jobs.try_iter());
            }
        }
    }

    fn execute(&mut self, Job { id, task }: Job) {
        let shared = self.shared;
        match task {
            Task::Load(request) if shared.begin(id) => self.load(id, &request),
            Task::Generate { request, received } if shared.begin(id) => self.begin(id, *request, received),
            Task::Measure if shared.begin(id) => self.measure(id),
            Task::Inspect(request) if shared.begin(id) => training::inspect(id, &request, shared),
            Task::Export(request) if shared.begin(id) => training::export(id, &request, shared),
            Task::Train { request, control } if shared.begin(id) => training::train(id, &request, &control, shared),
            // It was cancelled before it began.
            Task::Load(_) | Task::Generate { .. } | Task::Measure => {}
            Task::Inspect(_) | Task::Export(_) | Task::Train { .. } => {}
            Task::Unload => {
                self.unload();
                shared.emit(id, Event::Done);
            }
            Task::Count(messages) => {
                let counted = guarded(|| self.engine.as_ref().ok_or_else(no_model)?.count(&messages));
                shared.emit(
                    id,
                    counted.map_or_else(Event::Failed, |tokens| Event::Counted { tokens }),
                );
            }
            Task::RemovePromptCache(conversation) => {
                if let Some(engine) = &mut self.engine {
                    engine.remove_prompt_cache(conversation);
                }
                shared.emit(id, Event::Done);
            }
            Task::SetPromptCacheLimit(max_bytes) => {
                if let Some(engine) = &mut self.engine {
                    engine.set_prompt_cache_limit(max_bytes);
                }
                shared.emit(id, Event::Done);
            }
        }
    }

    fn unload(&mut self) {
        self.engine = None;
        memory::release();
    }

    fn load(&mut self, id: RequestId, request: &LoadRequest) {
        self.unload();
        let shared = self.shared;
        let loaded = guarded(|| load(id, request, shared));
        // Before the event: the client may ask for the free memory as soon as it arrives.
        memory::release();
        let event = match loaded {
            Ok(engine) => {
                let info = engine.info().clone();
                self.engine = Some(*engine);
                Event::Loaded(info)
            }
            Err(problem) => Event::Failed(problem),
        };
        shared.end(id, event);
    }

    fn begin(&mut self, id: RequestId, request: GenerateRequest, received: Instant) {
        let begun = guarded(|| self.engine.as_mut().ok_or_else(no_model)?.begin(id, request, received));
        if let Err(problem) = begun {
            self.shared.end(id, Event::Failed(problem));
        }
    }

    /// Advances all answers by one step. If that fails, all of them do.
    fn step(&mut self) {
        let (shared, Some(engine)) = (self.shared, &mut self.engine) else {
            return;
        };
        if let Err(problem) = guarded(|| engine.step(&mut Answers(shared))) {
            let problem = self.recover(problem);
            for id in shared.answering() {
                shared.end(id, Event::Failed(problem.clone()));
            }
        }
    }

    /// Restores a valid state after a failed step. Returns the problem of all answers.
    fn recover(&mut self, problem: Problem) -> Problem {
        let Some(engine) = &mut self.engine else { return problem };
        let on_gpu = engine.info().gpu_layers > 0;
        if on_gpu && matches!(problem.code, ProblemCode::NoDevice | ProblemCode::Internal) {
            engine.model().placement().gpus().for_each(hearth_llm::device::close);
            self.unload();
            return gpu_failed(&problem);
        }
        // A bug may have left the KV cache in an inconsistent state.
        if let Err(error) = engine.reset_cache() {
            tracing::error!("the model is unloaded: {error}");
            self.unload();
        }
        problem
    }

    fn measure(&mut self, id: RequestId) {
        let shared = self.shared;
        let measured = guarded(|| {
            let engine = self.engine.as_ref().ok_or_else(no_model)?;
            engine.measure(&mut |fraction| {
                let stage = "measuring".to_owned();
                shared.emit(id, Event::Progress { fraction, stage });
                match shared.is_cancelled(id) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })
        });
        shared.end(id, measured.map_or_else(Event::Failed, Event::Measured));
    }

    /// Saves conversations to the prompt cache while nothing else is to be done.
    fn save_prompt_cache(&mut self) {
        let (shared, Some(engine)) = (self.shared, &mut self.engine) else {
            return;
        };
        let saved = guarded(|| {
            engine.save_prompt_cache(&|| shared.is_awaited());
            Ok(())
        });
        if let Err(problem) = saved {
            tracing::error!("a conversation could not be saved to the prompt cache: {problem}");
        }
    }
}

/// The problem of answers whose GPU failed.
fn gpu_failed(problem_of_gpu: &Problem) -> Problem {
    let message = format!(
        "The GPU failed during the answer. The model is being reloaded on the CPU; send the message again. \
         ({problem_of_gpu})"
    );
    problem(ProblemCode::GpuFailed, message)
}

//! The thread that owns the engine: advances answers, and executes jobs in order.

use super::job::{Job, Task};
use super::load::load;
use super::preparer::Preparer;
use super::shared::Shared;
use super::{guarded, no_model, training};
use crate::prepare::PreparedAnswer;
use crate::scheduler::Listener;
use crate::{Engine, memory};
use hearth_protocol::{Event, GenerateRequest, LoadRequest, Problem, ProblemCode, RequestId, RequestReason, Stage};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::Instant;

/// The state of the engine thread.
pub(super) struct EngineThread<'a> {
    engine: Option<Engine>,
    /// Received jobs, in order.
    pending: VecDeque<Job>,
    preparer: Preparer,
    shared: &'a Shared,
}

/// Forwards the events of answers to the client.
struct AnswerEvents<'a>(&'a Shared);

impl Listener for AnswerEvents<'_> {
    fn is_cancelled(&self, id: RequestId) -> bool {
        self.0.is_cancelled(id)
    }

    fn emit(&mut self, id: RequestId, event: Event) {
        if event.is_last() {
            self.0.end(id, event)
        } else {
            self.0.emit(id, event)
        }
    }
}

impl<'a> EngineThread<'a> {
    pub fn new(shared: &'a Shared, preparer: Preparer) -> Self {
        Self {
            preparer,
            engine: None,
            pending: VecDeque::new(),
            shared,
        }
    }

    /// Executes jobs until the worker closes.
    pub fn run(&mut self, jobs: &mpsc::Receiver<Job>) {
        while !self.shared.state().closing {
            let is_answering = self.engine.as_ref().is_some_and(Engine::is_answering);
            if let Some(job) = self.next_job(is_answering || self.preparer.is_busy()) {
                self.execute(job);
            } else if is_answering {
                self.step();
            } else {
                self.save_prompt_cache();
                match jobs.recv() {
                    Ok(job) => self.receive(job),
                    Err(_) => return,
                }
            }
            jobs.try_iter().for_each(|job| self.receive(job));
        }
    }

    /// Queues a job. A prepared answer or counted tokens are handled at once, because queued jobs
    /// may wait for them.
    fn receive(&mut self, job: Job) {
        match job.task {
            Task::Prepared(_) | Task::Counted(_) | Task::UnsentCounted(_) => self.execute(job),
            _ => self.pending.push_back(job),
        }
    }

    /// Takes the next job that can be executed now. While answers are in progress, jobs that run
    /// beside them overtake jobs that can wait.
    fn next_job(&mut self, is_busy: bool) -> Option<Job> {
        if !is_busy {
            return self.pending.pop_front();
        }
        let is_passable = |job: &&Job| job.task.runs_beside_answers() || job.task.can_be_overtaken();
        let reachable = self.pending.iter().take_while(is_passable);
        let next = reachable.enumerate().find(|(_, job)| job.task.runs_beside_answers());
        next.map(|(index, _)| index)
            .and_then(|index| self.pending.remove(index))
    }

    fn execute(&mut self, Job { id, task }: Job) {
        let shared = self.shared;
        match task {
            Task::Load(request) if shared.begin(id) => self.load(id, &request),
            Task::Generate { request, received } => self.prepare(id, *request, received),
            Task::Prepared(prepared) => {
                self.preparer.finish_one();
                if shared.begin(id) {
                    self.begin(id, prepared);
                }
            }
            Task::Measure if shared.begin(id) => self.measure(id),
            Task::Inspect(request) if shared.begin(id) => training::inspect(id, &request, shared),
            Task::Export(request) if shared.begin(id) => training::export(id, &request, shared),
            Task::Train { request, control } if shared.begin(id) => training::train(id, &request, &control, shared),
            // The request was cancelled before it began.
            Task::Load(_) | Task::Measure | Task::Inspect(_) | Task::Export(_) | Task::Train { .. } => {}
            Task::Close => {}
            Task::Unload => {
                self.unload();
                shared.emit(id, Event::Done);
            }
            Task::Count(messages) => match &self.engine {
                Some(engine) => self.preparer.count(id, engine.token_count(messages)),
                None => shared.emit(id, Event::Failed(no_model())),
            },
            Task::Counted(result) => {
                self.preparer.finish_one();
                let event = result.map_or_else(Event::Failed, |tokens| Event::Counted { tokens });
                shared.emit(id, event);
            }
            // Also if it was cancelled: later changes of the text refer to this one.
            Task::CountUnsent(request) => match &self.engine {
                Some(engine) => self.preparer.count_unsent(id, engine.unsent_count(*request)),
                None if shared.begin(id) => shared.end(id, Event::Failed(no_model())),
                None => {}
            },
            Task::UnsentCounted(result) => {
                self.preparer.finish_one();
                if shared.begin(id) {
                    shared.end(
                        id,
                        result.map_or_else(Event::Failed, |tokens| Event::UnsentCounted { tokens }),
                    );
                }
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
        let result = guarded(|| load(id, request, shared));
        // Before the event, because the client may request the free memory as soon as it arrives.
        memory::release();
        let event = match result {
            Ok(engine) => {
                let info = engine.info().clone();
                self.engine = Some(*engine);
                Event::Loaded(info)
            }
            Err(problem) => Event::Failed(problem),
        };
        shared.end(id, event);
    }

    /// Prepares an answer on another thread. A cancellation before it has begun ends it at once.
    fn prepare(&mut self, id: RequestId, request: GenerateRequest, received: Instant) {
        if self.shared.is_cancelled(id) {
            return;
        }
        match &mut self.engine {
            Some(engine) => self.preparer.prepare(id, engine.preparation(request, received)),
            None if self.shared.begin(id) => self.shared.end(id, Event::Failed(no_model())),
            None => {}
        }
    }

    /// Begins a prepared answer.
    fn begin(&mut self, id: RequestId, prepared: Result<Box<PreparedAnswer>, Problem>) {
        let result = guarded(|| {
            let prepared = prepared?;
            self.engine.as_mut().ok_or_else(no_model)?.add(id, *prepared)
        });
        if let Err(problem) = result {
            self.shared.end(id, Event::Failed(problem));
        }
    }

    /// Advances all answers by one step. If the step fails, all answers fail.
    fn step(&mut self) {
        let (shared, Some(engine)) = (self.shared, &mut self.engine) else {
            return;
        };
        if let Err(problem) = guarded(|| engine.step(&mut AnswerEvents(shared))) {
            let problem = self.recover(problem);
            for id in shared.answering() {
                shared.end(id, Event::Failed(problem.clone()));
            }
        }
    }

    /// Restores a valid state after a failed step. Returns the problem to report for all answers.
    fn recover(&mut self, problem: Problem) -> Problem {
        let Some(engine) = &mut self.engine else { return problem };
        let uses_gpu = engine.info().gpu_layers > 0;
        if uses_gpu && matches!(problem.code, ProblemCode::NoDevice | ProblemCode::Internal) {
            engine.model().placement().gpus().for_each(hearth_llm::device::close);
            self.unload();
            return gpu_failed(problem);
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
        let result = guarded(|| {
            let engine = self.engine.as_ref().ok_or_else(no_model)?;
            engine.measure(&mut |fraction| {
                let stage = Stage::Measuring;
                shared.emit(id, Event::Progress { fraction, stage });
                if shared.is_cancelled(id) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
        });
        shared.end(id, result.map_or_else(Event::Failed, Event::Measured));
    }

    /// Saves conversations to the prompt cache until a request waits for the engine.
    fn save_prompt_cache(&mut self) {
        let (shared, Some(engine)) = (self.shared, &mut self.engine) else {
            return;
        };
        let result = guarded(|| {
            engine.save_prompt_cache(&|| shared.is_awaited());
            Ok(())
        });
        if let Err(problem) = result {
            tracing::error!("a conversation could not be saved to the prompt cache: {problem}");
        }
    }
}

/// The problem of answers whose GPU failed.
fn gpu_failed(cause: Problem) -> Problem {
    let cause = Box::new(cause);
    Problem::new(ProblemCode::GpuFailed, RequestReason::GpuFailed { cause })
}

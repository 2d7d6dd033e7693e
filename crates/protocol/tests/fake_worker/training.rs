//! A run without a model, controlled by the first words of the dataset.
//!
//! `learn 5` plans and runs five steps; a following `die 3`, `fail 3`, `wait 3` or `deaf 3` takes
//! effect after the third step. A checkpoint is written after every second step and after the step
//! in which the run is suspended. The inspection of `endless ADDRESS` connects to the address and
//! never ends.

use super::{Control, PAUSE, fail, is_cancelled, notices, send, wait_for_kill};
use hearth_protocol::{
    Checkpointing, Container, EndReason, Event, ExampleShape, ExportRequest, Exported, Finding, FindingKind,
    InspectRequest, Inspection, Outcome, Piece, Precision, Preview, Problem, ProblemCode, RequestId, RunCommand,
    RunPlan, Severity, Stage, StepReport, TrainRequest, TrainingEvent, Verification, VerificationResult,
};
use std::{
    fs,
    net::TcpStream,
    path::Path,
    process::exit,
    sync::mpsc::{Receiver, RecvTimeoutError},
};

/// Answers an inspection.
pub fn inspect(id: RequestId, request: &InspectRequest) {
    let answer = match words(&request.data.path) {
        Ok(words) if words.first().is_some_and(|word| word == "endless") => {
            let _connection = TcpStream::connect(&words[1]).expect("a test that listens");
            wait_for_kill();
        }
        Ok(words) => Event::Inspected(Box::new(inspection(request, &words))),
        Err(problem) => Event::Failed(problem),
    };
    send(id, answer);
}

/// Trains.
pub fn train(id: RequestId, request: TrainRequest, controls: &Receiver<Control>) {
    Run::new(id, request).run(controls);
}

fn words(path: &Path) -> Result<Vec<String>, Problem> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.split_whitespace().map(str::to_owned).collect()),
        Err(_) => Err(Problem::detail(ProblemCode::FileUnreadable, "The dataset is gone.")),
    }
}

fn inspection(request: &InspectRequest, words: &[String]) -> Inspection {
    Inspection {
        container: Container::Jsonl,
        shape: ExampleShape::Text,
        columns: vec!["text".into()],
        mapping: request.data.mapping.clone().unwrap_or_default(),
        unsure: request.data.mapping.is_none(),
        examples: words.len() as u32,
        tokens: 10,
        trained_tokens: 5,
        lengths: [1, 2, 3],
        sequence: request.sequence.unwrap_or(256),
        truncated: 0,
        previews: vec![Preview {
            line: 1,
            pieces: vec![Piece {
                text: words.join(" "),
                tokens: 1,
                trained: true,
                template: false,
                truncated: false,
            }],
            tokens: 1,
        }],
        findings: vec![Finding {
            kind: FindingKind::FewExamples { count: 9 },
            severity: Severity::Warning,
            lines: vec![1],
        }],
        broken: Vec::new(),
        broken_total: 0,
    }
}

/// Exports an adapter; to a file named `slow`, until it is cancelled. The verification of one named
/// `unverifiable` fails.
pub fn export(id: RequestId, request: &ExportRequest, controls: &Receiver<Control>) {
    if !request.adapter.exists() {
        return fail(id, ProblemCode::AdapterInvalid, "The adapter is gone.");
    }
    let (fraction, stage) = (0.5, Stage::Writing);
    send(id, Event::Progress { fraction, stage });
    if request.out.file_stem().is_some_and(|stem| stem == "slow") {
        while !is_cancelled(controls) {}
        return fail(id, ProblemCode::Cancelled, "It was cancelled.");
    }
    let name = request.name.as_deref().unwrap_or_default();
    fs::write(&request.out, format!("exported {name}")).expect("a file");
    if request.verify && name == "unverifiable" {
        return fail(id, ProblemCode::Internal, "It could not be verified.");
    }
    let exported = Exported {
        path: request.out.clone(),
        bytes: 8,
        modelfile: None,
        verification: request.verify.then_some(Verification {
            passed: true,
            learned: true,
            prompts: 4,
            divergence: 0.0,
            taught: 0.5,
            same_text: 4,
            result: VerificationResult::Matches {
                retained_percent: 100,
                same: 4,
                prompts: 4,
            },
        }),
        notices: Vec::new(),
    };
    send(id, Event::Exported(exported));
}

struct Run {
    id: RequestId,
    request: TrainRequest,
    step: u32,
    steps: u32,
    is_paused: bool,
    is_stopped: bool,
    is_suspended: bool,
}

impl Run {
    fn new(id: RequestId, request: TrainRequest) -> Self {
        Self {
            id,
            request,
            step: 0,
            steps: 0,
            is_paused: false,
            is_stopped: false,
            is_suspended: false,
        }
    }

    fn send(&self, event: TrainingEvent) {
        send(self.id, Event::Training { event });
    }

    fn run(mut self, controls: &Receiver<Control>) {
        self.send(TrainingEvent::Preparing {
            fraction: 0.5,
            stage: Stage::ReadingData,
        });
        let words = match words(&self.request.data.path) {
            Ok(words) => words,
            Err(problem) => return send(self.id, Event::Failed(problem)),
        };
        let number = |index: usize| words.get(index).and_then(|word| word.parse().ok()).unwrap_or(0);
        self.steps = number(1);
        let (order, order_step) = (words.get(2).map_or("", String::as_str), number(3));
        fs::create_dir_all(&self.request.out).expect("a folder");
        let checkpoint = self.request.out.join("checkpoint");
        if self.request.resume {
            // Without a checkpoint the run restarts.
            let step = fs::read_to_string(&checkpoint).unwrap_or("0".to_owned());
            self.step = step.parse().expect("a step");
        }
        self.send(TrainingEvent::Planned(self.plan()));
        if self.step == 0 {
            self.send_evaluation(0);
        }
        while self.step < self.steps && !self.is_stopped {
            self.listen(controls);
            if self.is_stopped {
                break;
            }
            self.step += 1;
            self.send(TrainingEvent::Step(self.report()));
            if self.step.is_multiple_of(2) || self.is_suspended {
                fs::write(&checkpoint, self.step.to_string()).expect("a checkpoint");
                self.send(TrainingEvent::Checkpointed { step: self.step });
            }
            if self.is_suspended {
                return self.send(TrainingEvent::Suspended);
            }
            // A failure happens once, not again in a resumed run.
            match order {
                _ if self.step != order_step || self.request.resume => {}
                "die" => exit(6),
                "fail" => {
                    let message = "The disk is full. Free some space, then resume.";
                    return fail(self.id, ProblemCode::DiskFull, message);
                }
                // Until it is stopped, suspended or killed.
                "wait" => {
                    while !self.is_stopped && !self.is_suspended {
                        self.listen(controls);
                    }
                }
                "deaf" => wait_for_kill(),
                _ => {}
            }
        }
        self.send_evaluation(self.step);
        let adapter = self.request.out.join("adapter");
        fs::write(&adapter, "adapter").expect("an adapter");
        self.send(TrainingEvent::Finished(Box::new(self.outcome(adapter))));
    }

    /// Receives requests until [`PAUSE`] passes without one; while the run is paused, until it ends
    /// or continues.
    fn listen(&mut self, controls: &Receiver<Control>) {
        loop {
            match controls.recv_timeout(PAUSE) {
                Ok(Control::Run(RunCommand::Pause)) => {
                    self.is_paused = true;
                    self.send(TrainingEvent::Paused { step: self.step });
                }
                Ok(Control::Run(RunCommand::Resume)) => {
                    self.is_paused = false;
                    return self.send(TrainingEvent::Resumed);
                }
                Ok(Control::Run(RunCommand::Stop)) => {
                    self.is_stopped = true;
                    return;
                }
                Ok(Control::Run(RunCommand::Suspend)) => {
                    self.is_suspended = true;
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => exit(0),
                Ok(Control::Cancel) => {}
                Err(RecvTimeoutError::Timeout) if self.is_paused => {}
                Err(RecvTimeoutError::Timeout) => return,
            }
        }
    }

    fn send_evaluation(&self, step: u32) {
        self.send(TrainingEvent::Evaluated {
            step,
            loss: Some(3.0 / f64::from(step + 1)),
            best: true,
        });
    }

    fn report(&self) -> StepReport {
        StepReport {
            step: self.step,
            steps: self.steps,
            epoch: 1.0,
            loss: 1.0 / f64::from(self.step),
            learning_rate: f64::from(self.request.settings.learning_rate),
            gradient_norm: 1.0,
            tokens: 64,
            tokens_per_second: 100.0,
            memory: 1 << 30,
            seconds_left: f64::from(self.steps - self.step),
        }
    }

    fn plan(&self) -> RunPlan {
        RunPlan {
            examples: 9,
            eval_examples: 1,
            truncated: 0,
            steps: self.steps,
            batch: 1,
            accumulation: 1,
            sequence: 256,
            parameters: 1000,
            precision: Precision::F32,
            checkpointing: Checkpointing::Layers,
            threads: self.request.threads.unwrap_or(2),
            peak_memory: 1 << 30,
            step_seconds: 0.01,
            total_seconds: 1.0,
            notices: notices(),
        }
    }

    fn outcome(&self, adapter: std::path::PathBuf) -> Outcome {
        Outcome {
            reason: if self.is_stopped {
                EndReason::Stopped
            } else {
                EndReason::Completed
            },
            steps: self.step,
            best_step: self.step,
            train_loss: 0.5,
            eval_loss_before: Some(3.0),
            eval_loss: Some(3.0 / f64::from(self.step + 1)),
            general_before: Some(20.0),
            general_after: Some(21.0),
            tokens_per_second: 100.0,
            seconds: 1.0,
            peak_memory: 1 << 30,
            adapter,
        }
    }
}

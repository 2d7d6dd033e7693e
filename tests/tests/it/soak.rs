//! The host of all models under load: two models, four conversations and a run of fine-tuning, with
//! cancellations, unloads and killed workers at random times. No request hangs, and every finished
//! answer equals the answer without concurrent requests.
//!
//! It lasts fifteen seconds; the environment variable `HEARTH_SOAK_SECONDS` sets another time.

use hearth_protocol::{
    DataSource, Event, FinishReason, GenerateRequest, GpuLayers, HostOptions, Lease, LoadRequest, Model, ModelHost,
    Precision, ProblemCode, Prompt, Request, RunEvent, SamplingParams, TrainRequest, TrainSettings, TrainingEvent,
    WorkerCommand,
};
use hearth_tests::paths;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// Conversations at a time.
const CONVERSATIONS: u64 = 4;

/// Time limit of every answer and every load, which only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum growth of the host process's memory, in bytes.
const MAX_GROWTH: u64 = 32 << 20;

/// A small generator of random numbers (xorshift64*, Vigna 2016).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }

    fn millis(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}

/// Counters of events.
#[derive(Debug, Default)]
struct Counts {
    finished: AtomicU32,
    cancelled: AtomicU32,
    interrupted: AtomicU32,
    kills: AtomicU32,
    runs: AtomicU32,
}

fn increment(count: &AtomicU32) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn request(path: PathBuf) -> LoadRequest {
    LoadRequest {
        path,
        context: Some(1024),
        threads: Some(1),
        device: Some("cpu".to_owned()),
        ..LoadRequest::default()
    }
}

/// The prompts: short and long, greedy and sampled.
fn generations() -> Vec<GenerateRequest> {
    let generation = |number: u64| {
        let words = ["Once upon a time", "The river", "In the morning, "][(number % 3) as usize];
        GenerateRequest {
            sampling: SamplingParams {
                temperature: [0.0, 0.9][(number % 2) as usize],
                seed: Some(number),
                ..SamplingParams::default()
            },
            max_tokens: Some([8, 24, 60][(number / 3 % 3) as usize]),
            ..GenerateRequest::new(Prompt::Raw(
                format!("Tale {number}. ").repeat([1, 12, 60][(number / 2 % 3) as usize]) + words,
            ))
        }
    };
    (0..8).map(generation).collect()
}

/// The outcome of a generation.
enum End {
    Finished(Vec<u32>),
    Cancelled,
    /// Its worker was killed or unloaded.
    Interrupted,
}

async fn generate(lease: &Lease, generation: GenerateRequest, cancel_after: Option<Duration>) -> End {
    let mut events = lease.request(Request::Generate(generation));
    let mut cancel = std::pin::pin!(sleep(cancel_after.unwrap_or(PATIENCE)));
    let mut is_cancelled = false;
    let end = async {
        loop {
            tokio::select! {
                () = &mut cancel, if !is_cancelled && cancel_after.is_some() => {
                    is_cancelled = true;
                    events.cancel();
                }
                event = events.next() => match event.expect("a last event") {
                    Event::Finished(summary) if summary.finish_reason == FinishReason::Cancelled => {
                        return End::Cancelled;
                    }
                    Event::Finished(summary) => return End::Finished(summary.ids),
                    Event::Failed(problem) if problem.code == ProblemCode::Cancelled => return End::Cancelled,
                    Event::Failed(problem) => {
                        assert!(!lease.is_alive(), "{problem}");
                        return End::Interrupted;
                    }
                    _ => {}
                },
            }
        }
    };
    timeout(PATIENCE, end).await.expect("an answer that ends")
}

/// One conversation after another, until the end.
async fn converse(seed: u64, models: Arc<Vec<(Model, Vec<Vec<u32>>)>>, counts: Arc<Counts>, end: Instant) {
    let mut random = Random(seed);
    let generations = generations();
    while Instant::now() < end {
        let (model, expected) = &models[random.below(models.len() as u64) as usize];
        let number = random.below(generations.len() as u64) as usize;
        let cancel_after = (random.below(5) == 0).then(|| random.millis(200));
        // A killed worker fails a load, too.
        let Ok(lease) = timeout(PATIENCE, model.ready()).await.expect("a load that ends") else {
            increment(&counts.interrupted);
            continue;
        };
        match generate(&lease, generations[number].clone(), cancel_after).await {
            End::Finished(ids) => {
                assert_eq!(
                    ids,
                    expected[number],
                    "answer {number} of {}",
                    model.request().path.display()
                );
                increment(&counts.finished);
            }
            End::Cancelled => increment(&counts.cancelled),
            End::Interrupted => increment(&counts.interrupted),
        }
        drop(lease);
        sleep(random.millis(30)).await;
    }
}

/// Kills workers and unloads models.
async fn disturb(models: Arc<Vec<(Model, Vec<Vec<u32>>)>>, counts: Arc<Counts>, end: Instant) {
    let mut random = Random(77);
    while Instant::now() < end {
        sleep(Duration::from_millis(1500) + random.millis(3000)).await;
        let (model, _) = &models[random.below(models.len() as u64) as usize];
        if random.below(3) == 0 {
            timeout(PATIENCE, model.unload()).await.expect("an unload that ends");
        } else if let Ok(Ok(lease)) = timeout(PATIENCE, model.ready()).await
            && let Some(process) = lease.process_id()
        {
            kill(process);
            increment(&counts.kills);
        }
    }
}

fn kill(process: u32) {
    let process = process.to_string();
    let mut command = if cfg!(windows) {
        std::process::Command::new("taskkill")
    } else {
        std::process::Command::new("kill")
    };
    let arguments: &[&str] = if cfg!(windows) { &["/F", "/PID"] } else { &["-KILL"] };
    // It may have exited.
    let _ = command.args(arguments).arg(process).status();
}

/// Runs of fine-tuning, one after another; some are killed and resumed.
async fn tune(host: ModelHost, folder: PathBuf, counts: Arc<Counts>, end: Instant) {
    let data = folder.join("data.jsonl");
    let lines: String = (0..24)
        .map(|n| format!("{{\"text\":\"The number after {n} is {}.\"}}\n", n + 1))
        .collect();
    fs::write(&data, lines).expect("a file");
    let mut random = Random(5);
    let mut number = 0;
    let mut resume = false;
    while Instant::now() < end {
        let mut run = host.train(TrainRequest {
            model: paths::root().join("tests/fixtures/models/llama.gguf"),
            data: DataSource {
                path: data.clone(),
                mapping: None,
                skip_broken: false,
            },
            out: folder.join(format!("run{number}")),
            settings: TrainSettings {
                rank: 2,
                max_steps: Some(12),
                epochs: Some(99.0),
                batch: Some(2),
                sequence: Some(32),
                eval_split: 0.0,
                checkpoint_every: Some(1),
                precision: Precision::F32,
                ..TrainSettings::default()
            },
            resume,
            threads: Some(1),
            device: Some("cpu".to_owned()),
            build: None,
            gpu_layers: GpuLayers::Auto,
            low_priority: true,
        });
        let mut has_checkpoint = resume;
        let ends_at = (random.below(3) == 0).then(|| random.below(12) as u32);
        resume = loop {
            match timeout(PATIENCE, run.next()).await.expect("a run that goes on") {
                Some(RunEvent::Training(TrainingEvent::Checkpointed { .. })) => has_checkpoint = true,
                // Dropping the run kills its worker.
                Some(RunEvent::Training(TrainingEvent::Step(step))) if Some(step.step) == ends_at => {
                    break has_checkpoint;
                }
                Some(RunEvent::Training(TrainingEvent::Finished(outcome))) => {
                    assert!(outcome.steps > 0 && outcome.train_loss.is_finite());
                    break false;
                }
                Some(RunEvent::Training(_)) => {}
                other => panic!("{other:?}"),
            }
        };
        if !resume {
            number += 1;
            increment(&counts.runs);
        }
    }
}

/// Resident memory of this process in bytes; 0 if the system does not report it.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// The answers of a model without concurrent requests.
async fn reference_answers(host: &ModelHost, path: &Path) -> (Model, Vec<Vec<u32>>) {
    let model = host.model(request(path.to_owned()));
    let lease = timeout(PATIENCE, model.ready())
        .await
        .expect("a load that ends")
        .expect("it is loaded");
    let mut answers = Vec::new();
    for generation in generations() {
        match generate(&lease, generation, None).await {
            End::Finished(ids) => answers.push(ids),
            End::Cancelled | End::Interrupted => panic!("nobody disturbs it"),
        }
    }
    drop(lease);
    (model, answers)
}

/// The test's name in its executable.
const NAME: &str = "soak::nothing_gets_stuck_and_no_answer_is_disturbed";

/// Environment variable of a process that runs this test alone.
const ALONE: &str = "HEARTH_SOAK_ALONE";

#[test]
fn nothing_gets_stuck_and_no_answer_is_disturbed() {
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|actual| actual == value);
    if is_set(ALONE, "1") || is_set("NEXTEST_EXECUTION_MODE", "process-per-test") {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        return runtime.expect("a runtime").block_on(soak());
    }
    // Other tests run in this process, whose memory is measured.
    let program = std::env::current_exe().expect("a test knows its own executable");
    let mut command = std::process::Command::new(program);
    command.args(["--exact", NAME, "--nocapture"]).env(ALONE, "1");
    let output = command.output().expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{output:?}");
    println!("{stdout}");
}

async fn soak() {
    let seconds = std::env::var("HEARTH_SOAK_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(15));
    let folder = tempfile::tempdir().expect("a folder");
    let mut worker = WorkerCommand::new(paths::executable("hearth"));
    worker
        .environment
        .push(("HEARTH_CACHE".into(), folder.path().join("cache").into()));
    let idle_unload = Some(Duration::from_secs(20));
    let host = ModelHost::new(HostOptions { worker, idle_unload });
    let mut models = Vec::new();
    for path in [paths::model(), paths::root().join("tests/fixtures/models/qwen2.gguf")] {
        models.push(reference_answers(&host, &path).await);
    }
    let models = Arc::new(models);
    let counts = Arc::<Counts>::default();
    let end = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for seed in 1..=CONVERSATIONS {
        tasks.spawn(converse(seed, Arc::clone(&models), Arc::clone(&counts), end));
    }
    tasks.spawn(disturb(Arc::clone(&models), Arc::clone(&counts), end));
    tasks.spawn(tune(host.clone(), folder.path().to_owned(), Arc::clone(&counts), end));
    // Memory is compared from the time at which each part has been used once.
    sleep(time / 4).await;
    let before = resident();
    while let Some(result) = tasks.join_next().await {
        result.expect("a task that does not fail");
    }
    let after = resident();
    timeout(PATIENCE, host.shut_down()).await.expect("an end");
    println!("{counts:?}, memory of the host {before} to {after} bytes");
    assert!(counts.finished.load(Ordering::Relaxed) > 0, "{counts:?}");
    assert!(after <= before + MAX_GROWTH, "{before} {after}");
    assert_eq!(host.live_models().len(), 0);
}

//! The host of all models against real processes: fake workers, which obey a model's name and the
//! first word of a message.

use hearth_protocol::{
    Event, GenerateRequest, GpuLayers, HostOptions, Lease, LoadError, LoadRequest, Message, Model, ModelHost,
    ModelStatus, Notice, PlanRequest, ProblemCode, Prompt, Request, Role, Stage, WorkerCommand,
};
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;
use tokio::time::timeout;

/// Time limit of every wait, which only a hang exceeds.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A host with a folder of models.
struct Harness {
    host: ModelHost,
    folder: TempDir,
}

impl Harness {
    fn new() -> Self {
        Self::with_idle_unload(None)
    }

    fn with_idle_unload(idle_unload: Option<Duration>) -> Self {
        let worker = WorkerCommand::new(env!("CARGO_BIN_EXE_fake-worker"));
        Self::with_options(HostOptions { worker, idle_unload })
    }

    fn with_options(options: HostOptions) -> Self {
        Self {
            host: ModelHost::new(options),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// The request of a model, whose file is created.
    fn request(&self, name: &str) -> LoadRequest {
        let path = self.folder.path().join(format!("{name}.gguf"));
        if !path.exists() {
            fs::write(&path, name).expect("a file");
        }
        LoadRequest {
            path,
            ..LoadRequest::default()
        }
    }

    fn model(&self, name: &str) -> Model {
        self.host.model(self.request(name))
    }

    /// The names of the loaded models, in order.
    fn loaded(&self) -> Vec<String> {
        let models = self.host.live_models();
        let mut names: Vec<String> = models.iter().map(name).collect();
        names.sort_unstable();
        names
    }
}

fn name(model: &Model) -> String {
    let stem = model.request().path.file_stem().expect("a name");
    stem.to_string_lossy().into_owned()
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(MAX_WAIT, future).await.expect("in time")
}

async fn ready(model: &Model) -> Lease {
    in_time(model.ready()).await.expect("it is loaded")
}

async fn load_error(model: &Model) -> LoadError {
    in_time(model.ready()).await.expect_err("it is not loaded")
}

async fn wait_until(model: &Model, is_wanted: impl FnMut(&ModelStatus) -> bool) {
    let mut status = model.status();
    in_time(status.wait_for(is_wanted)).await.expect("a model");
}

/// Waits until a load waits for the memory of another model.
async fn wait_until_waiting_for_memory(model: &Model) {
    let is_waiting = |status: &ModelStatus| {
        matches!(
            status,
            ModelStatus::Loading {
                stage: Stage::WaitingForMemory,
                ..
            }
        )
    };
    wait_until(model, is_waiting).await;
}

fn generation(text: &str) -> Request {
    Request::Generate(GenerateRequest::new(Prompt::Chat(vec![Message::of_text(
        Role::User,
        text.to_owned(),
    )])))
}

/// The text of an answer, or its problem.
async fn answer(lease: &Lease, text: &str) -> Result<String, ProblemCode> {
    let mut events = lease.request(generation(text));
    let mut whole_text = String::new();
    loop {
        match in_time(events.next()).await.expect("a last event") {
            Event::Text { text, .. } => whole_text += &text,
            Event::Finished(_) => return Ok(whole_text),
            Event::Failed(problem) => return Err(problem.code),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_models_are_loaded_once_each_and_answer_at_once() {
    let harness = Harness::new();
    let (one, two) = (harness.model("one"), harness.model("two"));
    assert_eq!(*one.status().borrow(), ModelStatus::Unloaded);
    let same = harness.model("one");
    let (first, again, second) = tokio::join!(ready(&one), ready(&same), ready(&two));
    assert_eq!(harness.loaded(), ["one", "two"]);
    let mut slow = first.request(generation("slow"));
    assert_eq!(answer(&second, "say two").await.as_deref(), Ok("two"));
    assert_eq!(answer(&again, "say one").await.as_deref(), Ok("one"), "the same worker");
    assert!(in_time(slow.next()).await.is_some());
    drop(ready(&harness.model("three")).await);
    in_time(harness.host.unload_idle()).await;
    assert_eq!(harness.loaded(), ["one", "two"]);
    in_time(harness.host.unload(&one.request().path)).await;
    assert_eq!(harness.loaded(), ["two"]);
    assert_eq!(answer(&again, "say more").await, Err(ProblemCode::WorkerDied));
    assert_eq!(answer(&second, "say two").await.as_deref(), Ok("two"));
    in_time(harness.host.shut_down()).await;
    assert_eq!(harness.loaded(), [""; 0]);
    ready(&one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_build_is_chosen_before_a_worker_is_started() {
    let harness = Harness::new();
    let mut request = harness.request("one");
    for (build, expected) in [(None, false), (Some("cuda"), true)] {
        request.build = build.map(str::to_owned);
        let lease = ready(&harness.host.model(request.clone())).await;
        let notices = &lease.info().notices;
        let is_other_build = |notice: &Notice| notice.to_string() == "Another build of Hearth.";
        assert_eq!(notices.iter().any(is_other_build), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_recently_used_model_is_unloaded_for_another_one() {
    let harness = Harness::new();
    let (one, two) = (harness.model("one"), harness.model("two"));
    let lease_of_one = ready(&one).await;
    drop(ready(&two).await);
    // It fits only alone.
    let big = harness.model("big");
    let load = tokio::spawn({
        let big = big.clone();
        async move { big.ready().await.map(drop) }
    });
    wait_until_waiting_for_memory(&big).await;
    assert_eq!(harness.loaded(), ["big", "one"], "the unused one is unloaded");
    assert_eq!(
        answer(&lease_of_one, "say still").await.as_deref(),
        Ok("still"),
        "the other one is in use"
    );
    drop(lease_of_one);
    in_time(load).await.expect("a task").expect("it is loaded");
    assert_eq!(harness.loaded(), ["big"]);
    ready(&two).await;
    assert_eq!(harness.loaded(), ["big", "two"], "a small one fits beside it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_waits_for_memory_does_not_delay_a_smaller_one() {
    let harness = Harness::new();
    let lease = ready(&harness.model("one")).await;
    let big = harness.model("big");
    big.load();
    wait_until_waiting_for_memory(&big).await;
    let small_lease = ready(&harness.model("two")).await;
    assert_eq!(answer(&small_lease, "say two").await.as_deref(), Ok("two"));
    drop((lease, small_lease));
    ready(&big).await;
    assert_eq!(harness.loaded(), ["big"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_waits_for_memory_can_be_cancelled() {
    let harness = Harness::new();
    let lease = ready(&harness.model("one")).await;
    let big = harness.model("big");
    big.load();
    wait_until_waiting_for_memory(&big).await;
    in_time(big.unload()).await;
    assert_eq!(*big.status().borrow(), ModelStatus::Unloaded);
    ready(&harness.model("two")).await;
    assert_eq!(answer(&lease, "say still").await.as_deref(), Ok("still"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_slow_load_does_not_delay_another_one() {
    let harness = Harness::new();
    let slow = harness.model("slow");
    let load = tokio::spawn({
        let slow = slow.clone();
        async move { slow.ready().await.map(drop) }
    });
    wait_until(
        &slow,
        |status| matches!(status, ModelStatus::Loading { fraction, .. } if *fraction > 0.0),
    )
    .await;
    in_time(slow.unload()).await;
    let error = in_time(load).await.expect("a task").expect_err("it was unloaded");
    assert!(
        matches!(&error, LoadError::Failed(problem) if problem.code == ProblemCode::Cancelled),
        "{error:?}"
    );
    ready(&harness.model("one")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unused_model_is_unloaded_after_a_while() {
    let harness = Harness::with_idle_unload(Some(Duration::from_millis(50)));
    let one = harness.model("one");
    let lease = ready(&one).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(answer(&lease, "say here").await.as_deref(), Ok("here"), "it is in use");
    drop(lease);
    wait_until(&one, |status| *status == ModelStatus::Unloaded).await;
    assert_eq!(answer(&ready(&one).await, "say back").await.as_deref(), Ok("back"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_settings_replace_a_model_once_it_is_unused() {
    let harness = Harness::new();
    let old = harness.model("one");
    let lease = ready(&old).await;
    let new = harness.host.model(LoadRequest {
        context: Some(512),
        gpu_layers: GpuLayers::Count(3),
        ..harness.request("one")
    });
    let next = ready(&new).await;
    assert_eq!((next.info().context, next.info().gpu_layers), (512, 3));
    assert_eq!(answer(&lease, "say old").await.as_deref(), Ok("old"), "it is in use");
    drop(lease);
    wait_until(&old, |status| *status == ModelStatus::Unloaded).await;
    assert_eq!(answer(&next, "say new").await.as_deref(), Ok("new"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_grew_is_loaded_again_and_one_that_is_gone_stays() {
    let harness = Harness::new();
    let one = harness.model("one");
    drop(ready(&one).await);
    let mut status = one.status();
    status.mark_unchanged();
    drop(ready(&one).await);
    assert!(!status.has_changed().expect("a model"), "nothing was loaded");
    fs::write(&one.request().path, "a larger file").expect("a file");
    drop(ready(&one).await);
    assert!(status.has_changed().expect("a model"), "it was loaded again");
    status.mark_unchanged();
    fs::remove_file(&one.request().path).expect("it is removed");
    assert_eq!(answer(&ready(&one).await, "say here").await.as_deref(), Ok("here"));
    assert!(!status.has_changed().expect("a model"));
    in_time(one.unload()).await;
    let error = load_error(&one).await;
    assert!(matches!(error, LoadError::Failed(problem) if problem.code == ProblemCode::FileUnreadable));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_worker_is_replaced_and_others_live_on() {
    let harness = Harness::new();
    let (one, two) = (harness.model("one"), harness.model("two"));
    let (first, second) = (ready(&one).await, ready(&two).await);
    let mut slow = first.request(generation("slow"));
    assert_eq!(answer(&first, "die").await, Err(ProblemCode::WorkerDied));
    while let Some(event) = in_time(slow.next()).await {
        assert!(!matches!(event, Event::Finished(_)));
    }
    assert!(!first.is_alive());
    // At once, whether or not its death was noticed.
    assert_eq!(answer(&ready(&one).await, "say again").await.as_deref(), Ok("again"));
    assert_eq!(answer(&second, "say two").await.as_deref(), Ok("two"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_whose_gpu_failed_continues_on_the_cpu() {
    let harness = Harness::new();
    let one = harness.model("one");
    let lease = ready(&one).await;
    assert!(lease.info().gpu_layers > 0);
    assert_eq!(answer(&lease, "fault").await, Err(ProblemCode::GpuFailed));
    let lease = ready(&one).await;
    assert_eq!(lease.info().gpu_layers, 0);
    assert!(lease.info().notices.contains(&Notice::GpuFailed));
    assert_eq!(answer(&lease, "say again").await.as_deref(), Ok("again"));
    assert_eq!(harness.loaded(), ["one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_that_cannot_be_loaded_are_reported() {
    let harness = Harness::new();
    for (name, expected_code, expected_has_died) in [
        ("refuse", ProblemCode::OutOfMemory, false),
        ("invalid", ProblemCode::FileInvalid, false),
        ("fatal", ProblemCode::WorkerDied, true),
    ] {
        let model = harness.model(name);
        for _ in 0..2 {
            let (problem, has_died) = match load_error(&model).await {
                LoadError::Failed(problem) => (problem, false),
                LoadError::Died(problem) => (problem, true),
            };
            assert_eq!((problem.code, has_died), (expected_code, expected_has_died), "{name}");
            let expected = ModelStatus::Failed { problem, has_died };
            assert_eq!(*model.status().borrow(), expected);
        }
    }
    let without_worker = Harness::with_options(HostOptions {
        worker: WorkerCommand::new(PathBuf::from("no-such-folder/hearth")),
        idle_unload: None,
    });
    let error = load_error(&without_worker.model("one")).await;
    assert!(error.to_string().contains("no-such-folder"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_loads_and_unloads_at_once_leave_nothing_stuck() {
    let harness = Harness::new();
    let mut tasks = Vec::new();
    for number in 0..20 {
        let model = harness.model(["one", "two", "big"][number % 3]);
        tasks.push(tokio::spawn(async move {
            let is_answered = match model.ready().await {
                Ok(lease) => answer(&lease, "say here").await.is_ok(),
                Err(_) => false,
            };
            if number % 4 == 0 {
                model.unload().await;
            }
            is_answered
        }));
    }
    for task in tasks {
        in_time(task).await.expect("a task");
    }
    for name in ["one", "two", "big"] {
        assert_eq!(
            answer(&ready(&harness.model(name)).await, "say here").await.as_deref(),
            Ok("here")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_counts_models_in_use_and_replaces_unused_ones() {
    let harness = Harness::new();
    let path = harness.request("big").path;
    let plan = async || {
        let request = PlanRequest {
            path: path.clone(),
            ..PlanRequest::default()
        };
        in_time(harness.host.plan(request)).await.expect("a plan").fits
    };
    assert!(plan().await);
    let lease = ready(&harness.model("one")).await;
    assert!(!plan().await);
    drop(lease);
    assert!(plan().await);
}

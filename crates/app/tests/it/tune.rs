//! Fine-tuning end to end: a real store, real files, and fake worker processes that play scripted
//! runs.

use crate::harness::{Harness, OTHER_BUILD, PATIENCE, failure, ids, options, under_way};
use crate::support;
use hearth_app::{
    App, Options,
    power::{Power, Supply},
    wire::Announced,
    wire::*,
};
use hearth_protocol::{GenerateRequest, Prompt, WorkerCommand};
use std::{
    fs,
    io::{ErrorKind, Read},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    time::timeout,
};

/// [`Harness::tiny`] with other options.
fn tiny_with(change: impl FnOnce(&mut Options)) -> Harness {
    let folder = tempfile::tempdir().expect("a folder");
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let mut options = options(&folder);
    change(&mut options);
    Harness::with(folder, options)
}

/// Writes the script of a run.
fn data(harness: &Harness, script: &str) -> PathBuf {
    let path = harness.folder.path().join("script.jsonl");
    fs::write(&path, script).expect("a dataset");
    path
}

async fn new_run(harness: &Harness, script: &str) -> NewRun {
    let dataset = harness.add_dataset(data(harness, script)).await.expect("a dataset");
    NewRun {
        name: None,
        model: "tiny".into(),
        dataset: dataset.id,
        mapping: None,
        skip_broken: false,
        settings: harness.train_defaults().await.expect("settings"),
    }
}

async fn begin(harness: &Harness, script: &str) -> Run {
    let new = new_run(harness, script).await;
    harness.start_run(new).await.expect("a run")
}

/// The run once it is as expected.
async fn until(harness: &mut Harness, id: i64, expected: impl Fn(&Run) -> bool) -> Run {
    harness
        .next(|event| match event {
            Event::RunChanged { run } if run.id == id && expected(&run) => Some(*run),
            _ => None,
        })
        .await
}

async fn paused(harness: &mut Harness, id: i64, reason: PauseReason) -> Run {
    until(harness, id, |run| run.state == RunState::Paused { reason }).await
}

async fn running(harness: &mut Harness, id: i64) -> Run {
    until(harness, id, |run| run.state == RunState::Running).await
}

/// Waits for a step.
async fn stepped(harness: &mut Harness, step: u32) {
    harness
        .next(|event| matches!(event, Event::RunPoint { point, .. } if point.step == step).then_some(()))
        .await
}

/// The run once its end is saved.
async fn finished(harness: &mut Harness, id: i64) -> Run {
    until(harness, id, |run| {
        run.state == RunState::Finished && run.adapter.is_some()
    })
    .await
}

/// The run once it has failed or was interrupted.
async fn broken(harness: &mut Harness, id: i64) -> (Run, Problem) {
    let run = until(harness, id, |run| run.ended_at.is_some()).await;
    match run.state.clone() {
        RunState::Interrupted { problem } | RunState::Failed { problem } => (run, problem),
        state => panic!("it has ended well: {state:?}"),
    }
}

/// Sets the time at which a file appears to have been written.
fn set_modified(path: &str, time: SystemTime) {
    let file = fs::File::options().append(true).open(path).expect("a file");
    file.set_modified(time).expect("its time can be set");
}

/// The run in the list.
async fn listed(harness: &Harness, id: i64) -> Option<Run> {
    harness.runs().await.unwrap().into_iter().find(|run| run.id == id)
}

/// Finishes a run and returns its adapter.
async fn tuned(harness: &mut Harness) -> Adapter {
    let run = begin(harness, "learn 2").await;
    let adapter = finished(harness, run.id).await.adapter;
    let adapters = harness.adapters().await.unwrap();
    adapters
        .into_iter()
        .find(|listed| Some(listed.id) == adapter)
        .expect("an adapter")
}

fn steps(curves: &RunCurves) -> Vec<u32> {
    curves.points.iter().map(|point| point.step).collect()
}

fn folder(harness: &Harness, run: i64) -> PathBuf {
    harness.folder.path().join("data/runs").join(run.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_from_start_to_finish() {
    let mut harness = Harness::tiny();
    let begun = begin(&harness, "learn 5").await;
    assert!(matches!(begun.state, RunState::Preparing { .. }));
    assert_eq!(
        (begun.name.as_str(), begun.model_name.as_str()),
        ("script on A tiny model", "A tiny model")
    );
    let (mut heard, mut ended) = (Vec::new(), None);
    let run = loop {
        match harness.next(Some).await {
            Event::RunPoint { point, .. } => heard.push(point),
            Event::RunEnded { run } => ended = Some(run),
            Event::RunChanged { run } if run.adapter.is_some() => break *run,
            _ => {}
        }
    };
    assert_eq!(run.plan.as_ref().map(|plan| plan.steps), Some(5));
    assert_eq!(
        run.outcome.as_ref().map(|outcome| outcome.reason),
        Some(EndReason::Completed)
    );
    assert_eq!((run.checkpoint, run.last), (Some(4), heard.last().copied()));
    let ended = ended.expect("a notification");
    let losses = ended
        .outcome
        .as_ref()
        .map(|outcome| (outcome.eval_loss_before, outcome.eval_loss));
    assert_eq!((ended.id, &ended.state), (run.id, &RunState::Finished));
    assert_eq!(losses, Some((Some(3.0), Some(0.5))));
    let curves = harness.run_points(run.id).await.unwrap();
    assert_eq!(curves.points, heard);
    assert_eq!(steps(&curves), [1, 2, 3, 4, 5]);
    assert_eq!(
        curves
            .evaluations
            .iter()
            .map(|evaluation| evaluation.step)
            .collect::<Vec<_>>(),
        [0, 5]
    );
    let adapter = &harness.adapters().await.unwrap()[0];
    assert_eq!(
        (Some(adapter.id), adapter.run, adapter.problem.as_ref()),
        (run.adapter, Some(run.id), None)
    );
    assert_eq!(adapter.outcome, run.outcome);

    harness.rename_run(run.id, " My\nrun ".into()).await.unwrap();
    let harness = harness.again().await;
    let kept = listed(&harness, run.id).await.unwrap();
    assert_eq!(
        kept,
        Run {
            name: "My run".into(),
            ..run
        }
    );
    assert_eq!(harness.run_points(kept.id).await.unwrap(), curves);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_made_in_the_requested_build() {
    let mut harness = Harness::tiny();
    let mut settings = harness.snapshot().await.unwrap().settings;
    settings.build = Some("cuda".into());
    harness.set_settings(settings).await.unwrap();
    let run = begin(&harness, "learn 2").await;
    let run = finished(&mut harness, run.id).await;
    let plan = run.plan.expect("a plan");
    assert!(
        plan.notices.iter().any(|notice| notice.to_string() == OTHER_BUILD),
        "{plan:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_paused_resumed_and_stopped() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 100000").await.id;
    running(&mut harness, id).await;
    harness.pause_run(id).await.unwrap();
    paused(&mut harness, id, PauseReason::Person).await;
    harness.resume_run(id).await.unwrap();
    running(&mut harness, id).await;
    harness.stop_run(id).await.unwrap();
    let run = until(&mut harness, id, |run| run.adapter.is_some()).await;
    assert_eq!(run.state, RunState::Stopped);
    harness
        .stop_run(id)
        .await
        .expect("stopping what has stopped is nothing");
    assert_eq!(harness.pause_run(id).await.unwrap_err().code, ProblemCode::BadRequest);
    // A stopped run can be resumed, and still has one adapter.
    harness.resume_run(id).await.unwrap();
    assert_eq!(running(&mut harness, id).await.outcome, None);
    harness.stop_run(id).await.unwrap();
    let again = until(&mut harness, id, |run| {
        run.state == RunState::Stopped && run.adapter.is_some()
    })
    .await;
    assert_eq!(again.adapter, run.adapter);
    assert_eq!(harness.adapters().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_pauses_for_the_chat() {
    let mut harness = tiny_with(|options| options.chat_idle_delay = Duration::ZERO);
    let id = begin(&harness, "learn 100000").await.id;
    running(&mut harness, id).await;
    let sent = harness.say(None, "slow").await;
    paused(&mut harness, id, PauseReason::Chat).await;
    harness.stop(sent.conversation.id).await.unwrap();
    running(&mut harness, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stays_paused_between_two_answers() {
    let mut harness = tiny_with(|options| options.chat_idle_delay = Duration::from_secs(3600));
    let id = begin(&harness, "learn 100000").await.id;
    running(&mut harness, id).await;
    let first = harness.say(None, "slow").await;
    paused(&mut harness, id, PauseReason::Chat).await;
    harness.stop(first.conversation.id).await.unwrap();
    let mut states = Vec::new();
    let mut note = |event: &Event| {
        if let Event::RunChanged { run } = event {
            states.push(run.state.clone());
        }
    };
    let ends = |event: &Event, answer: i64| match event {
        Event::MessageChanged { message } => message.id == answer && !under_way(message),
        _ => false,
    };
    let answer = first.answer.id;
    harness
        .next(|event| {
            note(&event);
            ends(&event, answer).then_some(())
        })
        .await;
    let answer = harness.say(None, "say one").await.answer.id;
    harness
        .next(|event| {
            note(&event);
            ends(&event, answer).then_some(())
        })
        .await;
    // The worker acts on requests in order: it would have resumed before it stops.
    harness.stop_run(id).await.unwrap();
    harness
        .next(|event| {
            note(&event);
            matches!(event, Event::RunChanged { run } if run.adapter.is_some()).then_some(())
        })
        .await;
    assert!(!states.contains(&RunState::Running), "{states:?}");
}

/// A power supply that a test controls and observes.
#[derive(Debug, Default)]
struct Plug {
    low: bool,
    awake: watch::Sender<bool>,
}

impl Power for Plug {
    fn supply(&self) -> Supply {
        if self.low {
            Supply::Battery { charge: 0.1 }
        } else {
            Supply::Mains
        }
    }

    fn keep_awake(&self, awake: bool) {
        self.awake.send_replace(awake);
    }
}

fn plugged(low: bool) -> (Harness, Arc<Plug>) {
    let power = Arc::new(Plug { low, ..Plug::default() });
    (tiny_with(|options| options.power = power.clone()), power)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_low_battery_pauses_a_run() {
    let (mut harness, _) = plugged(true);
    let id = begin(&harness, "learn 100000").await.id;
    paused(&mut harness, id, PauseReason::Battery).await;
    harness.resume_run(id).await.unwrap();
    running(&mut harness, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_works_stays_awake() {
    let (mut harness, power) = plugged(false);
    let id = begin(&harness, "learn 100000").await.id;
    running(&mut harness, id).await;
    becomes(&power.awake, true).await;
    harness.pause_run(id).await.unwrap();
    becomes(&power.awake, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_is_told_whether_there_is_mains_power() {
    let (mut mains, _) = plugged(false);
    assert!(!shown(&mains.answer("show").await).on_battery);
    // It is read in the background.
    let (mut battery, _) = plugged(true);
    let is_on_battery = async { while !shown(&battery.answer("show").await).on_battery {} };
    timeout(PATIENCE, is_on_battery).await.expect("the worker is told");
}

async fn becomes(flag: &watch::Sender<bool>, expected: bool) {
    let mut changes = flag.subscribe();
    let wait = changes.wait_for(|value| *value == expected);
    timeout(PATIENCE, wait)
        .await
        .expect("a change")
        .expect("a power supply");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_interrupts_the_run_which_can_be_resumed() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 5 die 3").await.id;
    let (run, problem) = broken(&mut harness, id).await;
    assert_eq!((problem.code, run.checkpoint), (ProblemCode::WorkerDied, Some(2)));
    assert!(
        problem.to_string().contains("exit code 6") && problem.to_string().contains("Resume"),
        "{problem}"
    );
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2, 3]);
    harness.resume_run(id).await.unwrap();
    finished(&mut harness, id).await;
    let curves = harness.run_points(id).await.unwrap();
    assert_eq!(steps(&curves), [1, 2, 3, 4, 5], "the third step was repeated");
    assert_eq!(curves.evaluations.len(), 2, "before the first step and after the last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_run_can_be_retried() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 3 fail 1").await.id;
    let (run, problem) = broken(&mut harness, id).await;
    assert_eq!((problem.code, run.checkpoint), (ProblemCode::DiskFull, None));
    data(&harness, "learn 3");
    harness.resume_run(id).await.unwrap();
    finished(&mut harness, id).await;
    assert_eq!(
        steps(&harness.run_points(id).await.unwrap()),
        [1, 2, 3],
        "from the start"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_start_fails_the_run() {
    let mut harness = tiny_with(|options| options.worker = WorkerCommand::new("no-such-folder/hearth"));
    let id = begin(&harness, "learn 3").await.id;
    let (_, problem) = broken(&mut harness, id).await;
    assert!(problem.to_string().contains("no-such-folder"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_interrupts_the_run_which_can_be_resumed() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 6 wait 4").await.id;
    until(&mut harness, id, |run| run.checkpoint == Some(4)).await;
    let mut harness = harness.again().await;
    let run = listed(&harness, id).await.unwrap();
    assert!(
        matches!(&run.state, RunState::Interrupted { problem } if problem.to_string().contains("closed")),
        "{run:?}"
    );
    harness.resume_run(id).await.unwrap();
    let run = finished(&mut harness, id).await;
    assert_eq!(run.last.map(|point| point.step), Some(6));
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_completes_the_step_and_saves_it() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 9 wait 5").await.id;
    stepped(&mut harness, 5).await;
    harness.shut_down().await.unwrap();
    harness
        .next(|event| matches!(event, Event::Closing { run } if run == id).then_some(()))
        .await;
    let mut harness = harness.again().await;
    let run = listed(&harness, id).await.unwrap();
    // The last scheduled checkpoint is of step 4, and step 6 was running.
    assert_eq!((run.checkpoint, run.last.map(|point| point.step)), (Some(6), Some(6)));
    assert!(matches!(&run.state, RunState::Interrupted { problem } if problem.to_string().contains("closed")));
    assert_eq!(run.adapter, None, "closing evaluates nothing");
    harness.resume_run(id).await.unwrap();
    let first = harness.next(|event| match event {
        Event::RunPoint { point, .. } => Some(point.step),
        _ => None,
    });
    assert_eq!(first.await, 7);
    finished(&mut harness, id).await;
    assert_eq!(
        steps(&harness.run_points(id).await.unwrap()),
        [1, 2, 3, 4, 5, 6, 7, 8, 9]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_has_a_timeout() {
    let mut harness = tiny_with(|options| options.shutdown_timeout = Duration::from_millis(200));
    let id = begin(&harness, "learn 9 deaf 5").await.id;
    stepped(&mut harness, 5).await;
    let harness = harness.again().await;
    let run = listed(&harness, id).await.unwrap();
    assert_eq!((run.checkpoint, run.last.map(|point| point.step)), (Some(4), Some(5)));
    assert!(matches!(run.state, RunState::Interrupted { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_at_a_time() {
    let mut harness = Harness::tiny();
    let new = new_run(&harness, "learn 100000").await;
    let first = harness.start_run(new.clone()).await.unwrap();
    let refused = harness.start_run(new.clone()).await.unwrap_err();
    assert_eq!(refused.code, ProblemCode::Busy);
    assert!(refused.to_string().contains(&first.name));
    harness.delete_run(first.id).await.unwrap();
    let second = harness.start_run(new).await.expect("free again");
    running(&mut harness, second.id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_run_can_be_restored_until_the_next_start() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    let id = adapter.run.unwrap();
    harness.delete_run(id).await.unwrap();
    assert!(harness.runs().await.unwrap().is_empty() && harness.adapters().await.unwrap().is_empty());
    assert_eq!(harness.run_points(id).await.unwrap_err().code, ProblemCode::NotFound);
    harness.restore_run(id).await.unwrap();
    assert_eq!(harness.adapters().await.unwrap()[0], adapter);
    harness.delete_adapter(adapter.id).await.unwrap();
    assert_eq!(listed(&harness, id).await.unwrap().adapter, None);
    harness.restore_adapter(adapter.id).await.unwrap();
    assert!(Path::new(&adapter.path).exists());

    harness.delete_run(id).await.unwrap();
    assert!(folder(&harness, id).exists());
    let harness = harness.again().await;
    assert!(!folder(&harness, id).exists());
    assert_eq!(harness.restore_run(id).await.unwrap_err().code, ProblemCode::NotFound);
    assert!(harness.adapters().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_saved_is_kept_in_memory() {
    let mut harness = Harness::tiny();
    let new = new_run(&harness, "learn 5 wait 3").await;
    let id = harness.start_run(new.clone()).await.unwrap().id;
    stepped(&mut harness, 3).await;
    // Like a full disk, but at once: free space within a page would delay it.
    let full = "CREATE TRIGGER full BEFORE UPDATE ON run BEGIN SELECT raise(ABORT, 'full'); END";
    harness.store().write(|t| t.execute_batch(full)).unwrap();
    harness.stop_run(id).await.unwrap();
    let run = until(&mut harness, id, |run| run.state == RunState::Stopped).await;
    assert_eq!(listed(&harness, id).await, Some(run));
    assert!(harness.adapters().await.unwrap().is_empty());
    assert_eq!(
        harness.start_run(new.clone()).await.unwrap_err().code,
        ProblemCode::DiskFull
    );
    harness.store().write(|t| t.execute_batch("DROP TRIGGER full")).unwrap();
    let curves = harness.run_points(id).await.unwrap();
    assert_eq!(steps(&curves), [1, 2, 3], "saved once there is space");
    assert_eq!(harness.adapters().await.unwrap()[0].run, Some(id));
    harness.start_run(new).await.expect("free again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_files_are_reported() {
    let mut harness = Harness::tiny();
    let new = new_run(&harness, "learn 5 die 3").await;
    let path = harness.folder.path().join("script.jsonl");
    let no_model = NewRun {
        model: "nothing".into(),
        ..new.clone()
    };
    assert_eq!(
        harness.start_run(no_model).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    let no_data = NewRun {
        dataset: 99,
        ..new.clone()
    };
    assert_eq!(
        harness.start_run(no_data).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    let mut no_adapter = new.clone();
    no_adapter.settings.init = Some(99);
    assert_eq!(
        harness.start_run(no_adapter).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    assert!(
        harness.runs().await.unwrap().is_empty(),
        "a run that cannot start leaves nothing behind"
    );

    let id = harness.start_run(new.clone()).await.unwrap().id;
    broken(&mut harness, id).await;
    fs::remove_file(&path).unwrap();
    let gone = harness.resume_run(id).await.unwrap_err();
    assert_eq!(gone.code, ProblemCode::FileUnreadable);
    assert!(gone.to_string().contains("script.jsonl"), "{gone}");
    assert_eq!(
        harness.start_run(new).await.unwrap_err().code,
        ProblemCode::FileUnreadable
    );
    assert!(harness.datasets().await.unwrap()[0].problem.is_some());
    data(&harness, "learn 5 die 3");
    let model = harness.folder.path().join("bundled/tiny.gguf");
    fs::rename(&model, model.with_extension("away")).unwrap();
    assert_eq!(harness.resume_run(id).await.unwrap_err().code, ProblemCode::NotFound);
    fs::rename(model.with_extension("away"), &model).unwrap();
    harness.resume_run(id).await.unwrap();
    finished(&mut harness, id).await;
    assert_eq!(harness.resume_run(99).await.unwrap_err().code, ProblemCode::NotFound);
    assert_eq!(harness.delete_run(99).await.unwrap_err().code, ProblemCode::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datasets_are_added_inspected_and_removed() {
    let harness = Harness::tiny();
    let samples = harness.folder.path().join("samples");
    fs::create_dir_all(&samples).unwrap();
    fs::write(samples.join("pirate.jsonl"), "{}").unwrap();
    fs::write(samples.join("README.md"), "no data").unwrap();
    let sample = &harness.sample_datasets().await.unwrap()[..];
    assert!(
        matches!(sample, [one] if one.name == "pirate" && one.size == 2),
        "{sample:?}"
    );

    let path = data(&harness, "one two three");
    let dataset = harness.add_dataset(path.clone()).await.unwrap();
    assert_eq!((dataset.name.as_str(), dataset.examples), ("script", None));
    let mapping = ColumnMapping {
        text: Some("text".into()),
        ..ColumnMapping::default()
    };
    let seen = harness
        .inspect_dataset(dataset.id, "tiny".into(), Some(mapping.clone()), true, Some(64), None)
        .await
        .unwrap();
    assert_eq!(
        (seen.examples, seen.sequence, seen.mapping, seen.unsure),
        (3, 64, mapping, false)
    );
    assert_eq!(seen.previews[0].pieces[0].text, "one two three");
    assert_eq!(seen.findings[0].severity, Severity::Warning);
    assert_eq!(harness.datasets().await.unwrap()[0].examples, Some(3));

    harness.rename_dataset(dataset.id, "Mine".into()).await.unwrap();
    harness.remove_dataset(dataset.id).await.unwrap();
    assert!(harness.datasets().await.unwrap().is_empty() && path.exists());
    let gone = harness
        .inspect_dataset(dataset.id, "tiny".into(), None, false, None, None)
        .await;
    assert_eq!(gone.unwrap_err().code, ProblemCode::NotFound);
    harness.restore_dataset(dataset.id).await.unwrap();
    assert_eq!(harness.add_dataset(path).await.unwrap().id, dataset.id);
    let harness = harness.again().await;
    assert_eq!(harness.datasets().await.unwrap()[0].name, "Mine");
    for path in ["nowhere.jsonl", "."] {
        assert_eq!(
            harness.add_dataset(path.into()).await.unwrap_err().code,
            ProblemCode::FileUnreadable
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_inspection_cancels_an_older_one() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("endless {}", listener.local_addr().unwrap());
    let dataset = harness.add_dataset(data(&harness, &script)).await.unwrap();
    let inspect = || harness.inspect_dataset(dataset.id, "tiny".into(), None, false, None, None);
    let work = async {
        let worker = accept(listener).await;
        let order = ExportOptions {
            adapter: adapter.id,
            format: ExportFormat::GgufLora,
            out: harness.folder.path().join("out.gguf").to_string_lossy().into_owned(),
            verify: false,
        };
        harness.export_adapter(order).await.unwrap();
        data(&harness, "one two");
        let new = inspect().await;
        closes(worker);
        new
    };
    let (endless, new) = tokio::join!(inspect(), work);
    assert_eq!(endless.unwrap_err().code, ProblemCode::Cancelled);
    assert_eq!(new.unwrap().examples, 2);
}

/// The connection of the worker that inspects an endless dataset.
async fn accept(listener: TcpListener) -> TcpStream {
    let (send, accepted) = oneshot::channel();
    // The end of a test does not wait for this thread, as it would for a task's.
    thread::spawn(move || send.send(listener.accept()));
    let accepted = timeout(PATIENCE, accepted).await.expect("a worker that connects");
    accepted.unwrap().unwrap().0
}

/// Waits until the process at the other end is gone.
fn closes(mut connection: TcpStream) {
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    match connection.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("it still runs: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapters_are_imported_checked_and_exported() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    let out = harness.folder.path().join("out.gguf");
    let order = ExportOptions {
        adapter: adapter.id,
        format: ExportFormat::GgufLora,
        out: out.to_string_lossy().into_owned(),
        verify: true,
    };
    let written = harness.export_adapter(order.clone()).await.unwrap();
    assert!(written.bytes == 8 && written.verification.is_some_and(|verification| verification.passed) && out.exists());
    fs::remove_file(&adapter.path).unwrap();
    assert_eq!(
        harness.export_adapter(order).await.unwrap_err().code,
        ProblemCode::FileUnreadable
    );
    assert!(harness.adapters().await.unwrap()[0].problem.is_some());

    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let bundled = harness.folder.path().join("bundled");
    for model in ["llama.gguf", "llama3.gguf"] {
        fs::copy(fixtures.join("models").join(model), bundled.join(model)).unwrap();
    }
    let peft = harness.folder.path().join("peft");
    fs::create_dir_all(&peft).unwrap();
    let copy = |file: &str| fs::copy(fixtures.join("training/llama/end").join(file), peft.join(file)).unwrap();
    copy("adapter_config.json");
    let half = harness
        .import_adapter(peft.clone(), Some("llama".into()))
        .await
        .unwrap_err();
    assert_eq!(half.code, ProblemCode::AdapterInvalid);
    assert!(half.to_string().contains("adapter_model.safetensors"), "{half}");
    copy("adapter_model.safetensors");
    for (path, model, code) in [
        (peft.clone(), "llama3", ProblemCode::AdapterInvalid),
        (peft.clone(), "nothing", ProblemCode::NotFound),
        (bundled.join("llama.gguf"), "llama", ProblemCode::AdapterInvalid),
        (
            harness.folder.path().join("script.jsonl"),
            "llama",
            ProblemCode::AdapterInvalid,
        ),
        ("nowhere".into(), "llama", ProblemCode::FileUnreadable),
    ] {
        assert_eq!(
            harness.import_adapter(path, Some(model.into())).await.unwrap_err().code,
            code
        );
    }
    let imported = harness
        .import_adapter(peft.clone(), Some("llama".into()))
        .await
        .unwrap();
    assert_eq!(
        (imported.name.as_str(), imported.run, imported.problem.as_ref()),
        ("peft", None, None)
    );
    harness.rename_adapter(imported.id, "Theirs".into()).await.unwrap();
    harness.delete_adapter(imported.id).await.unwrap();
    assert_eq!(
        harness.rename_adapter(imported.id, "x".into()).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    let harness = harness.again().await;
    assert!(peft.exists(), "imported files are not deleted");
    assert_eq!(
        harness.restore_adapter(imported.id).await.unwrap_err().code,
        ProblemCode::NotFound
    );
}

/// The worker's request of an answer.
fn shown(answer: &Message) -> GenerateRequest {
    serde_json::from_str(&answer.text()).expect("the request, shown")
}

/// The base model beside an adapter.
fn with_base(adapter: &Adapter) -> Vec<ComparedAnswer> {
    let adapters = vec![choice(adapter)];
    vec![
        ComparedAnswer::default(),
        ComparedAnswer {
            adapters,
            ..ComparedAnswer::default()
        },
    ]
}

fn choice(adapter: &Adapter) -> AdapterChoice {
    AdapterChoice {
        adapter: adapter.id,
        scale: 0.5,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapters_of_a_conversation_are_sent_to_the_worker() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    let plain = harness.answer("show").await;
    assert!(shown(&plain).adapters.is_empty() && plain.adapters.is_empty());
    let id = plain.conversation;
    harness
        .set_conversation_adapters(id, vec![choice(&adapter)])
        .await
        .unwrap();
    let sent = harness.say(Some(id), "show").await;
    let answer = harness.ended(sent.answer.id).await;
    let used = shown(&answer).adapters;
    assert!(
        matches!(&used[..], [one] if one.path == Path::new(&adapter.path) && one.scale == 0.5),
        "{used:?}"
    );
    assert_eq!(answer.adapters[0].name, adapter.name);

    let mut harness = harness.again().await;
    let kept = harness.conversation(id).await;
    assert_eq!((kept.adapters, &kept.messages[3]), (vec![choice(&adapter)], &answer));
    harness.delete_adapter(adapter.id).await.unwrap();
    let sent = harness.say(Some(id), "show").await;
    let refused = harness.ended(sent.answer.id).await;
    assert_eq!(
        failure(&refused).code,
        ProblemCode::NotFound,
        "it does not ignore the chosen adapter"
    );
    harness.set_conversation_adapters(id, Vec::new()).await.unwrap();
    let again = harness.regenerate(refused.id).await.unwrap();
    assert!(shown(&harness.ended(again.answer.id).await).adapters.is_empty());
}

/// The system prompt of an answer with an adapter that was trained under `trained`.
async fn prompt_of_a_chat(trained: Option<&str>, own: Option<&str>) -> Option<String> {
    let mut harness = Harness::tiny();
    let mut new = new_run(&harness, "learn 2").await;
    new.settings.system_prompt = trained.map(str::to_owned);
    let run = harness.start_run(new).await.expect("a run").id;
    finished(&mut harness, run).await;
    let adapter = harness.adapters().await.unwrap().remove(0);
    let id = harness.answer("show").await.conversation;
    harness
        .set_conversation_adapters(id, vec![choice(&adapter)])
        .await
        .unwrap();
    harness.set_system_prompt(id, own.map(str::to_owned)).await.unwrap();
    let sent = harness.say(Some(id), "show").await;
    let Prompt::Chat(turns) = shown(&harness.ended(sent.answer.id).await).prompt else {
        panic!("no chat")
    };
    let first = turns.first().expect("a turn");
    (first.role == Role::System).then(|| first.text())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_with_an_adapter_has_the_system_prompt_of_its_training() {
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(prompt_of_a_chat(Some("Be brief."), None).await, text("Be brief."));
    assert_eq!(prompt_of_a_chat(Some("Be brief."), Some("Sing.")).await, text("Sing."));
    assert_eq!(prompt_of_a_chat(Some(""), None).await, text(""));
    assert_eq!(prompt_of_a_chat(None, None).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_of_another_model_is_refused() {
    let mut harness = Harness::new(&["tiny.gguf", "other.gguf"]);
    let adapter = tuned(&mut harness).await;
    harness.load_model("other".into()).await.unwrap();
    let compared = harness
        .compare(
            None,
            None,
            "say one".into(),
            Vec::new(),
            with_base(&adapter),
            NewConversation::default(),
        )
        .await
        .unwrap();
    let [base, tuned] = harness.all_ended(ids(&compared)).await;
    assert_eq!(failure(&tuned).code, ProblemCode::AdapterInvalid);
    assert!(failure(&tuned).to_string().contains(&adapter.name));
    assert_eq!(base.text(), "one", "the other answer is generated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_answers_side_by_side_and_a_vote() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    let compared = harness
        .compare(
            None,
            None,
            "show".into(),
            Vec::new(),
            with_base(&adapter),
            NewConversation::default(),
        )
        .await
        .unwrap();
    let id = compared.conversation.id;
    let [base, tuned] = harness.all_ended(ids(&compared)).await;
    assert_eq!((base.comparison, tuned.comparison), (Some(tuned.id), Some(base.id)));
    assert_eq!(base.parent, tuned.parent);
    assert_eq!((shown(&base).adapters.len(), shown(&tuned).adapters.len()), (0, 1));
    let votes = |adapters: Vec<Adapter>| (adapters[0].votes.base, adapters[0].votes.tuned);
    let better = |conversation: &Conversation| -> Vec<bool> {
        conversation.messages[1..]
            .iter()
            .map(|message| message.better)
            .collect()
    };

    harness.vote_answer(base.id, true).await.unwrap();
    let shown = harness.conversation(id).await;
    assert_eq!((shown.leaf, better(&shown)), (Some(base.id), vec![true, false]));
    assert_eq!(votes(harness.adapters().await.unwrap()), (1, 0));
    harness.vote_answer(tuned.id, true).await.unwrap();
    let shown = harness.conversation(id).await;
    assert_eq!((shown.leaf, better(&shown)), (Some(tuned.id), vec![false, true]));
    assert_eq!(votes(harness.adapters().await.unwrap()), (0, 1));
    harness.vote_answer(tuned.id, false).await.unwrap();
    assert_eq!(votes(harness.adapters().await.unwrap()), (0, 0));
    let follow = harness.say(Some(id), "say on").await;
    assert_eq!(follow.user.unwrap().parent, Some(tuned.id));
    harness.ended(follow.answer.id).await;
    harness.vote_answer(base.id, true).await.unwrap();
    assert_eq!(
        harness.conversation(id).await.leaf,
        Some(follow.answer.id),
        "a conversation that has continued keeps its branch"
    );
    assert_eq!(
        harness.vote_answer(follow.answer.id, true).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
    let nothing = harness
        .compare(
            Some(id),
            None,
            "say one".into(),
            Vec::new(),
            vec![ComparedAnswer::default()],
            NewConversation::default(),
        )
        .await;
    assert_eq!(nothing.unwrap_err().code, ProblemCode::BadRequest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_begins_a_conversation_with_its_settings() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    let fresh = |temperature| NewConversation {
        settings: ConversationSettings {
            sampling: SamplingOverrides {
                temperature: Some(temperature),
                ..SamplingOverrides::default()
            },
            max_tokens: Some(99),
            ..ConversationSettings::default()
        },
        system_prompt: Some("Be brief.".into()),
        ..NewConversation::default()
    };
    let hot = harness
        .compare(None, None, "show".into(), Vec::new(), with_base(&adapter), fresh(101.0))
        .await;
    assert_eq!(hot.unwrap_err().code, ProblemCode::BadRequest);
    let compared = harness
        .compare(None, None, "show".into(), Vec::new(), with_base(&adapter), fresh(0.25))
        .await
        .unwrap();
    for answer in harness.all_ended::<2>(ids(&compared)).await {
        let request = shown(&answer);
        assert_eq!((request.sampling.temperature, request.max_tokens), (0.25, Some(99)));
        let Prompt::Chat(turns) = request.prompt else {
            panic!("no chat")
        };
        assert_eq!(turns[0].text(), "Be brief.");
    }
    let kept = harness.conversation(compared.conversation.id).await;
    assert_eq!(
        (kept.settings, kept.system_prompt),
        (fresh(0.25).settings, fresh(0.25).system_prompt)
    );
    // A conversation that exists keeps its own.
    let id = compared.conversation.id;
    let again = harness
        .compare(
            Some(id),
            None,
            "show".into(),
            Vec::new(),
            with_base(&adapter),
            fresh(0.75),
        )
        .await
        .unwrap();
    let [base, _] = harness.all_ended(ids(&again)).await;
    assert_eq!(shown(&base).sampling.temperature, 0.25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_ends_both_answers() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    let compared = harness
        .compare(
            None,
            None,
            "slow".into(),
            Vec::new(),
            with_base(&adapter),
            NewConversation::default(),
        )
        .await
        .unwrap();
    harness.streaming(compared.answers[0].id).await;
    harness.stop(compared.conversation.id).await.unwrap();
    let ends: [Message; 2] = harness.all_ended(ids(&compared)).await;
    assert!(
        ends.iter().all(|answer| answer.state == MessageState::Stopped),
        "{ends:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rated_answers_become_a_dataset() {
    let mut harness = Harness::tiny();
    assert_eq!(
        harness.dataset_from_ratings("Mine".into()).await.unwrap_err().code,
        ProblemCode::DataInvalid
    );
    let good = harness.answer("say one").await;
    harness.rate_answer(good.id, Some(Thumb::Up), None).await.unwrap();
    let next = harness.say(Some(good.conversation), "say two").await;
    let wrong = harness.ended(next.answer.id).await;
    harness.rate_answer(wrong.id, None, Some("three".into())).await.unwrap();
    let bad = harness.answer("say four").await;
    harness.rate_answer(bad.id, Some(Thumb::Down), None).await.unwrap();
    let after = harness.say(Some(bad.conversation), "say five").await;
    harness.ended(after.answer.id).await;
    harness
        .rate_answer(after.answer.id, Some(Thumb::Up), None)
        .await
        .unwrap();
    harness
        .set_system_prompt(good.conversation, Some("Count.".into()))
        .await
        .unwrap();
    let kept = &harness.conversation(wrong.conversation).await.messages[3];
    let rating = Rating {
        thumb: Thumb::Down,
        correction: Some("three".into()),
    };
    assert_eq!(kept.rating, Some(rating));
    assert_eq!(
        harness.rated_examples().await,
        Ok(2),
        "conversations with a bad answer are left out"
    );

    let dataset = harness.dataset_from_ratings(" My / answers ".into()).await.unwrap();
    assert_eq!(dataset.name, "My / answers");
    let written = fs::read_to_string(&dataset.path).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    let begin = r#"{"messages":[{"role":"system","content":"Count."},{"role":"user","content":"say one"},{"role":"assistant","content":"one"}"#;
    let end = r#",{"role":"user","content":"say two"},{"role":"assistant","content":"three"}]}"#;
    assert_eq!(lines, [format!("{begin}]}}"), format!("{begin}{end}")]);

    harness.rate_answer(good.id, None, None).await.unwrap();
    assert_eq!(harness.rated_examples().await, Ok(1));
    let user = wrong.parent.unwrap();
    assert_eq!(
        harness.rate_answer(user, Some(Thumb::Up), None).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
}

/// The contents of each version's store are described in `tests/fixtures/v0/make.py`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_every_released_version_are_read() {
    for version in 1..=14 {
        let folder = tempfile::tempdir().unwrap();
        support::model(&folder.path().join("bundled"), "tiny.gguf");
        let data = folder.path().join("data");
        fs::create_dir_all(&data).unwrap();
        let fixture = fixtures().join(format!("v0/store/{version}.db"));
        fs::copy(fixture, data.join("hearth.db")).unwrap();
        let harness = Harness::open(folder);

        let snapshot = harness.snapshot().await.unwrap();
        let titles: Vec<_> = snapshot
            .conversations
            .iter()
            .map(|conversation| conversation.title.as_str())
            .collect();
        assert_eq!(titles, ["Of cormorants"], "version {version}");
        let conversation = harness.open_conversation(1).await.unwrap();
        assert_eq!(conversation.system_prompt.as_deref(), Some("Be brief."));
        assert_eq!(conversation.adapters.len(), usize::from(version >= 11));
        let messages: Vec<_> = conversation
            .messages
            .iter()
            .map(|message| (message.text(), message.state.clone()))
            .collect();
        match version {
            1 => assert!(messages.is_empty()),
            _ => assert_eq!(
                messages,
                [
                    ("What is a cormorant?".to_owned(), MessageState::Complete),
                    ("A seabird.".to_owned(), MessageState::Complete),
                    ("A bird that".to_owned(), MessageState::Stopped),
                ]
            ),
        }
        if version >= 2 {
            let answer = &conversation.messages[1];
            assert_eq!((conversation.leaf, answer.parent), (Some(2), Some(1)));
            assert_eq!(
                answer.stats.as_ref().map(|stats| (stats.tokens, stats.draft)),
                Some((3, None))
            );
            assert_eq!(
                answer.rating.is_some() && answer.adapters[0].scale == 0.5,
                version >= 12
            );
        }
        assert_eq!(
            harness
                .search("seabird".into(), SearchFilter::default())
                .await
                .unwrap()
                .len(),
            usize::from(version >= 2)
        );
        let set = Settings {
            theme: Theme::Dark,
            threads: Some(3),
            context: Some(4096),
            device: Some("gpu0".into()),
            build: Some("vulkan".into()),
            gpu_layers: GpuLayers::Count(7),
            kv: KvType::Q8_0,
            last_model: Some("tiny".into()),
            prompt_cache_limit: 1_000_000,
            ..Settings::default()
        };
        let expected = if version >= 4 { set } else { Settings::default() };
        assert_eq!(snapshot.settings, expected, "version {version}");
        let models = harness.store().read(|t| hearth_app::store::model::list(t)).unwrap();
        assert_eq!(models.len(), usize::from(version >= 5));
        let datasets = harness.datasets().await.unwrap();
        assert_eq!(
            datasets.iter().map(|dataset| dataset.examples).collect::<Vec<_>>(),
            vec![Some(12); usize::from(version >= 6)]
        );
        check_released_runs(&harness, version).await;
        let measured = harness
            .store()
            .read(|t| hearth_app::store::measurement::list(t, 9))
            .unwrap();
        // Version 14 dropped and recreated the table of version 13: measurements can be repeated.
        assert_eq!(measured.len(), usize::from(version >= 14));
    }
}

async fn check_released_runs(harness: &Harness, version: u32) {
    let runs = harness.runs().await.unwrap();
    assert_eq!(runs.len(), if version >= 7 { 2 } else { 0 }, "version {version}");
    if let [cut_off, done] = &runs[..] {
        assert!(matches!(cut_off.state, RunState::Interrupted { .. }) && cut_off.checkpoint == Some(2));
        assert_eq!(
            (&done.state, done.adapter),
            (&RunState::Finished, (version >= 10).then_some(1))
        );
        assert_eq!((done.settings.rank, done.settings.schedule), (8, Schedule::Linear));
        assert_eq!(
            (done.settings.seed, &done.settings.targets[..]),
            (7, &["q_proj".to_owned()][..])
        );
        assert_eq!(done.outcome.as_ref().and_then(|outcome| outcome.eval_loss), Some(1.25));
        let curves = harness.run_points(1).await.unwrap();
        assert_eq!(steps(&curves), if version >= 8 { vec![1, 2, 3] } else { vec![] });
        assert_eq!(curves.evaluations.len(), usize::from(version >= 9));
    }
    let adapters = harness.adapters().await.unwrap();
    let names: Vec<_> = adapters.iter().map(|adapter| (&*adapter.name, adapter.run)).collect();
    let both = [("Theirs", None), ("Tales on tiny", Some(1))];
    assert_eq!(names, both[..if version >= 10 { 2 } else { 0 }]);
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// A finished run with a real adapter for the model `llama`.
async fn really_tuned(harness: &mut Harness) -> Adapter {
    let adapter = tuned(harness).await;
    let folder = Path::new(&adapter.path);
    fs::remove_file(folder).unwrap();
    fs::create_dir(folder).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(fixtures().join("training/llama/end").join(file), folder.join(file)).unwrap();
    }
    let model = harness.folder.path().join("bundled/llama.gguf");
    fs::copy(fixtures().join("models/llama.gguf"), model).unwrap();
    adapter
}

/// Imports a run's adapter in place.
async fn import(harness: &Harness, adapter: &Adapter) -> Adapter {
    let path = adapter.path.clone().into();
    harness
        .import_adapter(path, Some("llama".into()))
        .await
        .expect("an adapter")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_imported_adapter_owns_no_files() {
    let mut harness = Harness::tiny();
    let adapter = really_tuned(&mut harness).await;
    let imported = import(&harness, &adapter).await;
    assert_eq!(imported.run, None);
    harness.delete_adapter(imported.id).await.unwrap();
    let harness = harness.again().await;
    assert_eq!(harness.adapters().await.unwrap().len(), 1, "the imported one is gone");
    assert!(
        Path::new(&adapter.path).join("adapter_model.safetensors").exists(),
        "the files are the run's"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_adapter_was_imported_keeps_its_files() {
    let mut harness = Harness::tiny();
    let adapter = really_tuned(&mut harness).await;
    let imported = import(&harness, &adapter).await;
    let weights = Path::new(&adapter.path).join("adapter_model.safetensors");
    // Neither deletion removes files that hold another adapter.
    harness.delete_adapter(adapter.id).await.unwrap();
    let harness = harness.again().await;
    assert!(weights.exists());
    harness.delete_run(adapter.run.unwrap()).await.unwrap();
    let harness = harness.again().await;
    assert!(weights.exists() && harness.runs().await.unwrap().is_empty());
    assert_eq!(harness.adapters().await.unwrap()[0].id, imported.id);
    // Its deletion removes them.
    harness.delete_adapter(imported.id).await.unwrap();
    let harness = harness.again().await.again().await;
    assert!(!folder(&harness, adapter.run.unwrap()).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_written_again_after_its_deletion_stays() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 6 wait 4").await.id;
    until(&mut harness, id, |run| run.checkpoint == Some(4)).await;
    harness.stop_run(id).await.unwrap();
    let first = until(&mut harness, id, |run| run.adapter.is_some()).await.adapter;
    harness.delete_adapter(first.unwrap()).await.unwrap();
    harness.resume_run(id).await.unwrap();
    until(&mut harness, id, |run| run.state == RunState::Finished).await;
    // The end is saved a moment after its event.
    harness.run_points(id).await.unwrap();
    let made = harness.adapters().await.unwrap();
    assert_eq!(made.iter().map(|adapter| Some(adapter.id)).collect::<Vec<_>>(), [first]);
    let harness = harness.again().await;
    assert_eq!(harness.adapters().await.unwrap(), made);
    assert!(Path::new(&made[0].path).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_an_adapter_that_a_killed_run_wrote_again_is_undone() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    harness.delete_adapter(adapter.id).await.unwrap();
    // Like a resumed run that was killed before its end was saved.
    fs::write(&adapter.path, "better!").unwrap();
    let minute = Duration::from_secs(60);
    set_modified(&adapter.path, SystemTime::now() + minute);
    let harness = harness.again().await;
    assert_eq!(harness.adapters().await.unwrap(), std::slice::from_ref(&adapter));
    assert_eq!(fs::read_to_string(&adapter.path).unwrap(), "better!");
    // A deletion after the last change removes it.
    set_modified(&adapter.path, SystemTime::now() - minute);
    harness.delete_adapter(adapter.id).await.unwrap();
    let harness = harness.again().await;
    assert!(harness.adapters().await.unwrap().is_empty() && !Path::new(&adapter.path).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_in_a_recovery_candidate_exists() {
    let mut harness = Harness::tiny();
    let adapter = tuned(&mut harness).await;
    let beside = Path::new(&adapter.path).with_file_name(".adapter.last");
    fs::rename(&adapter.path, &beside).unwrap();
    assert_eq!(harness.adapters().await.unwrap()[0].problem, None);
    harness.delete_adapter(adapter.id).await.unwrap();
    let harness = harness.again().await;
    assert!(harness.adapters().await.unwrap().is_empty() && !beside.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_unknown_to_the_store_is_resumed_from() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 5 die 3").await.id;
    broken(&mut harness, id).await;
    // As if the app was killed before it saved the worker's last checkpoint.
    let forget = "UPDATE run SET checkpoint = NULL";
    harness.store().write(|t| t.execute_batch(forget)).unwrap();
    fs::write(folder(&harness, id).join("checkpoint"), "4").unwrap();
    harness.resume_run(id).await.unwrap();
    finished(&mut harness, id).await;
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2, 3, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_run_shows_no_step_after_that_of_its_adapter() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 5 die 3").await.id;
    broken(&mut harness, id).await;
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2, 3]);
    // It is resumed from its checkpoint after the second step, and has no further one.
    data(&harness, "learn 2");
    harness.resume_run(id).await.unwrap();
    let run = finished(&mut harness, id).await;
    assert_eq!(run.outcome.expect("an outcome").steps, 2);
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2]);
    let last = listed(&harness, id).await.expect("the run").last;
    assert_eq!(last.expect("a step").step, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_folders_of_a_store_that_was_set_aside_stay() {
    let mut harness = Harness::tiny();
    let checkpoint = folder(&harness, 7).join("checkpoint");
    fs::create_dir_all(folder(&harness, 7)).unwrap();
    fs::write(&checkpoint, "another run's").unwrap();
    for id in [8, 9] {
        assert_eq!(begin(&harness, "learn 2").await.id, id);
        finished(&mut harness, id).await;
    }
    assert_eq!(fs::read_to_string(checkpoint).unwrap(), "another run's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_deleted_before_it_begins_does_not_begin() {
    let folder = tempfile::tempdir().expect("a folder");
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let app: Arc<OnceLock<App>> = Arc::default();
    let itself = app.clone();
    let (has_begun, steps) = (AtomicBool::new(false), Arc::new(AtomicU32::new(0)));
    let counted = steps.clone();
    let opened = App::open(options(&folder), move |Announced { event, .. }| {
        match (&event, itself.get()) {
            // Called by the thread that has added the run, before the command to start it.
            (Event::RunChanged { run }, Some(app)) if !has_begun.swap(true, Ordering::SeqCst) => {
                let deleted = Handle::current().block_on(app.delete_run(run.id));
                deleted.expect("deleted");
            }
            (Event::RunPoint { .. }, _) => drop(counted.fetch_add(1, Ordering::SeqCst)),
            _ => {}
        }
    });
    app.set(opened.expect("an app")).ok().expect("set once");
    let app = app.get().expect("set");
    let path = folder.path().join("script.jsonl");
    fs::write(&path, "learn 3").expect("a dataset");
    let dataset = app.add_dataset(path).await.expect("a dataset");
    let new = NewRun {
        name: None,
        model: "tiny".into(),
        dataset: dataset.id,
        mapping: None,
        skip_broken: false,
        settings: app.train_defaults().await.expect("settings"),
    };
    let run = app.start_run(new).await.expect("added");
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!app.is_training(), "{run:?}");
    assert_eq!(steps.load(Ordering::SeqCst), 0);
    assert!(app.runs().await.expect("runs").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_the_largest_number_stops_no_run() {
    let mut harness = Harness::tiny();
    for name in ["9223372036854775807", "4503599627370497", "7"] {
        fs::create_dir_all(harness.folder.path().join("data/runs").join(name)).expect("a folder");
    }
    let run = begin(&harness, "learn 2").await;
    assert_eq!(run.id, 8);
    finished(&mut harness, run.id).await;
}

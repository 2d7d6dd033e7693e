//! Fine-tuning runs from start to end: a real store, and fake workers that play scripts.

use crate::{
    harness::{
        Harness, OTHER_BUILD, options,
        runs::{
            find_run, new_run, run_folder, start_run, steps, train_adapter, wait_for_pause, wait_for_problem,
            wait_for_run, wait_until_finished, wait_until_running, write_script,
        },
    },
    support,
};
use hearth_app::{
    App,
    wire::{Announced, EndReason, Event, NewRun, PauseReason, ProblemCode, Run, RunState},
};
use std::{
    fs,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Handle;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_from_start_to_finish() {
    let mut harness = Harness::tiny();
    let begun = start_run(&harness, "learn 5").await;
    assert!(matches!(begun.state, RunState::Preparing { .. }));
    assert_eq!(
        (begun.name.as_str(), begun.model_name.as_str()),
        ("script", "A tiny model")
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
    let kept = find_run(&harness, run.id).await.unwrap();
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
    let run = start_run(&harness, "learn 2").await;
    let run = wait_until_finished(&mut harness, run.id).await;
    let plan = run.plan.expect("a plan");
    assert!(
        plan.notices.iter().any(|notice| notice.to_string() == OTHER_BUILD),
        "{plan:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_paused_resumed_and_stopped() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 100000").await.id;
    wait_until_running(&mut harness, id).await;
    harness.pause_run(id).await.unwrap();
    wait_for_pause(&mut harness, id, PauseReason::Person).await;
    harness.resume_run(id).await.unwrap();
    wait_until_running(&mut harness, id).await;
    harness.stop_run(id).await.unwrap();
    let run = wait_for_run(&mut harness, id, |run| run.adapter.is_some()).await;
    assert_eq!(run.state, RunState::Stopped);
    harness
        .stop_run(id)
        .await
        .expect("stopping what has stopped is nothing");
    assert_eq!(harness.pause_run(id).await.unwrap_err().code, ProblemCode::BadRequest);
    // A stopped run can be resumed, and still has one adapter.
    harness.resume_run(id).await.unwrap();
    assert_eq!(wait_until_running(&mut harness, id).await.outcome, None);
    harness.stop_run(id).await.unwrap();
    let again = wait_for_run(&mut harness, id, |run| {
        run.state == RunState::Stopped && run.adapter.is_some()
    })
    .await;
    assert_eq!(again.adapter, run.adapter);
    assert_eq!(harness.adapters().await.unwrap().len(), 1);
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
    wait_until_running(&mut harness, second.id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_run_can_be_restored_until_the_next_start() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let id = adapter.run.unwrap();
    harness.delete_run(id).await.unwrap();
    assert!(harness.runs().await.unwrap().is_empty() && harness.adapters().await.unwrap().is_empty());
    assert_eq!(harness.run_points(id).await.unwrap_err().code, ProblemCode::NotFound);
    harness.restore_run(id).await.unwrap();
    assert_eq!(harness.adapters().await.unwrap()[0], adapter);
    harness.delete_adapter(adapter.id).await.unwrap();
    assert_eq!(find_run(&harness, id).await.unwrap().adapter, None);
    harness.restore_adapter(adapter.id).await.unwrap();
    assert!(Path::new(&adapter.path).exists());

    harness.delete_run(id).await.unwrap();
    assert!(run_folder(&harness, id).exists());
    let harness = harness.again().await;
    assert!(!run_folder(&harness, id).exists());
    assert_eq!(harness.restore_run(id).await.unwrap_err().code, ProblemCode::NotFound);
    assert!(harness.adapters().await.unwrap().is_empty());
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
    wait_for_problem(&mut harness, id).await;
    fs::remove_file(&path).unwrap();
    let gone = harness.resume_run(id).await.unwrap_err();
    assert_eq!(gone.code, ProblemCode::FileUnreadable);
    assert!(gone.to_string().contains("script.jsonl"), "{gone}");
    assert_eq!(
        harness.start_run(new).await.unwrap_err().code,
        ProblemCode::FileUnreadable
    );
    assert!(harness.datasets().await.unwrap()[0].problem.is_some());
    write_script(&harness, "learn 5 die 3");
    let model = harness.folder.path().join("bundled/tiny.gguf");
    fs::rename(&model, model.with_extension("away")).unwrap();
    assert_eq!(harness.resume_run(id).await.unwrap_err().code, ProblemCode::NotFound);
    fs::rename(model.with_extension("away"), &model).unwrap();
    harness.resume_run(id).await.unwrap();
    wait_until_finished(&mut harness, id).await;
    assert_eq!(harness.resume_run(99).await.unwrap_err().code, ProblemCode::NotFound);
    assert_eq!(harness.delete_run(99).await.unwrap_err().code, ProblemCode::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_folders_of_a_store_that_was_set_aside_stay() {
    let mut harness = Harness::tiny();
    let checkpoint = run_folder(&harness, 7).join("checkpoint");
    fs::create_dir_all(run_folder(&harness, 7)).unwrap();
    fs::write(&checkpoint, "another run's").unwrap();
    for id in [8, 9] {
        assert_eq!(start_run(&harness, "learn 2").await.id, id);
        wait_until_finished(&mut harness, id).await;
    }
    assert_eq!(fs::read_to_string(checkpoint).unwrap(), "another run's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_the_largest_number_stops_no_run() {
    let mut harness = Harness::tiny();
    for name in ["9223372036854775807", "4503599627370497", "7"] {
        fs::create_dir_all(harness.folder.path().join("data/runs").join(name)).expect("a folder");
    }
    let run = start_run(&harness, "learn 2").await;
    assert_eq!(run.id, 8);
    wait_until_finished(&mut harness, run.id).await;
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

//! The ends of runs that the user has not seen, and requests that wait for the end of a step.

use crate::harness::Harness;
use hearth_app::wire::*;
use std::fs;

async fn begin(harness: &Harness, script: &str) -> Run {
    let data = harness.folder.path().join("script.jsonl");
    fs::write(&data, script).expect("a dataset");
    let dataset = harness.add_dataset(data).await.expect("a dataset");
    let new = NewRun {
        name: None,
        model: "tiny".into(),
        dataset: dataset.id,
        mapping: None,
        skip_broken: false,
        settings: harness.train_defaults().await.expect("settings"),
    };
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

async fn listed(harness: &Harness, id: i64) -> Run {
    let runs = harness.runs().await.expect("runs");
    runs.into_iter().find(|run| run.id == id).expect("the run")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_run_is_unseen_until_it_is_seen() {
    let mut harness = Harness::tiny();
    let run = begin(&harness, "learn 2").await;
    assert!(run.seen, "it has not ended");
    let id = run.id;
    until(&mut harness, id, |run| run.adapter.is_some()).await;
    let harness = harness.again().await;
    assert!(!listed(&harness, id).await.seen);
    harness.see_run(id).await.unwrap();
    assert!(listed(&harness, id).await.seen);
    let harness = harness.again().await;
    assert!(listed(&harness, id).await.seen);
    assert_eq!(harness.see_run(99).await.unwrap_err().code, ProblemCode::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_the_end_of_the_app_interrupted_is_unseen_until_it_is_resumed() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 100000").await.id;
    until(&mut harness, id, |run| run.state == RunState::Running).await;
    let mut harness = harness.again().await;
    let run = listed(&harness, id).await;
    assert!(
        matches!(run.state, RunState::Interrupted { .. }) && !run.seen,
        "{run:?}"
    );
    harness.resume_run(id).await.unwrap();
    assert!(until(&mut harness, id, |run| run.state == RunState::Running).await.seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_shows_that_it_is_going_to_pause_or_stop() {
    let mut harness = Harness::tiny();
    let id = begin(&harness, "learn 100000").await.id;
    until(&mut harness, id, |run| run.state == RunState::Running).await;
    harness.pause_run(id).await.unwrap();
    until(&mut harness, id, |run| run.pending == Some(PendingChange::Pause)).await;
    let paused = until(&mut harness, id, |run| matches!(run.state, RunState::Paused { .. })).await;
    assert_eq!(paused.pending, None);
    harness.resume_run(id).await.unwrap();
    until(&mut harness, id, |run| run.state == RunState::Running).await;
    harness.stop_run(id).await.unwrap();
    until(&mut harness, id, |run| run.pending == Some(PendingChange::Stop)).await;
    let stopped = until(&mut harness, id, |run| run.state == RunState::Stopped).await;
    assert_eq!((stopped.pending, stopped.seen), (None, true), "the user knows of it");
}

//! The ends of runs that the user has not seen, and requests that wait for the end of a step.

use crate::harness::{
    Harness,
    runs::{find_run, start_run, wait_for_run, wait_until_finished, wait_until_running},
};
use hearth_app::wire::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_run_is_unseen_until_it_is_seen() {
    let mut harness = Harness::tiny();
    let run = start_run(&harness, "learn 2").await;
    assert!(run.seen, "it has not ended");
    let id = run.id;
    wait_until_finished(&mut harness, id).await;
    let harness = harness.again().await;
    assert!(!find_run(&harness, id).await.unwrap().seen);
    harness.see_run(id).await.unwrap();
    assert!(find_run(&harness, id).await.unwrap().seen);
    let harness = harness.again().await;
    assert!(find_run(&harness, id).await.unwrap().seen);
    assert_eq!(harness.see_run(99).await.unwrap_err().code, ProblemCode::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_the_end_of_the_app_interrupted_is_unseen_until_it_is_resumed() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 100000").await.id;
    wait_until_running(&mut harness, id).await;
    let mut harness = harness.again().await;
    let run = find_run(&harness, id).await.unwrap();
    assert!(
        matches!(run.state, RunState::Interrupted { .. }) && !run.seen,
        "{run:?}"
    );
    harness.resume_run(id).await.unwrap();
    assert!(wait_until_running(&mut harness, id).await.seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_shows_that_it_is_going_to_pause_or_stop() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 100000").await.id;
    wait_until_running(&mut harness, id).await;
    harness.pause_run(id).await.unwrap();
    wait_for_run(&mut harness, id, |run| run.pending == Some(PendingChange::Pause)).await;
    let paused = wait_for_run(&mut harness, id, |run| matches!(run.state, RunState::Paused { .. })).await;
    assert_eq!(paused.pending, None);
    harness.resume_run(id).await.unwrap();
    wait_until_running(&mut harness, id).await;
    harness.stop_run(id).await.unwrap();
    wait_for_run(&mut harness, id, |run| run.pending == Some(PendingChange::Stop)).await;
    let stopped = wait_for_run(&mut harness, id, |run| run.state == RunState::Stopped).await;
    assert_eq!((stopped.pending, stopped.seen), (None, true), "the user knows of it");
}

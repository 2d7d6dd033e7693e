//! Runs that fail or are interrupted, and resume from their last checkpoint.

use crate::harness::{
    Harness,
    runs::{
        find_run, new_run, run_folder, start_run, steps, wait_for_problem, wait_for_run, wait_for_step,
        wait_until_finished, write_script,
    },
};
use hearth_app::wire::{Event, ProblemCode, RunState};
use hearth_protocol::WorkerCommand;
use std::{fs, time::Duration};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_interrupts_the_run_which_can_be_resumed() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 5 die 3").await.id;
    let (run, problem) = wait_for_problem(&mut harness, id).await;
    assert_eq!((problem.code, run.checkpoint), (ProblemCode::WorkerDied, Some(2)));
    assert!(
        problem.to_string().contains("exit code 6") && problem.to_string().contains("Resume"),
        "{problem}"
    );
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2, 3]);
    harness.resume_run(id).await.unwrap();
    wait_until_finished(&mut harness, id).await;
    let curves = harness.run_points(id).await.unwrap();
    assert_eq!(steps(&curves), [1, 2, 3, 4, 5], "the third step was repeated");
    assert_eq!(curves.evaluations.len(), 2, "before the first step and after the last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_run_can_be_retried() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 3 fail 1").await.id;
    let (run, problem) = wait_for_problem(&mut harness, id).await;
    assert_eq!((problem.code, run.checkpoint), (ProblemCode::DiskFull, None));
    write_script(&harness, "learn 3");
    harness.resume_run(id).await.unwrap();
    wait_until_finished(&mut harness, id).await;
    assert_eq!(
        steps(&harness.run_points(id).await.unwrap()),
        [1, 2, 3],
        "from the start"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_start_fails_the_run() {
    let mut harness = Harness::tiny_with(|options| options.worker = WorkerCommand::new("no-such-folder/hearth"));
    let id = start_run(&harness, "learn 3").await.id;
    let (_, problem) = wait_for_problem(&mut harness, id).await;
    assert!(problem.to_string().contains("no-such-folder"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_interrupts_the_run_which_can_be_resumed() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 6 wait 4").await.id;
    wait_for_run(&mut harness, id, |run| run.checkpoint == Some(4)).await;
    let mut harness = harness.again().await;
    let run = find_run(&harness, id).await.unwrap();
    assert!(
        matches!(&run.state, RunState::Interrupted { problem } if problem.to_string().contains("closed")),
        "{run:?}"
    );
    harness.resume_run(id).await.unwrap();
    let run = wait_until_finished(&mut harness, id).await;
    assert_eq!(run.last.map(|point| point.step), Some(6));
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_completes_the_step_and_saves_it() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 9 wait 5").await.id;
    wait_for_step(&mut harness, 5).await;
    harness.shut_down().await.unwrap();
    harness
        .next(|event| matches!(event, Event::Closing { run } if run == id).then_some(()))
        .await;
    let mut harness = harness.again().await;
    let run = find_run(&harness, id).await.unwrap();
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
    wait_until_finished(&mut harness, id).await;
    assert_eq!(
        steps(&harness.run_points(id).await.unwrap()),
        [1, 2, 3, 4, 5, 6, 7, 8, 9]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_has_a_timeout() {
    let mut harness = Harness::tiny_with(|options| options.shutdown_timeout = Duration::from_millis(200));
    let id = start_run(&harness, "learn 9 deaf 5").await.id;
    wait_for_step(&mut harness, 5).await;
    let harness = harness.again().await;
    let run = find_run(&harness, id).await.unwrap();
    assert_eq!((run.checkpoint, run.last.map(|point| point.step)), (Some(4), Some(5)));
    assert!(matches!(run.state, RunState::Interrupted { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_saved_is_kept_in_memory() {
    let mut harness = Harness::tiny();
    let new = new_run(&harness, "learn 5 wait 3").await;
    let id = harness.start_run(new.clone()).await.unwrap().id;
    wait_for_step(&mut harness, 3).await;
    // Like a full disk, but at once: free space within a page would delay it.
    let full = "CREATE TRIGGER full BEFORE UPDATE ON run BEGIN SELECT raise(ABORT, 'full'); END";
    harness.store().write(|t| t.execute_batch(full)).unwrap();
    harness.stop_run(id).await.unwrap();
    let run = wait_for_run(&mut harness, id, |run| run.state == RunState::Stopped).await;
    assert_eq!(find_run(&harness, id).await, Some(run));
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
async fn a_checkpoint_unknown_to_the_store_is_resumed_from() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 5 die 3").await.id;
    wait_for_problem(&mut harness, id).await;
    // As if the app was killed before it saved the worker's last checkpoint.
    let forget = "UPDATE run SET checkpoint = NULL";
    harness.store().write(|t| t.execute_batch(forget)).unwrap();
    fs::write(run_folder(&harness, id).join("checkpoint"), "4").unwrap();
    harness.resume_run(id).await.unwrap();
    wait_until_finished(&mut harness, id).await;
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2, 3, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_run_shows_no_step_after_that_of_its_adapter() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 5 die 3").await.id;
    wait_for_problem(&mut harness, id).await;
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2, 3]);
    // It is resumed from its checkpoint after the second step, and has no further one.
    write_script(&harness, "learn 2");
    harness.resume_run(id).await.unwrap();
    let run = wait_until_finished(&mut harness, id).await;
    assert_eq!(run.outcome.expect("an outcome").steps, 2);
    assert_eq!(steps(&harness.run_points(id).await.unwrap()), [1, 2]);
    let last = find_run(&harness, id).await.expect("the run").last;
    assert_eq!(last.expect("a step").step, 2);
}

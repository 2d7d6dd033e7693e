//! Fine-tuning runs of a [`Harness`]: each fake worker plays the script in the run's dataset.

use super::Harness;
use hearth_app::wire::{Adapter, Event, NewRun, PauseReason, Problem, Run, RunCurves, RunState};
use std::{fs, path::PathBuf};

/// Writes a dataset with the script of a run. Returns its path.
pub fn write_script(harness: &Harness, script: &str) -> PathBuf {
    let path = harness.folder.path().join("script.jsonl");
    fs::write(&path, script).expect("a dataset");
    path
}

/// The request of a run of `tiny` with this script.
pub async fn new_run(harness: &Harness, script: &str) -> NewRun {
    let dataset = harness
        .add_dataset(write_script(harness, script))
        .await
        .expect("a dataset");
    NewRun {
        name: None,
        model: "tiny".into(),
        dataset: dataset.id,
        mapping: None,
        skip_broken: false,
        settings: harness.train_defaults().await.expect("settings"),
    }
}

/// Starts a run of `tiny` with this script.
pub async fn start_run(harness: &Harness, script: &str) -> Run {
    let new = new_run(harness, script).await;
    harness.start_run(new).await.expect("a run")
}

/// Waits for an event with the run in an expected state. Returns the run.
pub async fn wait_for_run(harness: &mut Harness, id: i64, expected: impl Fn(&Run) -> bool) -> Run {
    harness
        .next(|event| match event {
            Event::RunChanged { run } if run.id == id && expected(&run) => Some(*run),
            _ => None,
        })
        .await
}

pub async fn wait_for_pause(harness: &mut Harness, id: i64, reason: PauseReason) -> Run {
    wait_for_run(harness, id, |run| run.state == RunState::Paused { reason }).await
}

pub async fn wait_until_running(harness: &mut Harness, id: i64) -> Run {
    wait_for_run(harness, id, |run| run.state == RunState::Running).await
}

/// Waits until any run has reported this step.
pub async fn wait_for_step(harness: &mut Harness, step: u32) {
    harness
        .next(|event| matches!(event, Event::RunPoint { point, .. } if point.step == step).then_some(()))
        .await
}

/// Waits until the run has finished and its end is saved.
pub async fn wait_until_finished(harness: &mut Harness, id: i64) -> Run {
    wait_for_run(harness, id, |run| {
        run.state == RunState::Finished && run.adapter.is_some()
    })
    .await
}

/// Waits until the run has failed or was interrupted. Panics if it ends otherwise.
pub async fn wait_for_problem(harness: &mut Harness, id: i64) -> (Run, Problem) {
    let run = wait_for_run(harness, id, |run| run.ended_at.is_some()).await;
    match run.state.clone() {
        RunState::Interrupted { problem } | RunState::Failed { problem } => (run, problem),
        state => panic!("it has ended well: {state:?}"),
    }
}

/// The run in the list of runs. `None` if it is not listed.
pub async fn find_run(harness: &Harness, id: i64) -> Option<Run> {
    harness.runs().await.unwrap().into_iter().find(|run| run.id == id)
}

/// Finishes a run. Returns its adapter.
pub async fn train_adapter(harness: &mut Harness) -> Adapter {
    let run = start_run(harness, "learn 2").await;
    let adapter = wait_until_finished(harness, run.id).await.adapter;
    let adapters = harness.adapters().await.unwrap();
    adapters
        .into_iter()
        .find(|listed| Some(listed.id) == adapter)
        .expect("an adapter")
}

/// The steps of the training loss curve.
pub fn steps(curves: &RunCurves) -> Vec<u32> {
    curves.points.iter().map(|point| point.step).collect()
}

/// The folder of a run's files.
pub fn run_folder(harness: &Harness, run: i64) -> PathBuf {
    harness.folder.path().join("data/runs").join(run.to_string())
}

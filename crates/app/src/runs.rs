//! Methods of [`App`] for runs.

use crate::{
    App, adapters,
    announce::Topic,
    convert::{from_json, to_json},
    datasets, library,
    lock::lock,
    model_lookup, models,
    shared::Shared,
    store::{StoreError, adapter, now, run, run_evaluation, run_name, run_point},
    title,
    tune::{self, Command},
    wire::{Event, NewRun, Problem, ProblemCode, Run, RunCurves, RunState, Stage, TrainSettings, TuneReason},
};
use hearth_protocol::{DataSource, GpuLayers, TrainRequest};
use rusqlite::Transaction;
use std::{path::PathBuf, sync::Arc};

impl App {
    /// All runs, newest first.
    pub async fn runs(&self) -> Result<Vec<Run>, Problem> {
        self.shared
            .blocking(|shared| {
                let runs = shared.store.read(|t| {
                    run::list(t)?
                        .into_iter()
                        .map(|row| read(t, row))
                        .collect::<Result<Vec<_>, _>>()
                })?;
                Ok(runs
                    .into_iter()
                    .map(|run| shared.live_run(run.id).unwrap_or(run))
                    .collect())
            })
            .await
    }

    /// The curves of a run up to now; later points arrive as events.
    pub async fn run_points(&self, id: i64) -> Result<RunCurves, Problem> {
        self.request_tune(Command::Save).await?;
        self.shared
            .blocking(move |shared| {
                let read = |t: &Transaction<'_>| {
                    let exists = run::get(t, id)?.is_some();
                    Ok(exists.then_some((run_point::of_run(t, id)?, run_evaluation::of_run(t, id)?)))
                };
                let (points, evaluations) = shared.store.read(read)?.ok_or_else(no_run)?;
                Ok(RunCurves { points, evaluations })
            })
            .await
    }

    /// The default settings of a run.
    pub async fn train_defaults(&self) -> Result<TrainSettings, Problem> {
        Ok(TrainSettings::default())
    }

    /// Starts a run. Its progress arrives as events.
    pub async fn start_run(&self, new: NewRun) -> Result<Run, Problem> {
        // The previous run may have ended but not be saved yet.
        self.request_tune(Command::Save).await?;
        let (run, request) = self.shared.blocking(move |shared| create(shared, &new)).await?;
        let (id, request) = (run.id, Box::new(request));
        self.send_tune(Command::Start { run: id, request })?;
        Ok(run)
    }

    /// Pauses a run until the user resumes it.
    pub async fn pause_run(&self, id: i64) -> Result<(), Problem> {
        self.request_tune(|done| Command::Pause { run: id, done }).await?
    }

    /// Resumes a paused run, or restarts one that was interrupted, stopped or failed from its last
    /// checkpoint, or from the start if it has none.
    pub async fn resume_run(&self, id: i64) -> Result<(), Problem> {
        self.request_tune(Command::Save).await?;
        if self.shared.live_run(id).is_some_and(|run| run.ended_at.is_none()) {
            return self.request_tune(|done| Command::Resume { run: id, done }).await?;
        }
        let request = self.shared.blocking(move |shared| restart(shared, id)).await?;
        let request = Box::new(request);
        self.send_tune(Command::Start { run: id, request })
    }

    /// Stops a run after its step and saves its adapter. A second request kills the worker.
    pub async fn stop_run(&self, id: i64) -> Result<(), Problem> {
        self.request_tune(|done| Command::Stop { run: id, done }).await
    }

    /// Marks the end of a run as seen.
    pub async fn see_run(&self, id: i64) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                // First, so that no save of the live run overwrites the row.
                shared.change_run(id, |run| run.seen = true);
                if !shared.store.write(|t| run::see(t, id))? {
                    return Err(no_run());
                }
                if shared.live_run(id).is_none() {
                    shared.announce_run(id)?;
                }
                Ok(())
            })
            .await
    }

    /// Renames a run and its adapter. A name that is taken gets a number.
    pub async fn rename_run(&self, id: i64, name: String) -> Result<(), Problem> {
        let name = title::normalized(&name).ok_or_else(title::empty_name)?;
        self.shared.blocking(move |shared| rename(shared, id, &name)).await?;
        models::announce_later(&self.shared);
        Ok(())
    }

    /// Deletes a run and its adapter, which can be restored for a while. An active run is ended.
    pub async fn delete_run(&self, id: i64) -> Result<(), Problem> {
        self.request_tune(|done| Command::End { run: id, done }).await?;
        self.shared
            .blocking(move |shared| {
                if !shared.store.write(|t| run::delete(t, id, now()))? {
                    return Err(no_run());
                }
                Ok(shared.announce_run(id)?)
            })
            .await?;
        adapters::announce_later(&self.shared);
        self.purge_later();
        Ok(())
    }

    /// Undoes a deletion.
    pub async fn restore_run(&self, id: i64) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                let restore = |t: &Transaction<'_>| {
                    let is_restored = run::restore(t, id)?;
                    if is_restored && let Some(row) = run::get(t, id)? {
                        // Another run may have got this name meanwhile.
                        run_name::rename(t, id, &row.name)?;
                    }
                    Ok(is_restored)
                };
                if !shared.store.write(restore)? {
                    return Err(no_run());
                }
                Ok(shared.announce_run(id)?)
            })
            .await?;
        // A merged model has the adapter's name.
        models::announce_later(&self.shared);
        Ok(())
    }

    /// Removes the files of deleted runs and adapters after [`tune::UNDO_TIME`].
    pub(crate) fn purge_later(&self) {
        // If the app closes earlier, the next start removes them.
        let shared = Arc::downgrade(&self.shared);
        // The time is taken now: later deletions have their own timers, and the system clock may
        // change meanwhile.
        let before = now() + 1;
        tokio::spawn(async move {
            tokio::time::sleep(tune::UNDO_TIME).await;
            let Some(shared) = shared.upgrade() else { return };
            if let Err(problem) = shared.blocking(move |shared| tune::purge(shared, before)).await {
                tracing::warn!(%problem, "deleted runs and adapters could not be removed yet");
            }
            // A merged model loses the name of an adapter that was removed.
            models::announce_later(&shared);
        });
    }
}

impl Shared {
    /// Announces the current state of a run from the live run or its row, or that it was removed.
    pub(crate) fn announce_run(&self, id: i64) -> Result<(), StoreError> {
        self.announcer.announce(Topic::Runs, || {
            let run = match self.live_run(id) {
                Some(run) => Some(run),
                None => self
                    .store
                    .read(|t| run::get(t, id)?.map(|row| read(t, row)).transpose())?,
            };
            Ok(run.map_or(Event::RunRemoved { id }, |run| Event::RunChanged { run: Box::new(run) }))
        })
    }
}

/// Converts a row.
fn read(t: &Transaction<'_>, row: run::Run) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.id,
        state: row.state.into(),
        settings: from_json(Some(&row.settings)).unwrap_or_default(),
        plan: from_json(row.plan.as_deref()),
        outcome: from_json(row.outcome.as_deref()),
        last: run_point::last(t, row.id)?,
        adapter: adapter::of_run(t, row.id)?,
        name: row.name,
        model: row.model,
        model_name: row.model_name,
        dataset: row.dataset,
        dataset_name: row.dataset_name,
        checkpoint: row.checkpoint,
        created_at: row.created_at,
        ended_at: row.ended_at,
        pending: None,
        seen: row.seen,
    })
}

/// Renames a run and its adapter, and announces the run.
pub(crate) fn rename(shared: &Shared, id: i64, name: &str) -> Result<(), Problem> {
    let name = shared
        .store
        .write(|t| run_name::rename(t, id, name))?
        .ok_or_else(no_run)?;
    match shared.live_run(id) {
        Some(_) => shared.change_run(id, |run| run.name = name),
        None => shared.announce_run(id)?,
    }
    Ok(())
}

/// Adds a run and builds its worker's request.
fn create(shared: &Shared, new: &NewRun) -> Result<(Run, TrainRequest), Problem> {
    let _one_at_a_time = lock(&shared.starting_run);
    check_idle(shared)?;
    let model = model_lookup::readable(shared, &new.model)?;
    let data = datasets::find(shared, new.dataset)?;
    let data_path = datasets::check_readable(&data.path)?;
    let requested = new.name.as_deref().and_then(title::normalized);
    let name = requested.or_else(|| title::normalized(&data.name));
    let name = name.unwrap_or_else(|| model.name.clone());
    let (settings, mapping) = (to_json(&new.settings), new.mapping.as_ref().map(to_json));
    let row = run::New {
        name: &name,
        model: &model.id,
        model_name: &model.name,
        dataset: data.id,
        dataset_name: &data.name,
        data_path,
        mapping: mapping.as_deref(),
        skip_broken: new.skip_broken,
        settings: &settings,
        created_at: now(),
    };
    // Before the run is added, because this fails if the initial adapter is gone.
    let init = new
        .settings
        .init
        .map(|id| adapters::path(shared, &model.id, id))
        .transpose()?;
    // Runs of a store that was set aside may have left folders, whose numbers are not reused.
    let max_run_number = tune::max_run_number(shared);
    let create = |t: &Transaction<'_>| {
        run::skip_to(t, max_run_number)?;
        let name = &run_name::unique(t, run_name::Owner::New, row.name)?;
        run::create(t, &run::New { name, ..row.clone() }).and_then(|id| run::get(t, id))
    };
    let row = shared.store.write(create)?.ok_or_else(no_run)?;
    request(shared, row, &model, init)
}

/// Builds the worker's request for an interrupted, stopped or failed run.
fn restart(shared: &Shared, id: i64) -> Result<TrainRequest, Problem> {
    let _one_at_a_time = lock(&shared.starting_run);
    let row = shared.store.read(|t| run::get(t, id))?.ok_or_else(no_run)?;
    if row.state == run::State::Finished {
        return Err(Problem::new(ProblemCode::BadRequest, TuneReason::Completed));
    }
    check_idle(shared)?;
    let model = model_lookup::readable(shared, &row.model)?;
    datasets::check_readable(&row.data_path)?;
    let settings: TrainSettings = from_json(Some(&row.settings)).unwrap_or_default();
    let init = settings
        .init
        .map(|id| adapters::path(shared, &model.id, id))
        .transpose()?;
    request(shared, row, &model, init).map(|(_, request)| request)
}

/// Marks a run as preparing and builds the worker's request.
fn request(
    shared: &Shared,
    row: run::Run,
    model: &library::Model,
    init: Option<PathBuf>,
) -> Result<(Run, TrainRequest), Problem> {
    let data = DataSource {
        path: row.data_path.clone(),
        mapping: from_json(row.mapping.as_deref()),
        skip_broken: row.skip_broken,
    };
    let mut run = shared.store.read(|t| read(t, row))?;
    run.state = RunState::Preparing {
        fraction: 0.0,
        stage: Stage::Starting,
    };
    (run.outcome, run.ended_at, run.seen) = (None, None, true);
    let settings = shared.settings();
    let out = tune::runs_folder(shared).join(run.id.to_string());
    let request = TrainRequest {
        model: model.path.clone(),
        data,
        // The worker looks for a checkpoint: if the app was killed, the store may not have it.
        resume: out.is_dir(),
        out,
        settings: run.settings.clone().with_init(init),
        threads: settings.threads,
        // The build was chosen for the chat's device.
        build: settings.build.filter(|_| settings.training_device == settings.device),
        device: settings.training_device,
        gpu_layers: GpuLayers::default(),
        low_priority: true,
    };
    shared.set_live_run(run.clone());
    Ok((run, request))
}

/// Refuses a run while another one is active or not saved.
fn check_idle(shared: &Shared) -> Result<(), Problem> {
    match shared.active_run() {
        None => Ok(()),
        Some(Run {
            name,
            ended_at: Some(_),
            ..
        }) => Err(Problem::new(ProblemCode::DiskFull, TuneReason::NotSaved { name })),
        Some(Run { name, .. }) => Err(Problem::new(ProblemCode::Busy, TuneReason::OtherRun { name })),
    }
}

fn no_run() -> Problem {
    Problem::new(ProblemCode::NotFound, TuneReason::NoRun)
}

//! What a person can do with runs.

use crate::{
    App, adapters,
    convert::{from_json, to_json},
    datasets, library, models,
    shared::Shared,
    store::{StoreError, adapter, now, run, run_evaluation, run_point},
    title,
    tune::{self, Command},
    wire::{Code, ColumnMapping, Event, NewRun, Problem, Run, RunCurves, RunState, TrainSettings},
};
use hearth_protocol::{DataSource, GpuLayers, TrainRequest};
use rusqlite::Transaction;
use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
};

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

    /// The curves of a run, up to this moment: what comes later comes through events.
    pub async fn run_points(&self, id: i64) -> Result<RunCurves, Problem> {
        self.ask_tune(Command::Save).await?;
        self.shared
            .blocking(move |shared| {
                let curves = |t: &Transaction<'_>| {
                    let there = run::get(t, id)?.is_some();
                    Ok(there.then_some((run_point::of_run(t, id)?, run_evaluation::of_run(t, id)?)))
                };
                let (points, evaluations) = shared.store.read(curves)?.ok_or_else(no_run)?;
                Ok(RunCurves {
                    points: points.into_iter().map(Into::into).collect(),
                    evaluations: evaluations.into_iter().map(Into::into).collect(),
                })
            })
            .await
    }

    /// How a run learns unless a person says otherwise.
    pub fn train_defaults(&self) -> TrainSettings {
        TrainSettings::default()
    }

    /// Begins a run. How it goes comes through events.
    pub async fn start_run(&self, new: NewRun) -> Result<Run, Problem> {
        // The one before may have ended just now.
        self.ask_tune(Command::Save).await?;
        let (run, request) = self.shared.blocking(move |shared| begin(shared, &new)).await?;
        self.tell_tune(Command::Start(Box::new(request)))?;
        Ok(run)
    }

    /// Holds a run, until a person resumes it.
    pub async fn pause_run(&self, id: i64) -> Result<(), Problem> {
        self.ask_tune(|done| Command::Pause { run: id, done }).await?
    }

    /// Goes on with a run that is held, or again with one that was interrupted or failed: from its last checkpoint, or from
    /// the beginning where it has none.
    pub async fn resume_run(&self, id: i64) -> Result<(), Problem> {
        self.ask_tune(Command::Save).await?;
        if self.shared.live_run(id).is_some_and(|run| run.ended_at.is_none()) {
            return self.ask_tune(|done| Command::Resume { run: id, done }).await?;
        }
        let request = self.shared.blocking(move |shared| begin_again(shared, id)).await?;
        self.tell_tune(Command::Start(Box::new(request)))
    }

    /// Ends a run and keeps what was learnt. Asked for again, while the worker still does not end, it ends it by force.
    pub async fn stop_run(&self, id: i64) -> Result<(), Problem> {
        self.ask_tune(|done| Command::Stop { run: id, done }).await
    }

    /// Gives a run another name.
    pub async fn rename_run(&self, id: i64, name: String) -> Result<(), Problem> {
        let name = title::typed(&name).ok_or_else(title::no_name)?;
        self.shared
            .blocking(move |shared| {
                if !shared.store.write(|t| run::rename(t, id, &name))? {
                    return Err(no_run());
                }
                match shared.live_run(id) {
                    Some(_) => shared.change_run(id, |run| run.name = name),
                    None => shared.emit_run(id)?,
                }
                Ok(())
            })
            .await
    }

    /// Deletes a run and its adapter, so that they can still be restored for a while. One that is under way is ended.
    pub async fn delete_run(&self, id: i64) -> Result<(), Problem> {
        self.ask_tune(|done| Command::End { run: id, done }).await?;
        self.shared
            .blocking(move |shared| {
                if !shared.store.write(|t| run::delete(t, id, now()))? {
                    return Err(no_run());
                }
                shared.emit(Event::RunRemoved { id });
                Ok(shared.emit_adapters()?)
            })
            .await?;
        self.purge_later();
        Ok(())
    }

    /// Takes a deletion back.
    pub async fn restore_run(&self, id: i64) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                if !shared.store.write(|t| run::restore(t, id))? {
                    return Err(no_run());
                }
                shared.emit_run(id)?;
                Ok(shared.emit_adapters()?)
            })
            .await
    }

    /// Removes what was deleted once it is too late to take that back.
    pub(crate) fn purge_later(&self) {
        // The app may be closed before: then the next start does it.
        let shared = Arc::downgrade(&self.shared);
        // What is deleted after this is not removed by this timer, whatever the system's clock says when it ends.
        let before = now() + 1;
        tokio::spawn(async move {
            tokio::time::sleep(tune::UNDO_FOR).await;
            let Some(shared) = shared.upgrade() else { return };
            if let Err(problem) = shared.blocking(move |shared| tune::purge(shared, before)).await {
                tracing::warn!(%problem, "what was deleted could not be removed yet");
            }
        });
    }
}

impl Shared {
    /// Tells everybody how a run is: as memory has it while it is under way, else as the store does.
    pub(crate) fn emit_run(&self, id: i64) -> Result<(), StoreError> {
        let run = match self.live_run(id) {
            Some(run) => Some(run),
            None => self
                .store
                .read(|t| run::get(t, id)?.map(|row| read(t, row)).transpose())?,
        };
        if let Some(run) = run {
            self.emit(Event::RunChanged { run: Box::new(run) });
        }
        Ok(())
    }
}

/// A run as the store knows it.
fn read(t: &Transaction<'_>, row: run::Run) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.id,
        state: row.state.into(),
        settings: from_json(Some(&row.settings)).unwrap_or_default(),
        plan: from_json(row.plan.as_deref()),
        outcome: from_json(row.outcome.as_deref()),
        last: run_point::last(t, row.id)?.map(Into::into),
        adapter: adapter::of_run(t, row.id)?,
        name: row.name,
        model: row.model,
        model_name: row.model_name,
        dataset: row.dataset,
        dataset_name: row.dataset_name,
        checkpoint: row.checkpoint,
        created_at: row.created_at,
        ended_at: row.ended_at,
    })
}

fn begin(shared: &Shared, new: &NewRun) -> Result<(Run, TrainRequest), Problem> {
    let _one_at_a_time = shared.beginning.lock().unwrap_or_else(PoisonError::into_inner);
    not_busy(shared)?;
    let model = models::readable(shared, &new.model)?;
    let data = datasets::find(shared, new.dataset)?;
    let data_path = datasets::there(&data.path)?;
    let name = match new.name.as_deref().and_then(title::typed) {
        Some(name) => name,
        None => title::typed(&format!("{} on {}", data.name, model.name)).unwrap_or_default(),
    };
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
    // Asked before the run is in the history: an adapter to begin with may be gone.
    let init = new
        .settings
        .init
        .map(|id| adapters::path(shared, &model.id, id))
        .transpose()?;
    // A store that was set aside leaves its runs' folders behind.
    let taken = tune::last_folder(shared);
    let create = |t: &Transaction<'_>| {
        run::skip_to(t, taken)?;
        run::create(t, &row).and_then(|id| run::get(t, id))
    };
    let row = shared.store.write(create)?.ok_or_else(no_run)?;
    show(shared, row, &model, init)
}

fn begin_again(shared: &Shared, id: i64) -> Result<TrainRequest, Problem> {
    let _one_at_a_time = shared.beginning.lock().unwrap_or_else(PoisonError::into_inner);
    let row = shared.store.read(|t| run::get(t, id))?.ok_or_else(no_run)?;
    if row.state == run::State::Finished {
        let message = "This run has made all its steps. Start a new one, with this adapter to begin with.".to_owned();
        return Err(Problem {
            code: Code::BadRequest,
            message,
        });
    }
    not_busy(shared)?;
    let model = models::readable(shared, &row.model)?;
    datasets::there(&row.data_path)?;
    let settings: TrainSettings = from_json(Some(&row.settings)).unwrap_or_default();
    let init = settings
        .init
        .map(|id| adapters::path(shared, &model.id, id))
        .transpose()?;
    show(shared, row, &model, init).map(|(_, request)| request)
}

/// Shows a run as being prepared, and makes the worker's request of it.
fn show(
    shared: &Shared,
    row: run::Run,
    model: &library::Model,
    init: Option<PathBuf>,
) -> Result<(Run, TrainRequest), Problem> {
    let data = DataSource {
        path: row.data_path.clone(),
        mapping: from_json::<ColumnMapping>(row.mapping.as_deref()).map(Into::into),
        skip_broken: row.skip_broken,
    };
    let mut run = shared.store.read(|t| read(t, row))?;
    run.state = RunState::Preparing {
        fraction: 0.0,
        stage: "Starting".to_owned(),
    };
    (run.outcome, run.ended_at) = (None, None);
    let settings = shared.settings();
    let out = tune::runs_folder(shared).join(run.id.to_string());
    let request = TrainRequest {
        id: run.id.unsigned_abs(),
        model: model.path.clone(),
        data,
        // The worker knows whether there is a checkpoint: a kill may have kept it from the store.
        resume: out.is_dir(),
        out,
        settings: run.settings.for_worker(init),
        threads: settings.threads,
        // Chosen for the GPU that chats run on, which may be another.
        build: settings.build.filter(|_| settings.training_device == settings.device),
        device: settings.training_device,
        gpu_layers: GpuLayers::default(),
        low_priority: true,
    };
    shared.keep_run(run.clone());
    Ok((run, request))
}

fn not_busy(shared: &Shared) -> Result<(), Problem> {
    match shared.run_under_way() {
        None => Ok(()),
        Some(run) if run.ended_at.is_some() => Err(Problem {
            code: Code::DiskFull,
            message: format!(
                "What came of \u{201c}{}\u{201d} could not be saved yet. Free some space on the disk, then try again.",
                run.name
            ),
        }),
        Some(run) => Err(Problem {
            code: Code::Busy,
            message: format!(
                "\u{201c}{}\u{201d} is under way, and a machine has room for one run. Wait for its end, or stop it first.",
                run.name
            ),
        }),
    }
}

fn no_run() -> Problem {
    Problem {
        code: Code::NotFound,
        message: "This run is no longer there.".to_owned(),
    }
}

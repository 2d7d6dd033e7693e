//! The queue of downloads: it survives restarts, and runs two at a time.

use crate::{
    App,
    library::{self, Hub, LibraryError, Progress, hub::Reference, hub::Remote},
    models,
    shared::Shared,
    store::{
        download::{self, State},
        now,
    },
    wire::{Download, DownloadState, Event, Problem, ProblemCode},
};
use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Downloads in progress at a time.
const MAX_RUNNING: usize = 2;

/// Time between two events of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Time over which the speed is averaged.
const SPEED_WINDOW: f64 = 4.0;

/// The downloads in progress.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    running: Mutex<HashMap<i64, Arc<Running>>>,
}

/// A download in progress.
#[derive(Debug, Default)]
struct Running {
    stop: AtomicBool,
    /// Whether it is to be removed once it has stopped.
    discard: AtomicBool,
    now: Mutex<Now>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Now {
    done: u64,
    total: Option<u64>,
    bytes_per_second: f64,
    is_checking: bool,
}

impl Downloads {
    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops all; they stay queued, and go on when the app is opened again.
    pub fn stop_all(&self) {
        self.lock()
            .values()
            .for_each(|running| running.stop.store(true, Ordering::Relaxed));
    }

    /// Stops one. Returns whether it was running.
    fn stop(&self, id: i64, discard: bool) -> bool {
        let running = self.lock();
        let Some(running) = running.get(&id) else {
            return false;
        };
        running.discard.fetch_or(discard, Ordering::Relaxed);
        running.stop.store(true, Ordering::Relaxed);
        true
    }
}

impl Running {
    fn now(&self) -> Now {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, now: Now) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl App {
    /// All downloads, newest first.
    pub async fn downloads(&self) -> Result<Vec<Download>, Problem> {
        self.shared.blocking(list).await
    }

    /// Queues a download. One of the same model that is not done is resumed.
    ///
    /// # Errors
    /// The text names no model, or the network is switched off.
    pub async fn start_download(&self, source: String) -> Result<Download, Problem> {
        let queued = self.shared.blocking(move |shared| {
            let hub = shared.hub()?;
            let reference = Reference::parse(&source, &hub)?;
            let text = reference.text();
            let name = match &reference {
                Reference::Catalog(entry) => entry.name.clone(),
                _ => short_name(&text),
            };
            Ok(shared.store.write(|t| download::queue(t, &text, &name, now()))?)
        });
        let id = queued.await?;
        self.shared.start_downloads();
        self.shared.blocking(move |shared| one(shared, id)).await
    }

    /// Pauses a download; what has arrived stays.
    pub async fn pause_download(&self, id: i64) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                let paused = shared.store.write(|t| match download::get(t, id)? {
                    Some(row) if row.state == State::Queued => download::set_state(t, id, &State::Paused),
                    _ => Ok(false),
                })?;
                if paused {
                    shared.downloads.stop(id, false);
                    announce(shared);
                }
                Ok(())
            })
            .await
    }

    /// Resumes a paused or failed download.
    pub async fn resume_download(&self, id: i64) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                shared.hub()?;
                shared.store.write(|t| match download::get(t, id)? {
                    Some(row) if !matches!(row.state, State::Done(_)) => download::set_state(t, id, &State::Queued),
                    _ => Ok(false),
                })?;
                Ok(())
            })
            .await?;
        self.shared.start_downloads();
        Ok(())
    }

    /// Removes a download from the list. What has arrived of an unfinished one is deleted; a
    /// complete model stays.
    pub async fn remove_download(&self, id: i64) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                let Some(row) = shared.store.read(|t| download::get(t, id))? else {
                    return Ok(());
                };
                shared.store.write(|t| download::remove(t, id))?;
                if !shared.downloads.stop(id, true) && !matches!(row.state, State::Done(_)) {
                    discard(shared, row.remote.as_deref());
                }
                announce(shared);
                Ok(())
            })
            .await
    }
}

/// The end of a reference, as a name until the hub was asked.
fn short_name(source: &str) -> String {
    let path = source.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

impl Shared {
    /// The hub of the settings and the environment.
    ///
    /// # Errors
    /// The network is switched off.
    pub(crate) fn hub(&self) -> Result<Hub, LibraryError> {
        let settings = self.settings();
        if settings.offline {
            return Err(LibraryError::Offline("the setting Offline"));
        }
        Hub::from_environment(settings.hub_endpoint.as_deref())
    }

    /// Starts queued downloads, as many as may run at a time.
    pub(crate) fn start_downloads(self: &Arc<Self>) {
        if self.hub().is_err() {
            return;
        }
        let rows = self.store.read(|t| download::list(t)).unwrap_or_else(|error| {
            tracing::warn!(%error, "the downloads could not be read");
            Vec::new()
        });
        let mut running = self.downloads.lock();
        // The oldest first.
        for row in rows.into_iter().rev().filter(|row| row.state == State::Queued) {
            if running.len() >= MAX_RUNNING {
                break;
            }
            if running.contains_key(&row.id) {
                continue;
            }
            let this = Arc::new(Running::default());
            running.insert(row.id, this.clone());
            let shared = self.clone();
            // Not a thread of the runtime, whose end would wait for a stalled connection.
            thread::spawn(move || run(&shared, &row, &this));
        }
        drop(running);
        announce(self);
    }
}

/// Runs a download to its end, then the next one.
fn run(shared: &Arc<Shared>, row: &download::Download, running: &Running) {
    let ended = fetch(shared, row, running);
    // Locked until the state is saved, so that no one sees the download as queued and starts it.
    let mut all = shared.downloads.lock();
    all.remove(&row.id);
    let is_discarded = running.discard.load(Ordering::Relaxed);
    let state = match ended {
        Ok(path) => Some(State::Done(path.display().to_string())),
        // Whoever stopped it has set its state.
        Err(LibraryError::Cancelled) => None,
        Err(error) => Some(State::Failed(crate::convert::to_json(&Problem::from(error)))),
    };
    if let Some(state) = &state
        && let Err(error) = shared.store.write(|t| download::set_state(t, row.id, state))
    {
        tracing::warn!(%error, "the state of a download could not be saved");
    }
    drop(all);
    if is_discarded && !matches!(state, Some(State::Done(_))) {
        let saved = shared.store.read(|t| download::get(t, row.id)).ok().flatten();
        // A download of the same source may have been added since.
        if saved.is_none() {
            discard(shared, running_remote(shared, row).as_deref());
        }
    }
    if matches!(state, Some(State::Done(_))) {
        match shared.models() {
            Ok(all) => models::emit(shared, &all),
            Err(error) => tracing::warn!(%error, "the models could not be listed"),
        }
    }
    shared.start_downloads();
}

/// The files of a removed download, as JSON.
fn running_remote(shared: &Shared, row: &download::Download) -> Option<String> {
    row.remote.clone().or_else(|| {
        let hub = shared.hub().ok()?;
        let reference = Reference::parse(&row.source, &hub).ok()?;
        Some(crate::convert::to_json(&library::remote(&hub, &reference).ok()?))
    })
}

fn fetch(shared: &Arc<Shared>, row: &download::Download, running: &Running) -> Result<PathBuf, LibraryError> {
    let hub = shared.hub()?;
    let reference = Reference::parse(&row.source, &hub)?;
    if let Some(path) = shared.library.bundled(&reference) {
        return Ok(path);
    }
    let remote = library::remote(&hub, &reference)?;
    let json = crate::convert::to_json(&remote);
    shared
        .store
        .write(|t| download::set_remote(t, row.id, &remote.name, &json))?;
    running.set(Now {
        done: library::arrived(&remote, shared.library.folder()),
        total: Some(remote.size()),
        ..Now::default()
    });
    announce(shared);
    let mut speed = Speed::default();
    library::download(&hub, &remote, shared.library.folder(), &mut |progress| {
        if running.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        match progress {
            Progress::Loading { done, total } => {
                if let Some(bytes_per_second) = speed.after(done) {
                    running.set(Now {
                        done,
                        total: Some(total),
                        bytes_per_second,
                        is_checking: false,
                    });
                    shared.emit(Event::DownloadProgress {
                        id: row.id,
                        done,
                        total,
                        bytes_per_second,
                    });
                }
            }
            Progress::Checking if !running.now().is_checking => {
                running.set(Now {
                    is_checking: true,
                    bytes_per_second: 0.0,
                    ..running.now()
                });
                announce(shared);
            }
            Progress::Checking => {}
        }
        ControlFlow::Continue(())
    })
}

/// The speed of a download, as an average whose weights fade with time.
#[derive(Default)]
struct Speed {
    last: Option<(Instant, u64)>,
    bytes_per_second: Option<f64>,
}

impl Speed {
    /// The speed, if an event is due.
    fn after(&mut self, done: u64) -> Option<f64> {
        let Some((at, before)) = self.last else {
            self.last = Some((Instant::now(), done));
            return Some(0.0);
        };
        let seconds = at.elapsed().as_secs_f64();
        if seconds < PROGRESS_INTERVAL.as_secs_f64() {
            return None;
        }
        let speed = done.saturating_sub(before) as f64 / seconds;
        let share = 1.0 - (-seconds / SPEED_WINDOW).exp();
        let mean = self
            .bytes_per_second
            .map_or(speed, |mean| mean + share * (speed - mean));
        self.bytes_per_second = Some(mean);
        self.last = Some((Instant::now(), done));
        Some(mean)
    }
}

/// Deletes what has arrived of a removed download.
fn discard(shared: &Shared, remote: Option<&str>) {
    let remote: Option<Remote> = remote.and_then(|json| serde_json::from_str(json).ok());
    if let Some(remote) = remote
        && let Err(error) = library::discard(&remote, shared.library.folder())
    {
        tracing::warn!(%error, "a removed download could not be deleted");
    }
}

fn announce(shared: &Shared) {
    match list(shared) {
        Ok(downloads) => shared.emit(Event::DownloadsChanged { downloads }),
        Err(problem) => tracing::warn!(%problem, "the downloads could not be listed"),
    }
}

fn list(shared: &Shared) -> Result<Vec<Download>, Problem> {
    let rows = shared.store.read(|t| download::list(t))?;
    let models = match rows.iter().any(|row| matches!(row.state, State::Done(_))) {
        true => shared.models()?,
        false => Vec::new(),
    };
    let running = shared.downloads.lock();
    let wire = rows.into_iter().map(|row| {
        let now = running.get(&row.id).map(|running| running.now());
        to_wire(shared, row, now, &models)
    });
    Ok(wire.collect())
}

fn one(shared: &Shared, id: i64) -> Result<Download, Problem> {
    let found = list(shared)?.into_iter().find(|download| download.id == id);
    found.ok_or_else(|| Problem {
        code: ProblemCode::NotFound,
        message: "This download was removed.".to_owned(),
    })
}

fn to_wire(shared: &Shared, row: download::Download, now: Option<Now>, models: &[library::Model]) -> Download {
    let remote: Option<Remote> = row.remote.as_deref().and_then(|json| serde_json::from_str(json).ok());
    let total = remote.as_ref().map(Remote::size);
    let arrived = || {
        remote
            .as_ref()
            .map_or(0, |remote| library::arrived(remote, shared.library.folder()))
    };
    let state = match row.state {
        State::Queued => match now {
            Some(now) if now.is_checking => DownloadState::Checking,
            Some(_) => DownloadState::Running,
            None => DownloadState::Queued,
        },
        State::Paused => DownloadState::Paused,
        State::Failed(problem) => DownloadState::Failed {
            problem: serde_json::from_str(&problem).unwrap_or(Problem {
                code: ProblemCode::Download,
                message: "The download failed.".to_owned(),
            }),
        },
        State::Done(path) => DownloadState::Done {
            model: models
                .iter()
                .find(|model| model.path.display().to_string() == path)
                .map(|model| model.id.clone()),
        },
    };
    Download {
        id: row.id,
        name: row.name,
        source: row.source,
        done: now
            .filter(|now| now.total.is_some())
            .map_or_else(arrived, |now| now.done),
        total: now.and_then(|now| now.total).or(total),
        bytes_per_second: now.map_or(0.0, |now| now.bytes_per_second),
        state,
    }
}

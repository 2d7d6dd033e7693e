//! The queue of downloads: it survives restarts, and runs two at a time.

use crate::{
    App, adapters,
    announce::Topic,
    convert::to_json,
    library::{
        self, Hub, LibraryError, Progress,
        hub::{Reference, Remote, is_offline, without_query},
    },
    lock::lock,
    models,
    shared::Shared,
    store::{
        adapter,
        download::{self, State},
        now,
    },
    wire::{Download, DownloadState, Event, Problem, ProblemCode},
};
use hearth_formats::gguf::part_files;
use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    path::{Path, PathBuf},
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Downloads in progress at a time.
const MAX_RUNNING: usize = 2;

/// Time between two events of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Time over which the speed is averaged, in seconds.
const SPEED_WINDOW: f64 = 4.0;

/// Delays before a download is tried again whose connection failed: a machine sleeps, a router
/// restarts. After the last one it has failed.
const RETRY_DELAYS: [Duration; 8] = [
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(120),
    Duration::from_secs(300),
    Duration::from_secs(600),
    Duration::from_secs(900),
    Duration::from_secs(1800),
];

/// Interval at which a waiting download checks whether it was stopped.
const STOP_INTERVAL: Duration = Duration::from_millis(200);

/// Interval between checks for the end of all downloads, while the app waits for it.
const END_INTERVAL: Duration = Duration::from_millis(20);

/// The downloads in progress.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    running: Mutex<HashMap<i64, Arc<Running>>>,
    /// Whether the app is closing: nothing is started.
    is_closing: AtomicBool,
    /// Downloads whose end could not be saved; they would start again at once.
    unsaved: Mutex<HashSet<i64>>,
}

/// A download in progress.
#[derive(Debug, Default)]
struct Running {
    /// The requested model or adapter.
    source: String,
    stop: AtomicBool,
    /// Whether it is to be removed once it has stopped.
    discard: AtomicBool,
    /// Its files, once the hub was asked.
    remote: Mutex<Option<Remote>>,
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
        lock(&self.running)
    }

    /// Stops all for good; they stay queued, and go on when the app is opened again.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.stop_all();
    }

    /// Allows downloads again after [`Downloads::close`].
    pub fn reopen(&self) {
        lock(&self.unsaved).clear();
        self.is_closing.store(false, Ordering::Relaxed);
    }

    /// Waits until no thread writes any more. Returns `false` after the time limit.
    pub async fn ended(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.lock().is_empty() {
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(END_INTERVAL).await;
        }
        true
    }

    /// Stops all; they stay queued.
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

    /// Whether another one with some of the files of `this` is stopping.
    fn is_former_stopping(&self, this: &Running) -> bool {
        let Some(remote) = lock(&this.remote).clone() else {
            return false;
        };
        let is_former = |other: &Running| {
            let is_stopping = !ptr::eq(other, this) && other.stop.load(Ordering::Relaxed);
            is_stopping
                && lock(&other.remote)
                    .as_ref()
                    .is_some_and(|other| other.shares_files(&remote))
        };
        self.lock().values().any(|other| is_former(other))
    }
}

impl Running {
    fn now(&self) -> Now {
        *lock(&self.now)
    }

    fn set(&self, now: Now) {
        *lock(&self.now) = now;
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
        self.start_downloads().await?;
        self.shared.blocking(move |shared| one(shared, id)).await
    }

    /// Starts queued downloads, as many as may run at a time.
    pub(crate) async fn start_downloads(&self) -> Result<(), Problem> {
        let shared = self.shared.clone();
        self.shared
            .blocking(move |_| {
                start(&shared);
                Ok(())
            })
            .await
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
        self.start_downloads().await
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
                    let remote = row.remote.and_then(|json| serde_json::from_str(&json).ok());
                    discard(shared, remote.as_ref());
                }
                announce(shared);
                Ok(())
            })
            .await
    }
}

/// The end of a reference, as a name until the hub was asked.
fn short_name(source: &str) -> String {
    let path = without_query(source);
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

impl Shared {
    /// The hub of the settings and the environment. Blocks, perhaps until the user unlocks the
    /// keychain.
    ///
    /// # Errors
    /// The network is switched off.
    pub(crate) fn hub(&self) -> Result<Hub, LibraryError> {
        library::hub_of(&self.settings(), &*self.keychain)
    }
}

/// Starts queued downloads, as many as may run at a time. Blocks.
pub(crate) fn start(shared: &Arc<Shared>) {
    if !shared.settings().offline && !is_offline() {
        start_queued(shared);
    }
    announce(shared);
}

fn start_queued(shared: &Arc<Shared>) {
    let mut running = shared.downloads.lock();
    if shared.downloads.is_closing.load(Ordering::Relaxed) {
        return;
    }
    // Read under the lock: a download that was stopped or ended meanwhile is not started.
    let rows = shared.store.read(|t| download::list(t)).unwrap_or_else(|error| {
        tracing::warn!(%error, "the downloads could not be read");
        Vec::new()
    });
    let unsaved = lock(&shared.downloads.unsaved);
    // The oldest first.
    for row in rows.into_iter().rev().filter(|row| row.state == State::Queued) {
        if running.len() >= MAX_RUNNING {
            break;
        }
        // One that was removed and added again waits for the end of its former self.
        let is_running = running.contains_key(&row.id) || running.values().any(|other| other.source == row.source);
        if is_running || unsaved.contains(&row.id) {
            continue;
        }
        let this = Arc::new(Running {
            source: row.source.clone(),
            ..Running::default()
        });
        running.insert(row.id, this.clone());
        let shared = Arc::downgrade(shared);
        // Not a thread of the runtime, whose end would wait for a stalled connection.
        thread::spawn(move || {
            // Also after a panic, or the place would be taken for ever.
            let ended = Ended { shared, id: row.id };
            run(&ended.shared, &row, &this);
        });
    }
}

/// Removes a download from those in progress when it is dropped, and starts the next one.
struct Ended {
    shared: Weak<Shared>,
    id: i64,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.downloads.lock().remove(&self.id);
            start(&shared);
        }
    }
}

/// Runs a download to its end.
fn run(weak: &Weak<Shared>, row: &download::Download, running: &Running) {
    let ended = fetch_patiently(weak, row, running);
    let Some(shared) = weak.upgrade() else { return };
    let state = match ended {
        Ok(path) => Some(State::Done(path.display().to_string())),
        // If the user stopped it, the state is set already. Offline, the download stays queued.
        Err(LibraryError::Cancelled | LibraryError::Offline(_)) => None,
        Err(error) => Some(State::Failed(to_json(&Problem::from(error)))),
    };
    let is_done = matches!(state, Some(State::Done(_)));
    if let Some(State::Done(path)) = &state {
        adapters::adopt(&shared, Some(Path::new(path)));
    }
    if running.discard.load(Ordering::Relaxed) && !is_done {
        // Another one with its files waits for its end.
        let remote = lock(&running.remote).clone();
        discard(&shared, remote.as_ref());
    }
    if let Some(state) = &state
        && let Err(error) = shared.store.write(|t| download::set_state(t, row.id, state))
    {
        tracing::warn!(%error, "the state of a download could not be saved");
        lock(&shared.downloads.unsaved).insert(row.id);
    }
    if is_done && let Err(problem) = models::announce(&shared) {
        tracing::warn!(%problem, "the models could not be listed");
    }
}

/// Tries again for an hour while the connection fails, and once another download of the same files
/// has stopped.
fn fetch_patiently(weak: &Weak<Shared>, row: &download::Download, running: &Running) -> Result<PathBuf, LibraryError> {
    let is_former_stopping = || {
        let shared = weak.upgrade();
        shared.is_some_and(|shared| shared.downloads.is_former_stopping(running))
    };
    let mut delays = RETRY_DELAYS.into_iter();
    loop {
        let error = match fetch(weak, row, running) {
            Err(error) => error,
            done => return done,
        };
        if matches!(error, LibraryError::AlreadyDownloading(_)) && is_former_stopping() {
            wait_while(weak, running, is_former_stopping)?;
            continue;
        }
        let Some(delay) = delays.next().filter(|_| error.is_temporary()) else {
            return Err(error);
        };
        tracing::info!(%error, "the download is tried again");
        let until = Instant::now() + delay;
        wait_while(weak, running, || Instant::now() < until)?;
    }
}

/// Waits before a download is tried again.
///
/// # Errors
/// It was stopped.
fn wait_while(weak: &Weak<Shared>, running: &Running, waits: impl Fn() -> bool) -> Result<(), LibraryError> {
    while waits() {
        if running.stop.load(Ordering::Relaxed) || weak.strong_count() == 0 {
            return Err(LibraryError::Cancelled);
        }
        thread::sleep(STOP_INTERVAL);
    }
    Ok(())
}

fn fetch(weak: &Weak<Shared>, row: &download::Download, running: &Running) -> Result<PathBuf, LibraryError> {
    let shared = weak.upgrade().ok_or(LibraryError::Cancelled)?;
    let hub = shared.hub()?;
    let reference = Reference::parse(&row.source, &hub)?;
    if let Some(path) = shared.library.settled(&reference) {
        return Ok(path);
    }
    let remote = library::remote(&hub, &reference)?;
    let folder = shared.library.folder_of(&remote).to_owned();
    let json = to_json(&remote);
    let is_listed = shared
        .store
        .write(|t| download::set_remote(t, row.id, &remote.name, &json))?;
    if !is_listed || running.stop.load(Ordering::Relaxed) {
        return Err(LibraryError::Cancelled);
    }
    running.set(Now {
        done: library::arrived(&remote, &folder),
        total: Some(remote.size()),
        ..Now::default()
    });
    *lock(&running.remote) = Some(remote.clone());
    announce(&shared);
    drop(shared);
    let mut speed = Speed::default();
    let first = library::download(&hub, &remote, &folder, &mut |progress| {
        let shared = weak.upgrade().filter(|_| !running.stop.load(Ordering::Relaxed));
        let Some(shared) = shared else {
            return ControlFlow::Break(());
        };
        tell(&shared, row.id, running, &mut speed, progress);
        ControlFlow::Continue(())
    })?;
    Ok(library::path_of(&first, remote.kind))
}

/// Tells the window of the progress, several times a second.
fn tell(shared: &Shared, id: i64, running: &Running, speed: &mut Speed, progress: Progress) {
    let was_checking = running.now().is_checking;
    match progress {
        Progress::Loading { done, total } => {
            let Some(bytes_per_second) = speed.after(done) else {
                return;
            };
            running.set(Now {
                done,
                total: Some(total),
                bytes_per_second,
                is_checking: false,
            });
            if was_checking {
                announce(shared);
            }
            shared.emit(Event::DownloadProgress {
                id,
                done,
                total,
                bytes_per_second,
            });
        }
        Progress::Checking if !was_checking => {
            running.set(Now {
                is_checking: true,
                bytes_per_second: 0.0,
                ..running.now()
            });
            announce(shared);
        }
        Progress::Checking | Progress::Changed => {}
    }
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

/// Whether a download that is queued or in progress writes a file of a model.
pub(crate) fn writes(shared: &Shared, model: &Path) -> Result<bool, Problem> {
    let parts = part_files(model);
    let has = |remote: &Remote| {
        let folder = shared.library.folder_of(remote);
        remote.files.iter().any(|file| parts.contains(&folder.join(&file.path)))
    };
    let rows = shared.store.read(|t| download::list(t))?;
    let queued = rows.iter().filter(|row| row.state == State::Queued);
    let mut remotes = queued.filter_map(|row| serde_json::from_str(row.remote.as_deref()?).ok());
    let running = shared.downloads.lock();
    let is_running = |running: &Arc<Running>| lock(&running.remote).as_ref().is_some_and(has);
    Ok(remotes.any(|remote: Remote| has(&remote)) || running.values().any(is_running))
}

/// Deletes what has arrived of a removed download.
fn discard(shared: &Shared, remote: Option<&Remote>) {
    if let Some(remote) = remote
        && let Err(error) = library::discard(remote, shared.library.folder_of(remote))
    {
        tracing::warn!(%error, "a removed download could not be deleted");
    }
}

fn announce(shared: &Shared) {
    let announced = || list(shared).map(|downloads| Event::DownloadsChanged { downloads });
    if let Err(problem) = shared.announcer.announce_latest(Topic::Downloads, announced) {
        tracing::warn!(%problem, "the downloads could not be listed");
    }
}

fn list(shared: &Shared) -> Result<Vec<Download>, Problem> {
    let rows = shared.store.read(|t| download::list(t))?;
    let (models, adapters) = if rows.iter().any(|row| matches!(row.state, State::Done(_))) {
        (shared.models()?, shared.store.read(|t| adapter::list(t))?)
    } else {
        (Vec::new(), Vec::new())
    };
    let running = shared.downloads.lock();
    let wire = rows.into_iter().map(|row| {
        let now = running.get(&row.id).map(|running| running.now());
        to_wire(shared, row, now, &models, &adapters)
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

fn to_wire(
    shared: &Shared,
    row: download::Download,
    now: Option<Now>,
    models: &[library::Model],
    adapters: &[adapter::Adapter],
) -> Download {
    let remote: Option<Remote> = row.remote.as_deref().and_then(|json| serde_json::from_str(json).ok());
    let total = remote.as_ref().map(Remote::size);
    let arrived = || {
        remote
            .as_ref()
            .map_or(0, |remote| library::arrived(remote, shared.library.folder_of(remote)))
    };
    let is_done = matches!(row.state, State::Done(_));
    let resumes = |remote: &Remote| library::resumes(remote, shared.library.folder_of(remote));
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
            adapter: adapters
                .iter()
                .find(|adapter| adapter.path == Path::new(&path))
                .map(|adapter| adapter.id),
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
        resumes: is_done || remote.as_ref().is_none_or(resumes),
        state,
    }
}

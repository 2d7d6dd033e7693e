//! The queue of downloads: it survives restarts, and runs two at a time.

use crate::{
    App, adapters,
    announce::Topic,
    convert::{from_json, to_json},
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
use hearth_protocol::ModelsReason;
use std::{
    collections::{HashMap, HashSet},
    mem,
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

/// Downloads that receive bytes at a time.
const MAX_RUNNING: usize = 2;

/// Downloads in progress at a time, with those that wait for their next attempt: a server that is
/// down holds up no download from another one.
const MAX_ACTIVE: usize = 8;

/// Time between two events of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Time over which the speed is averaged, in seconds.
const SPEED_WINDOW: f64 = 4.0;

/// Delays before the retries of a download whose connection failed, long enough for a sleeping
/// machine or a restarting router. If the last retry fails, the download has failed.
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

/// Interval between checks for the end of all downloads in [`Downloads::ended`].
const END_INTERVAL: Duration = Duration::from_millis(20);

/// The downloads in progress.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    /// By the id of their rows.
    active: Mutex<HashMap<i64, Arc<ActiveDownload>>>,
    /// Whether the app is closing, so that no download is started.
    is_closing: AtomicBool,
    /// Ids of downloads whose final state could not be saved. Their rows are still queued, so they
    /// would start again at once.
    unsaved: Mutex<HashSet<i64>>,
}

/// A download in progress.
#[derive(Debug, Default)]
struct ActiveDownload {
    /// The requested model or adapter.
    source: String,
    stop: AtomicBool,
    /// Whether its files are to be deleted once it has stopped.
    discard: AtomicBool,
    /// Its files, once the hub has answered.
    remote: Mutex<Option<Remote>>,
    progress: Mutex<CurrentProgress>,
    /// Present while it waits for its next attempt.
    waiting: Mutex<Option<Waiting>>,
}

/// The wait between two attempts of a download.
#[derive(Debug, Clone)]
struct Waiting {
    /// Why the last attempt failed.
    problem: Problem,
    /// Time of the next attempt, in milliseconds since the Unix epoch.
    retry_at: i64,
    /// Whether the delay is over, or the user requested the next attempt: it only waits until fewer
    /// than [`MAX_RUNNING`] other downloads run.
    is_due: bool,
}

/// The progress of a download.
#[derive(Debug, Clone, Copy, Default)]
struct CurrentProgress {
    /// Bytes on disk.
    done: u64,
    total: Option<u64>,
    bytes_per_second: f64,
    /// Whether its hash is being computed.
    is_checking: bool,
}

impl Downloads {
    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Arc<ActiveDownload>>> {
        lock(&self.active)
    }

    /// Stops all downloads and starts no more. They stay queued, and continue at the next start of
    /// the app.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.stop_all();
    }

    /// Allows downloads again after [`Downloads::close`].
    pub fn reopen(&self) {
        lock(&self.unsaved).clear();
        self.is_closing.store(false, Ordering::Relaxed);
    }

    /// Waits until no download is in progress. Returns `false` if the time limit is over first.
    pub async fn ended(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.lock().is_empty() {
            if Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(END_INTERVAL).await;
        }
        true
    }

    /// Stops all downloads; they stay queued.
    pub fn stop_all(&self) {
        self.lock()
            .values()
            .for_each(|active| active.stop.store(true, Ordering::Relaxed));
    }

    /// Stops a download. `discard`: whether its files are deleted. Returns whether it was in
    /// progress.
    fn stop(&self, id: i64, discard: bool) -> bool {
        let active = self.lock();
        let Some(download) = active.get(&id) else {
            return false;
        };
        download.discard.fetch_or(discard, Ordering::Relaxed);
        download.stop.store(true, Ordering::Relaxed);
        true
    }

    /// Makes the next attempt of a waiting download due.
    fn retry_now(&self, id: i64) {
        if let Some(download) = self.lock().get(&id) {
            download.set_due();
        }
    }

    /// Ends the wait of a download, unless [`MAX_RUNNING`] others run. Returns whether it has
    /// ended.
    fn end_wait(&self, download: &ActiveDownload) -> bool {
        let active = self.lock();
        let running = active.values().filter(|other| !other.is_waiting()).count();
        let can_run = running < MAX_RUNNING;
        if can_run {
            lock(&download.waiting).take();
        }
        can_run
    }

    /// Whether another download that shares files with this one is stopping.
    fn is_predecessor_stopping(&self, download: &ActiveDownload) -> bool {
        let Some(remote) = lock(&download.remote).clone() else {
            return false;
        };
        let is_predecessor = |other: &ActiveDownload| {
            let is_stopping = !ptr::eq(other, download) && other.stop.load(Ordering::Relaxed);
            is_stopping
                && lock(&other.remote)
                    .as_ref()
                    .is_some_and(|other| other.shares_files(&remote))
        };
        self.lock().values().any(|other| is_predecessor(other))
    }
}

impl ActiveDownload {
    fn progress(&self) -> CurrentProgress {
        *lock(&self.progress)
    }

    fn set_progress(&self, progress: CurrentProgress) {
        *lock(&self.progress) = progress;
    }

    /// Whether it waits for its next attempt.
    fn is_waiting(&self) -> bool {
        lock(&self.waiting).is_some()
    }

    /// Whether its next attempt is due.
    fn is_due(&self) -> bool {
        lock(&self.waiting).as_ref().is_some_and(|waiting| waiting.is_due)
    }

    /// Makes its next attempt due. Returns whether it was due already.
    fn set_due(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting
            .as_mut()
            .is_some_and(|waiting| mem::replace(&mut waiting.is_due, true))
    }
}

impl App {
    /// All downloads, newest first.
    pub async fn downloads(&self) -> Result<Vec<Download>, Problem> {
        self.shared.blocking(list).await
    }

    /// Queues a download, or resumes an unfinished one of the same source; one that waits for its
    /// next attempt is tried again at once.
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
            let id = shared.store.write(|t| download::queue(t, &text, &name, now()))?;
            shared.downloads.retry_now(id);
            Ok(id)
        });
        let id = queued.await?;
        self.start_downloads().await?;
        self.shared.blocking(move |shared| find(shared, id)).await
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

    /// Pauses a download; the bytes on disk stay.
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

    /// Resumes a paused or failed download. One that waits for its next attempt is tried again at
    /// once.
    pub async fn resume_download(&self, id: i64) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                shared.hub()?;
                shared.store.write(|t| match download::get(t, id)? {
                    Some(row) if !matches!(row.state, State::Done(_)) => download::set_state(t, id, &State::Queued),
                    _ => Ok(false),
                })?;
                shared.downloads.retry_now(id);
                Ok(())
            })
            .await?;
        self.start_downloads().await
    }

    /// Removes a download from the list. The bytes of an unfinished one are deleted; a complete
    /// model stays.
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

/// The last component of a reference: a display name until the hub has answered.
fn short_name(source: &str) -> String {
    let path = without_query(source);
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

impl Shared {
    /// The hub according to the settings and the environment. Blocks, perhaps until the user
    /// unlocks the keychain.
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
    let mut active = shared.downloads.lock();
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
        // One whose next attempt is due comes before those that have not started.
        let is_running = |other: &ActiveDownload| !other.is_waiting() || other.is_due();
        let running = active.values().filter(|other| is_running(other)).count();
        if running >= MAX_RUNNING || active.len() >= MAX_ACTIVE {
            break;
        }
        // A download that was removed and added again waits for the end of the removed one.
        let is_active = active.contains_key(&row.id) || active.values().any(|other| other.source == row.source);
        if is_active || unsaved.contains(&row.id) {
            continue;
        }
        let download = Arc::new(ActiveDownload {
            source: row.source.clone(),
            ..ActiveDownload::default()
        });
        active.insert(row.id, download.clone());
        let shared = Arc::downgrade(shared);
        // Not a blocking thread of the runtime, whose shutdown would wait for a stalled connection.
        thread::spawn(move || {
            // Dropped after a panic too, or the download would count as in progress for ever.
            let guard = EndGuard { shared, id: row.id };
            run(&guard.shared, &row, &download);
        });
    }
}

/// On drop, removes a download from [`Downloads::active`] and starts the next one.
struct EndGuard {
    shared: Weak<Shared>,
    id: i64,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.downloads.lock().remove(&self.id);
            start(&shared);
        }
    }
}

/// Runs a download to its end.
fn run(weak: &Weak<Shared>, row: &download::Download, active: &ActiveDownload) {
    let result = fetch_with_retries(weak, row, active);
    let Some(shared) = weak.upgrade() else { return };
    let state = match result {
        Ok(path) => Some(State::Done(path.display().to_string())),
        // If the user stopped it, the state is set already. Offline, the download stays queued.
        Err(LibraryError::Cancelled | LibraryError::OfflineBySetting | LibraryError::OfflineByVariable(_)) => None,
        Err(error) => Some(State::Failed(Problem::from(error).to_stored())),
    };
    let is_done = matches!(state, Some(State::Done(_)));
    if let Some(State::Done(path)) = &state {
        adapters::adopt(&shared, Some(Path::new(path)));
    }
    if active.discard.load(Ordering::Relaxed) && !is_done {
        // A later download of the same files waits for the end of this one.
        let remote = lock(&active.remote).clone();
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

/// Fetches a download. Retries with [`RETRY_DELAYS`] while the connection fails, from the first of
/// them if the user requested the last retry, and once another download of the same files has
/// stopped.
fn fetch_with_retries(
    weak: &Weak<Shared>,
    row: &download::Download,
    active: &ActiveDownload,
) -> Result<PathBuf, LibraryError> {
    let is_predecessor_stopping = || {
        let shared = weak.upgrade();
        shared.is_some_and(|shared| shared.downloads.is_predecessor_stopping(active))
    };
    let mut delays = RETRY_DELAYS.into_iter();
    loop {
        let error = match fetch(weak, row, active) {
            Ok(path) => return Ok(path),
            Err(error) => error,
        };
        if matches!(error, LibraryError::AlreadyDownloading(_)) && is_predecessor_stopping() {
            wait_while(weak, active, is_predecessor_stopping)?;
            continue;
        }
        let Some(delay) = delays.next().filter(|_| error.is_temporary()) else {
            return Err(error);
        };
        tracing::info!(%error, "the download is tried again");
        if wait_for_retry(weak, active, error.into(), delay)? == Retry::Requested {
            delays = RETRY_DELAYS.into_iter();
        }
    }
}

/// The cause of a retry.
#[derive(Debug, PartialEq, Eq)]
enum Retry {
    /// The delay is over.
    Due,
    /// The user requested it.
    Requested,
}

/// Waits for the next attempt and lists the download with its problem meanwhile. The next attempt
/// begins once fewer than [`MAX_RUNNING`] other downloads run.
///
/// # Errors
/// As [`wait_while`].
fn wait_for_retry(
    weak: &Weak<Shared>,
    active: &ActiveDownload,
    problem: Problem,
    delay: Duration,
) -> Result<Retry, LibraryError> {
    let deadline = Instant::now() + delay;
    let retry_at = now().saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
    active.set_progress(CurrentProgress {
        bytes_per_second: 0.0,
        is_checking: false,
        ..active.progress()
    });
    *lock(&active.waiting) = Some(Waiting {
        problem,
        retry_at,
        is_due: false,
    });
    if let Some(shared) = weak.upgrade() {
        start(&shared);
    }
    // `Instant` stands still while the machine sleeps, and the clock may be set back.
    let is_early = || Instant::now() < deadline && now() < retry_at;
    wait_while(weak, active, || is_early() && !active.is_due())?;
    let is_requested = active.set_due();
    let end_wait = || weak.upgrade().is_some_and(|shared| shared.downloads.end_wait(active));
    let announce_state = || {
        if let Some(shared) = weak.upgrade() {
            announce(&shared);
        }
    };
    if !end_wait() {
        announce_state();
        wait_while(weak, active, || !end_wait())?;
    }
    announce_state();
    Ok(if is_requested { Retry::Requested } else { Retry::Due })
}

/// Waits as long as a condition holds.
///
/// # Errors
/// The download was stopped, or the app is closing.
fn wait_while(weak: &Weak<Shared>, active: &ActiveDownload, condition: impl Fn() -> bool) -> Result<(), LibraryError> {
    loop {
        if active.stop.load(Ordering::Relaxed) || weak.strong_count() == 0 {
            return Err(LibraryError::Cancelled);
        }
        if !condition() {
            return Ok(());
        }
        thread::sleep(STOP_INTERVAL);
    }
}

/// Downloads the files of a source that is not on this machine yet. Returns the path of the model
/// or adapter.
fn fetch(weak: &Weak<Shared>, row: &download::Download, active: &ActiveDownload) -> Result<PathBuf, LibraryError> {
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
    if !is_listed || active.stop.load(Ordering::Relaxed) {
        return Err(LibraryError::Cancelled);
    }
    active.set_progress(CurrentProgress {
        done: library::arrived(&remote, &folder),
        total: Some(remote.size()),
        ..CurrentProgress::default()
    });
    *lock(&active.remote) = Some(remote.clone());
    announce(&shared);
    drop(shared);
    let mut speed = Speed::default();
    let first = library::download(&hub, &remote, &folder, &mut |progress| {
        let shared = weak.upgrade().filter(|_| !active.stop.load(Ordering::Relaxed));
        let Some(shared) = shared else {
            return ControlFlow::Break(());
        };
        report_progress(&shared, row.id, active, &mut speed, progress);
        ControlFlow::Continue(())
    })?;
    Ok(library::path_of(&first, remote.kind))
}

/// Announces the progress to the window, several times a second.
fn report_progress(shared: &Shared, id: i64, active: &ActiveDownload, speed: &mut Speed, progress: Progress) {
    let was_checking = active.progress().is_checking;
    match progress {
        Progress::Loading { done, total } => {
            let Some(bytes_per_second) = speed.update(done) else {
                return;
            };
            active.set_progress(CurrentProgress {
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
            active.set_progress(CurrentProgress {
                is_checking: true,
                bytes_per_second: 0.0,
                ..active.progress()
            });
            announce(shared);
        }
        Progress::Checking | Progress::Changed => {}
    }
}

/// The speed of a download, as an exponential moving average.
#[derive(Default)]
struct Speed {
    /// Time and bytes of the last event.
    last: Option<(Instant, u64)>,
    bytes_per_second: Option<f64>,
}

impl Speed {
    /// Updates the average with the bytes on disk. Returns it if an event is due.
    fn update(&mut self, done: u64) -> Option<f64> {
        let Some((last_time, last_done)) = self.last else {
            self.last = Some((Instant::now(), done));
            return Some(0.0);
        };
        let seconds = last_time.elapsed().as_secs_f64();
        if seconds < PROGRESS_INTERVAL.as_secs_f64() {
            return None;
        }
        let speed = done.saturating_sub(last_done) as f64 / seconds;
        let weight = 1.0 - (-seconds / SPEED_WINDOW).exp();
        let mean = self
            .bytes_per_second
            .map_or(speed, |mean| mean + weight * (speed - mean));
        self.bytes_per_second = Some(mean);
        self.last = Some((Instant::now(), done));
        Some(mean)
    }
}

/// Whether a download that is queued or in progress writes a file of a model.
pub(crate) fn writes(shared: &Shared, model: &Path) -> Result<bool, Problem> {
    let parts = part_files(model);
    let writes_part = |remote: &Remote| {
        let folder = shared.library.folder_of(remote);
        remote.files.iter().any(|file| parts.contains(&folder.join(&file.path)))
    };
    let rows = shared.store.read(|t| download::list(t))?;
    let queued = rows.iter().filter(|row| row.state == State::Queued);
    let mut remotes = queued.filter_map(|row| serde_json::from_str(row.remote.as_deref()?).ok());
    let active = shared.downloads.lock();
    let is_writer = |active: &Arc<ActiveDownload>| lock(&active.remote).as_ref().is_some_and(writes_part);
    Ok(remotes.any(|remote: Remote| writes_part(&remote)) || active.values().any(is_writer))
}

/// Deletes the bytes of a removed download.
fn discard(shared: &Shared, remote: Option<&Remote>) {
    if let Some(remote) = remote
        && let Err(error) = library::discard(remote, shared.library.folder_of(remote))
    {
        tracing::warn!(%error, "a removed download could not be deleted");
    }
}

fn announce(shared: &Shared) {
    let event = || list(shared).map(|downloads| Event::DownloadsChanged { downloads });
    if let Err(problem) = shared.announcer.announce_latest(Topic::Downloads, event) {
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
    let active = shared.downloads.lock();
    let wire = rows.into_iter().map(|row| {
        let active = active.get(&row.id).map(Arc::as_ref);
        to_wire(shared, row, active, &models, &adapters)
    });
    Ok(wire.collect())
}

/// The download with an id.
///
/// # Errors
/// It was removed from the list.
fn find(shared: &Shared, id: i64) -> Result<Download, Problem> {
    let download = list(shared)?.into_iter().find(|download| download.id == id);
    download.ok_or_else(|| Problem::new(ProblemCode::NotFound, ModelsReason::DownloadRemoved))
}

fn to_wire(
    shared: &Shared,
    row: download::Download,
    active: Option<&ActiveDownload>,
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
    let progress = active.map(ActiveDownload::progress);
    let waiting = active.and_then(|active| lock(&active.waiting).clone());
    let resumes = |remote: &Remote| library::resumes(remote, shared.library.folder_of(remote));
    let state = match row.state {
        State::Queued => match (progress, waiting) {
            (_, Some(waiting)) if waiting.is_due => DownloadState::Queued,
            (_, Some(waiting)) => DownloadState::Waiting {
                problem: waiting.problem,
                retry_at: waiting.retry_at,
            },
            (Some(progress), None) if progress.is_checking => DownloadState::Checking,
            (Some(_), None) => DownloadState::Running,
            (None, None) => DownloadState::Queued,
        },
        State::Paused => DownloadState::Paused,
        State::Failed(problem) => DownloadState::Failed {
            problem: from_json(Some(&problem))
                .unwrap_or_else(|| Problem::new(ProblemCode::Download, ModelsReason::DownloadLost)),
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
        done: progress
            .filter(|progress| progress.total.is_some())
            .map_or_else(arrived, |progress| progress.done),
        total: progress.and_then(|progress| progress.total).or(total),
        bytes_per_second: progress.map_or(0.0, |progress| progress.bytes_per_second),
        resumes: is_done || remote.as_ref().is_none_or(resumes),
        state,
    }
}

//! Moving the data folder.
//!
//! The data is copied while nothing can write to the store. Only once the copy is complete, a file
//! in the base folder names the new data folder ([`location`]). The app has to be restarted then.
//! The former files stay in place until the user deletes them.

mod copied;
mod copy;
pub(crate) mod location;

pub(crate) use copied::COPIED;

use crate::{
    App,
    archive::{check_space, refuse_during_restoration, refuse_during_run},
    cancellation::{Cancellable, cancelled, is_cancelled},
    data_work::Work,
    percent::Percent,
    permissions,
    remove_path::remove_path,
    shared::Shared,
    store,
    wire::{DeletedFormer, Event, FormerData, Problem, ProblemCode},
};
use copied::Copied;
use copy::Contents;
use hearth_formats::durable;
use hearth_protocol::{DataReason, DiskContents, FormerCleanup};
use location::Moved;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The folder of an incomplete copy, in the new folder.
const STAGING: &str = "hearth-arriving";

/// The folder that is created in a target folder with other files.
const SUBFOLDER: &str = "Hearth";

/// Attempts of listing and copying the files. An attempt fails if a listed temporary file was
/// renamed meanwhile.
const ATTEMPTS: u32 = 3;

/// Names of entries in a folder that counts as empty.
const IGNORED: [&str; 8] = [
    STAGING,
    location::MOVED,
    "cache",
    "window.json",
    "hearth.lock",
    ".DS_Store",
    "desktop.ini",
    "lost+found",
];

impl App {
    /// The folder to which the data would be moved if the user chose `folder`: that folder if it is
    /// empty, else a new one in it.
    pub async fn data_target(&self, folder: PathBuf) -> Result<String, Problem> {
        self.shared
            .blocking(move |shared| Ok(target(shared, &folder)?.display().to_string()))
            .await
    }

    /// Copies the data to the folder of [`App::data_target`], with [`Event::MoveProgress`], and
    /// makes it the data folder of the next start. Answers and downloads are stopped, and nothing
    /// can be changed until the app is restarted.
    ///
    /// # Errors
    /// The folder is not usable, has too little free space, or a run is active. Nothing was
    /// changed, and the app continues.
    pub async fn move_data(&self, folder: PathBuf) -> Result<(), Problem> {
        let in_progress = self.shared.data_work.begin(Work::Move)?;
        let cancellable = self.shared.moves.begin();
        let moved = self.stop_and_move(folder, cancellable).await;
        if moved.is_ok() {
            in_progress.keep();
            return Ok(());
        }
        self.shared.store.set_frozen(false);
        self.shared.downloads.reopen();
        if let Err(problem) = self.start_downloads().await {
            tracing::warn!(%problem, "the downloads could not go on");
        }
        moved
    }

    /// Cancels the move in progress.
    pub async fn cancel_move(&self) -> Result<(), Problem> {
        self.shared.moves.cancel();
        Ok(())
    }

    async fn stop_and_move(&self, folder: PathBuf, cancellable: Cancellable) -> Result<(), Problem> {
        let to = self
            .shared
            .blocking(move |shared| {
                refuse_during_run(shared)?;
                refuse_during_restoration(shared)?;
                refuse_with_former(shared)?;
                target(shared, &folder)
            })
            .await?;
        self.shut_down().await?;
        if !self.shared.downloads.ended(self.shared.shutdown_timeout).await {
            return Err(busy(DataReason::MoveWithDownload));
        }
        self.shared
            .blocking(move |shared| {
                shared.save_deferred();
                if !shared.live().is_empty() {
                    return Err(busy(DataReason::MoveWithUnsavedAnswer));
                }
                shared.store.set_frozen(true);
                relocate(shared, &to, cancellable)
            })
            .await
    }

    /// Deletes the copy in the former folder of a move. Other files are kept, and those in Hearth's
    /// folders are counted.
    ///
    /// # Errors
    /// There is no former folder, a file cannot be deleted, or Hearth used the folder after the
    /// move.
    pub async fn delete_former_data(&self) -> Result<DeletedFormer, Problem> {
        self.shared.blocking(delete_former).await
    }
}

/// The copy in the former folder of the last move.
pub(crate) fn former(shared: &Shared) -> Option<FormerData> {
    former_folder(shared).map(|folder| FormerData {
        bytes: bytes_of(&folder),
        path: folder.display().to_string(),
    })
}

fn former_folder(shared: &Shared) -> Option<PathBuf> {
    location::read(&shared.base).ok().flatten()?.former
}

/// Bytes of Hearth's files in a data folder.
pub(crate) fn bytes_of(data: &Path) -> u64 {
    let store = fs::metadata(data.join(store::FILE)).map_or(0, |metadata| metadata.len());
    Contents::from_folder(data).map_or(0, |contents| contents.bytes) + store
}

/// Returns the new data folder for a chosen folder, as in [`App::data_target`].
fn target(shared: &Shared, folder: &Path) -> Result<PathBuf, Problem> {
    let unusable = |error: io::Error| failed(folder, &error);
    if !folder.is_absolute() {
        return Err(refused(DataReason::MoveToRelative));
    }
    let exists = fs::exists(folder).map_err(unusable)?;
    let is_base = fs::canonicalize(folder).ok() == fs::canonicalize(&shared.base).ok();
    let to = if !exists || is_base || is_empty(folder).map_err(unusable)? {
        folder.to_owned()
    } else {
        folder.join(SUBFOLDER)
    };
    let data = fs::canonicalize(&shared.data).map_err(unusable)?;
    let existing = to.ancestors().find_map(|parent| fs::canonicalize(parent).ok());
    if existing.is_some_and(|parent| parent.starts_with(&data)) {
        return Err(refused(DataReason::MoveIntoItself));
    }
    // A killed move may have left a staging folder, which is ignored and removed.
    if fs::canonicalize(&to).is_ok_and(|to| data.starts_with(to)) {
        return Err(refused(DataReason::MoveToSame));
    }
    if fs::exists(&to).map_err(unusable)? && !is_empty(&to).map_err(unusable)? {
        Err(refused(DataReason::MoveToOtherFiles { folder: display(&to) }))
    } else {
        Ok(to)
    }
}

/// Whether a folder has no entries except [`IGNORED`].
fn is_empty(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !name.to_str().is_some_and(|name| IGNORED.contains(&name)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies the data to `to` and makes it the data folder.
fn relocate(shared: &Shared, to: &Path, cancellable: Cancellable) -> Result<(), Problem> {
    let staging = to.join(STAGING);
    let copied = copy_all(shared, to, &staging, cancellable);
    // Also after a failure: a partial copy takes up space.
    remove_path(&staging);
    let copied_paths = copied?;
    let moved = Moved {
        data: to.to_owned(),
        former: Some(shared.data.clone()),
    };
    match location::write(&shared.base, &moved) {
        // The file may be in place although its folder could not be synced.
        Err(_) if location::read(&shared.base).is_ok_and(|actual| actual.as_ref() == Some(&moved)) => Ok(()),
        Err(error) => {
            // Nothing uses the copy.
            remove_all(&copied_paths);
            Err(failed(&shared.base, &error))
        }
        Ok(()) => Ok(()),
    }
}

/// Copies the data. Returns the copied entries of `to`.
fn copy_all(shared: &Shared, to: &Path, staging: &Path, cancellable: Cancellable) -> Result<Vec<PathBuf>, Problem> {
    let failed_at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| failed(&path, &error)
    };
    let mut progress = Progress::new(shared, cancellable);
    let mut copied = copy_files(shared, to, staging, &mut progress)?;
    for _ in 1..ATTEMPTS {
        if !copied
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            break;
        }
        copied = copy_files(shared, to, staging, &mut progress)?;
    }
    let contents = copied.map_err(failed_at(to))?;
    shared.store.copy_to(&staging.join(store::FILE))?;
    let copied = Copied {
        clock: store::clock_of(staging),
        ..contents.copied()
    };
    copied.write(staging).map_err(failed_at(staging))?;
    store::prepare_moved(staging, &shared.data, to)?;
    location::write_origin(&shared.data, staging).map_err(failed_at(staging))?;
    durable::sync_folder(staging).map_err(failed_at(staging))?;
    // The copy may have taken an hour.
    if !is_empty(to).map_err(failed_at(to))? {
        return Err(refused(DataReason::MoveToNewFiles { folder: display(to) }));
    }
    progress.cancellable.check().map_err(failed_at(to))?;
    let mut moved_paths = Vec::new();
    let result = move_into_place(staging, to, &mut moved_paths);
    if result.is_err() {
        // Other files are kept: another program may have created them meanwhile.
        remove_all(&moved_paths);
    }
    result.map(|()| moved_paths).map_err(failed_at(to))
}

/// Copies all files except the store. The inner error is an I/O error of a file.
fn copy_files(
    shared: &Shared,
    to: &Path,
    staging: &Path,
    progress: &mut Progress,
) -> Result<io::Result<Contents>, Problem> {
    remove_path(staging);
    permissions::create_private_folder(staging).map_err(|error| failed(staging, &error))?;
    let contents = match Contents::from_folder(&shared.data) {
        Ok(contents) => contents,
        Err(error) => return Ok(Err(error)),
    };
    let store = fs::metadata(shared.store.path()).map_or(0, |metadata| metadata.len());
    let bytes = contents.bytes_to_copy(&shared.data, staging).saturating_add(store);
    check_space(staging, bytes, DiskContents::DataFolder)?;
    progress.percent.total = contents.bytes;
    let copied = contents.copy(&shared.data, staging, to, &mut |done| progress.report(done));
    Ok(copied.map(|()| contents))
}

fn remove_all(paths: &[PathBuf]) {
    for path in paths {
        remove_path(path);
    }
}

/// Moves the entries of the complete copy from the staging folder to `to`, the store last. Adds the
/// new paths to `moved_paths`.
fn move_into_place(staging: &Path, to: &Path, moved_paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let names = fs::read_dir(staging)?.map(|entry| Ok(entry?.file_name()));
    let mut names: Vec<_> = names.collect::<io::Result<_>>()?;
    names.sort_by_key(|name| name == store::FILE);
    for name in names {
        let path = to.join(&name);
        fs::rename(staging.join(&name), &path)?;
        moved_paths.push(path);
    }
    durable::sync_folder(to)
}

/// Refuses a move while the former folder of the last move exists: only one former folder is
/// recorded.
fn refuse_with_former(shared: &Shared) -> Result<(), Problem> {
    match former_folder(shared) {
        None => Ok(()),
        Some(former) => {
            let folder = display(&former);
            Err(refused(DataReason::MoveWithFormer { folder }))
        }
    }
}

fn delete_former(shared: &Shared) -> Result<DeletedFormer, Problem> {
    let moved = location::read(&shared.base).map_err(|error| failed(&shared.base, &error))?;
    let Some(former) = moved.and_then(|moved| moved.former) else {
        return Err(refused(DataReason::NoFormer));
    };
    // If the parent is missing too, the drive is not connected.
    let is_gone = !former.exists() && former.parent().is_some_and(Path::is_dir);
    if !former.is_dir() && !is_gone {
        let folder = display(&former);
        return Err(refused(DataReason::FormerMissing { folder }));
    }
    if !is_gone && fs::canonicalize(&former).ok() == fs::canonicalize(&shared.data).ok() {
        return Err(refused(DataReason::FormerIsPresent));
    }
    store::while_closed(&former, || delete_copied(shared, &former))?;
    let (files, example) = match Contents::from_folder(&former) {
        Ok(remaining) => {
            let (files, example) = remaining.count();
            (files, example.map(|path| former.join(path).display().to_string()))
        }
        Err(_) => (0, None),
    };
    let moved = Moved {
        data: shared.data.clone(),
        former: None,
    };
    location::write(&shared.base, &moved).map_err(|error| failed(&shared.base, &error))?;
    remove_path(&shared.data.join(COPIED));
    if former != shared.base {
        // Removes the lock file. The folder is removed only if it is empty.
        let _ = fs::remove_file(former.join("hearth.lock")).and_then(|()| fs::remove_dir(&former));
    }
    Ok(DeletedFormer { left: files, example })
}

/// Deletes the files that the move copied, unless the former folder was used since.
fn delete_copied(shared: &Shared, former: &Path) -> Result<(), Problem> {
    // A base folder must be kept, because it has the file that names the data folder.
    let cleanup = |cleanup| {
        if *former == *shared.base {
            FormerCleanup::KeepPlace
        } else {
            cleanup
        }
    };
    let copied = match Copied::read(&shared.data) {
        Ok(Some(copied)) => copied,
        Ok(None) => Copied::of_both(former, &shared.data).map_err(|error| failed(former, &error))?,
        // The user deleted the former files.
        Err(_) if bytes_of(former) == 0 => Copied::default(),
        Err(error) => {
            return Err(refused(DataReason::FormerListUnreadable {
                path: display(&shared.data.join(COPIED)),
                detail: error.to_string(),
                folder: display(former),
                cleanup: cleanup(FormerCleanup::DeleteFolder),
            }));
        }
    };
    if copied.is_used_since(former, &shared.base) {
        return Err(refused(DataReason::FormerUsed {
            folder: display(former),
            cleanup: cleanup(FormerCleanup::LookOrDelete),
        }));
    }
    if copied.delete(former) {
        Ok(())
    } else {
        let folder = display(former);
        Err(refused(DataReason::FormerNotDeleted { folder }))
    }
}

/// Reports the progress of a move.
struct Progress<'a> {
    shared: &'a Shared,
    cancellable: Cancellable,
    percent: Percent,
}

impl<'a> Progress<'a> {
    fn new(shared: &'a Shared, cancellable: Cancellable) -> Self {
        Self {
            shared,
            cancellable,
            percent: Percent::new(1),
        }
    }

    /// Reports the number of copied bytes.
    ///
    /// # Errors
    /// The move was cancelled.
    fn report(&mut self, done: u64) -> io::Result<()> {
        if let Some(fraction) = self.percent.advance(done) {
            self.shared.emit(Event::MoveProgress { fraction });
        }
        self.cancellable.check()
    }
}

fn busy(reason: DataReason) -> Problem {
    Problem::new(ProblemCode::Busy, reason)
}

fn refused(reason: DataReason) -> Problem {
    Problem::new(ProblemCode::BadRequest, reason)
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// The problem of a file or folder at which a move failed.
fn failed(path: &Path, error: &io::Error) -> Problem {
    if is_cancelled(error) {
        return cancelled(DataReason::MoveCancelled);
    }
    let code = match error.kind() {
        io::ErrorKind::StorageFull => ProblemCode::DiskFull,
        _ => ProblemCode::FileUnreadable,
    };
    let reason = DataReason::MoveFailed {
        path: display(path),
        detail: error.to_string(),
    };
    Problem::new(code, reason)
}

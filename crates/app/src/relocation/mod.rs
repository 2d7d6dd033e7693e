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
use location::Moved;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The folder of an incomplete copy, in the new folder.
const STAGING: &str = "hearth-arriving";

/// The folder that is created in one with other files.
const SUBFOLDER: &str = "Hearth";

/// Times that the files are listed and copied: one that is replaced meanwhile is gone under its
/// temporary name.
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
    /// changed, and the app goes on.
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
            return Err(busy("A download does not stop. Pause it, then try again."));
        }
        self.shared
            .blocking(move |shared| {
                shared.save_deferred();
                if !shared.live().is_empty() {
                    return Err(busy(
                        "An answer is not saved yet, so it would not be moved. Free some space on the disk or close the \
                         program that uses the store, then try again.",
                    ));
                }
                shared.store.set_frozen(true);
                relocate(shared, &to, cancellable)
            })
            .await
    }

    /// Deletes the copy that stayed in the former folder of a move; other files there stay, and
    /// those in Hearth's folders are counted.
    ///
    /// # Errors
    /// There is none, a file cannot be deleted, or Hearth was used there after the move.
    pub async fn delete_former_data(&self) -> Result<DeletedFormer, Problem> {
        self.shared.blocking(delete_former).await
    }
}

/// The copy that stayed in the former folder of the last move.
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
    let store = fs::metadata(data.join(store::FILE)).map_or(0, |about| about.len());
    Contents::from_folder(data).map_or(0, |contents| contents.bytes) + store
}

fn target(shared: &Shared, folder: &Path) -> Result<PathBuf, Problem> {
    let unusable = |error: io::Error| failed(folder, &error);
    if !folder.is_absolute() {
        return Err(refused("The new data folder has to be an absolute path."));
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
        return Err(refused(
            "The data cannot be moved into the folder that it is in. Choose another folder.",
        ));
    }
    // A killed move may have left a folder that counts as nothing, and that is removed.
    if fs::canonicalize(&to).is_ok_and(|to| data.starts_with(to)) {
        return Err(refused("The data is already in that folder. Choose another one."));
    }
    if fs::exists(&to).map_err(unusable)? && !is_empty(&to).map_err(unusable)? {
        Err(refused(&format!(
            "{} has other files. Choose an empty folder.",
            to.display()
        )))
    } else {
        Ok(to)
    }
}

/// Whether a folder has no entries that a move would mix with.
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
    let placed = copied?;
    let moved = Moved {
        data: to.to_owned(),
        former: Some(shared.data.clone()),
    };
    match location::write(&shared.base, &moved) {
        // The file may be in place although its folder could not be synced.
        Err(_) if location::read(&shared.base).is_ok_and(|read| read.as_ref() == Some(&moved)) => Ok(()),
        Err(error) => {
            // Nothing uses the copy.
            remove_all(&placed);
            Err(failed(&shared.base, &error))
        }
        Ok(()) => Ok(()),
    }
}

/// Copies the data. Returns the entries of `to` that are the copy.
fn copy_all(shared: &Shared, to: &Path, staging: &Path, cancellable: Cancellable) -> Result<Vec<PathBuf>, Problem> {
    let at = |path: &Path| {
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
    let contents = copied.map_err(at(to))?;
    shared.store.copy_to(&staging.join(store::FILE))?;
    let copied = Copied {
        clock: store::clock_of(staging),
        ..contents.copied()
    };
    copied.write(staging).map_err(at(staging))?;
    store::prepare_moved(staging, &shared.data, to)?;
    location::write_origin(&shared.data, staging).map_err(at(staging))?;
    durable::sync_folder(staging).map_err(at(staging))?;
    // The copy may have taken an hour.
    if !is_empty(to).map_err(at(to))? {
        return Err(refused(&format!(
            "{} is no longer empty. Nothing was changed. Choose an empty folder.",
            to.display()
        )));
    }
    progress.cancellable.check().map_err(at(to))?;
    let mut placed = Vec::new();
    let done = place(staging, to, &mut placed);
    if done.is_err() {
        // Only those: another program may have put a file there meanwhile.
        remove_all(&placed);
    }
    done.map(|()| placed).map_err(at(to))
}

/// Copies all files but the store. The inner error is an error of the files.
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
    let store = fs::metadata(shared.store.path()).map_or(0, |about| about.len());
    let bytes = contents.bytes_to_copy(&shared.data, staging).saturating_add(store);
    check_space(staging, bytes, "The data")?;
    progress.percent.total = contents.bytes;
    let copied = contents.copy(&shared.data, staging, to, &mut |done| progress.report(done));
    Ok(copied.map(|()| contents))
}

fn remove_all(paths: &[PathBuf]) {
    for path in paths {
        remove_path(path);
    }
}

/// Moves the entries of the complete copy to their places, the store last.
fn place(staging: &Path, to: &Path, placed: &mut Vec<PathBuf>) -> io::Result<()> {
    let names = fs::read_dir(staging)?.map(|entry| Ok(entry?.file_name()));
    let mut names: Vec<_> = names.collect::<io::Result<_>>()?;
    names.sort_by_key(|name| name == store::FILE);
    for name in names {
        let path = to.join(&name);
        fs::rename(staging.join(&name), &path)?;
        placed.push(path);
    }
    durable::sync_folder(to)
}

/// A second move would forget the copy that the last one left.
fn refuse_with_former(shared: &Shared) -> Result<(), Problem> {
    match former_folder(shared) {
        None => Ok(()),
        Some(former) => Err(refused(&format!(
            "{} still has the data from before the last move. Delete it first.",
            former.display()
        ))),
    }
}

fn delete_former(shared: &Shared) -> Result<DeletedFormer, Problem> {
    let moved = location::read(&shared.base).map_err(|error| failed(&shared.base, &error))?;
    let Some(former) = moved.and_then(|moved| moved.former) else {
        return Err(refused("There is no former data folder."));
    };
    // Without its parent, the drive is missing.
    let is_gone = !former.exists() && former.parent().is_some_and(Path::is_dir);
    if !former.is_dir() && !is_gone {
        return Err(refused(&format!(
            "{} is not available, so its data was not deleted. Connect the drive that holds it.",
            former.display()
        )));
    }
    if !is_gone && fs::canonicalize(&former).ok() == fs::canonicalize(&shared.data).ok() {
        return Err(refused(
            "The former data folder is the present one, so nothing was deleted.",
        ));
    }
    store::while_closed(&former, || delete_copied(shared, &former))?;
    let (files, example) = match Contents::from_folder(&former) {
        Ok(left) => {
            let (files, example) = left.count();
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
        // The lock file; what is not Hearth's stays, and with it the folder.
        let _ = fs::remove_file(former.join("hearth.lock")).and_then(|()| fs::remove_dir(&former));
    }
    Ok(DeletedFormer { left: files, example })
}

/// Deletes what the move has copied, unless the former folder was used since.
fn delete_copied(shared: &Shared, former: &Path) -> Result<(), Problem> {
    let by_hand = if *former == *shared.base {
        "To free the space, delete its other files in the system's file manager, but keep hearth-moved.json, which \
             says where the data is."
    } else {
        "To free the space, delete the folder in the system's file manager."
    };
    let copied = match Copied::read(&shared.data) {
        Ok(Some(copied)) => copied,
        Ok(None) => Copied::of_both(former, &shared.data).map_err(|error| failed(former, &error))?,
        // The user deleted the former files.
        Err(_) if bytes_of(former) == 0 => Copied::default(),
        Err(error) => {
            return Err(refused(&format!(
                "The list of what the move has copied, {}, cannot be read: {error}. So nothing was deleted in {}. {}",
                shared.data.join(COPIED).display(),
                former.display(),
                by_hand
            )));
        }
    };
    if copied.is_used_since(former, &shared.base) {
        if *former == *shared.base {
            return Err(refused(&format!(
                "Hearth was used in {} after the move, so nothing was deleted there. {}",
                former.display(),
                by_hand
            )));
        }
        return Err(refused(&format!(
            "Hearth was used in {} after the move, so nothing was deleted there. Start Hearth with HEARTH_DATA set to \
             it to look at that data, or delete the folder in the system's file manager.",
            former.display()
        )));
    }
    if copied.delete(former) {
        Ok(())
    } else {
        Err(refused(&format!(
            "Some files in {} could not be deleted. Delete them in the system's file manager.",
            former.display()
        )))
    }
}

/// Reports progress.
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

    /// # Errors
    /// The move was cancelled.
    fn report(&mut self, done: u64) -> io::Result<()> {
        if let Some(fraction) = self.percent.advance(done) {
            self.shared.emit(Event::MoveProgress { fraction });
        }
        self.cancellable.check()
    }
}

fn busy(message: &str) -> Problem {
    Problem {
        code: ProblemCode::Busy,
        message: message.to_owned(),
    }
}

fn refused(message: &str) -> Problem {
    Problem {
        code: ProblemCode::BadRequest,
        message: message.to_owned(),
    }
}

/// The problem of a file or folder at which a move failed.
fn failed(path: &Path, error: &io::Error) -> Problem {
    if is_cancelled(error) {
        return cancelled("The move was cancelled. Nothing was changed.");
    }
    Problem {
        code: match error.kind() {
            io::ErrorKind::StorageFull => ProblemCode::DiskFull,
            _ => ProblemCode::FileUnreadable,
        },
        message: format!(
            "The data could not be moved because of {}: {error}. Nothing was changed.",
            path.display()
        ),
    }
}

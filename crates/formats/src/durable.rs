//! Durable writes by atomic replace: after a kill, a full disk or a power loss at any moment, a
//! path has its old or its new content, never a part of it.
//!
//! The new content is written to a temporary sibling, `.NAME.part`, synced and renamed, and the
//! parent folder is synced. A temporary file or folder left by a kill is removed by the next write
//! to the same path. Two processes must not write the same path at the same time, except with
//! [`write_shared_file`]. [`append_line`] neither replaces nor syncs.
//!
//! All files are written through this module, with two exceptions. The file of packed weights is
//! not synced, since its checksums detect lost pages; the restoration of a store also sets the old
//! one aside between the two steps.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Ending of the temporary sibling of a file or folder.
const PART: &str = "part";
/// Ending of a complete new folder that is about to be renamed.
const NEXT: &str = "next";
/// Ending of the old folder while it is being replaced.
const LAST: &str = "last";

/// Atomically replaces a file with the output of `write`.
///
/// # Errors
/// The error of `write`, or the file cannot be created, synced or renamed. The old file is then
/// unchanged.
pub fn write_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let temporary = Temporary::beside(path)?;
    let file = File::create(&temporary.path)?;
    Ok(Staged::written(temporary, file, path, write)?.commit()?)
}

/// As [`write_file`], but several processes may write the same path at the same time. In return a
/// temporary file left by a kill stays.
///
/// # Errors
/// As [`write_file`].
pub fn write_shared_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    Ok(Staged::shared(path, write)?.commit()?)
}

/// Replaces a path with a complete file beside it: syncs that, renames it and syncs the folder.
///
/// # Errors
/// The file cannot be synced or renamed.
pub fn commit_file(complete: &Path, path: &Path) -> io::Result<()> {
    sync_file(complete)?;
    fs::rename(complete, path)?;
    sync_folder(parent(path))
}

/// A file that is written and synced, but not yet renamed to its final path. Removed on drop.
pub(crate) struct Staged {
    temporary: Temporary,
    path: PathBuf,
}

impl Staged {
    /// Stages a file as [`write_shared_file`] does.
    pub fn shared<E: From<io::Error>>(
        path: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (temporary, file) = Temporary::unique(path)?;
        Self::written(temporary, file, path, write)
    }

    fn written<E: From<io::Error>>(
        temporary: Temporary,
        file: File,
        path: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        let path = path.to_owned();
        Ok(Self { temporary, path })
    }

    /// Renames it to its final path.
    pub fn commit(self) -> io::Result<()> {
        fs::rename(&self.temporary.path, &self.path)?;
        self.temporary.renamed();
        sync_folder(parent(&self.path))
    }
}

/// Atomically replaces a file with the one that `fill` writes to the temporary path passed to it.
///
/// # Errors
/// As [`write_file`].
pub fn replace_file<E: From<io::Error>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    let temporary = Temporary::beside(path)?;
    fs::create_dir(&temporary.path)?;
    let file = temporary.path.join(path.file_name().unwrap_or_default());
    fill(&file)?;
    Ok(commit_file(&file, path)?)
}

/// Replaces a folder and its contents with the files that `fill` writes to the empty temporary
/// folder passed to it.
///
/// On Linux and macOS the folders are exchanged atomically. If the system or the file system does
/// not support that, the path is missing for a moment. After a kill at that moment
/// [`intact_folder`] finds the complete folder, and [`recover`] renames it back.
///
/// # Errors
/// The error of `fill`, or the folder cannot be created, synced or renamed. The old folder is then
/// unchanged.
pub fn replace_folder<E: From<io::Error>>(folder: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    if folder.exists() && !folder.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    create_folder(parent(folder))?;
    recover(folder)?;
    let temporary = Temporary::beside(folder)?;
    fs::create_dir(&temporary.path)?;
    fill(&temporary.path)?;
    for entry in fs::read_dir(&temporary.path)? {
        sync_file(&entry?.path())?;
    }
    sync_folder(&temporary.path)?;
    if !folder.exists() {
        fs::rename(&temporary.path, folder)?;
        temporary.renamed();
        return Ok(sync_folder(parent(folder))?);
    }
    if !exchange(&temporary.path, folder)? {
        let (next, last) = (sibling(folder, NEXT), sibling(folder, LAST));
        fs::rename(&temporary.path, &next)?;
        fs::rename(folder, &last)?;
        if let Err(error) = fs::rename(&next, folder) {
            recover(folder)?;
            return Err(error.into());
        }
        sync_folder(parent(folder))?;
        // The replacement is done. The next one removes remains of the old folder.
        let _ = fs::remove_dir_all(&last);
        return Ok(());
    }
    // The old folder is at the temporary path now and removed on drop.
    Ok(sync_folder(parent(folder))?)
}

/// Siblings that may hold a folder's content after a kill in [`replace_folder`]: the new folder,
/// then the old one.
pub fn recovery_candidates(folder: &Path) -> [PathBuf; 2] {
    [NEXT, LAST].map(|ending| sibling(folder, ending))
}

/// The path of a folder's content: the folder, or one of [`recovery_candidates`] after a kill in
/// [`replace_folder`].
pub fn intact_folder(folder: &Path) -> PathBuf {
    match folder.exists() {
        true => folder.to_owned(),
        false => recovery_candidates(folder)
            .into_iter()
            .find(|path| path.is_dir())
            .unwrap_or_else(|| folder.to_owned()),
    }
}

/// Completes or reverts a [`replace_folder`] that was interrupted by a kill, and removes temporary
/// files.
///
/// # Errors
/// A file or folder cannot be renamed or removed.
pub fn recover(folder: &Path) -> io::Result<()> {
    let intact = intact_folder(folder);
    if intact != folder {
        fs::rename(&intact, folder)?;
        sync_folder(parent(folder))?;
    }
    [PART, NEXT, LAST]
        .into_iter()
        .try_for_each(|ending| remove(&sibling(folder, ending)))
}

/// Appends a line to a file. If the last line is incomplete (after a kill), ends it first, so that
/// only that line is lost.
///
/// # Errors
/// The file cannot be read or written.
pub fn append_line(path: &Path, line: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut text = Vec::with_capacity(line.len() + 2);
    if file.seek(SeekFrom::End(0))? > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.push(b'\n');
        }
    }
    text.extend_from_slice(line);
    text.push(b'\n');
    file.write_all(&text)
}

/// Removes a file, if it exists.
///
/// # Errors
/// The file cannot be removed.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_folder(parent(path))),
    }
}

/// Creates a folder and its parents.
///
/// # Errors
/// A folder cannot be created or synced.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    create_folder(parent(folder))?;
    match fs::create_dir(folder) {
        Err(error) if !folder.is_dir() => return Err(error),
        _ => {}
    }
    sync_folder(parent(folder))
}

/// A temporary file or folder. Removed on drop.
struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// The temporary sibling of a path. Removes an existing one.
    fn beside(path: &Path) -> io::Result<Self> {
        check_name(path)?;
        let temporary = sibling(path, PART);
        remove(&temporary)?;
        Ok(Self { path: temporary })
    }

    /// Creates a temporary sibling of a path that no other write uses.
    fn unique(path: &Path) -> io::Result<(Self, File)> {
        /// Distinguishes files that one process writes at the same time.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        check_name(path)?;
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = sibling(path, &format!("{}-{number}.{PART}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                // Left by a killed process with the same process ID.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return opened.map(|file| (Self { path }, file)),
            }
        }
    }

    /// Marks it as renamed: there is nothing to remove.
    fn renamed(self) {
        std::mem::forget(self);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If this fails, the next write to the path tries again.
        let _ = remove(&self.path);
    }
}

fn check_name(path: &Path) -> io::Result<()> {
    match path.file_name() {
        Some(_) => Ok(()),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name")),
    }
}

/// `.NAME.ending` beside `NAME`.
fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// The parent folder of a path.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes a file or folder, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_file(path: &Path) -> io::Result<()> {
    // Windows requires write access to sync a file.
    OpenOptions::new().read(true).write(true).open(path)?.sync_all()
}

/// Syncs the entries of a folder, so that renames in it survive a power loss.
///
/// # Errors
/// The folder cannot be opened or synced.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Does nothing: folders cannot be opened here, and NTFS orders renames in its journal.
#[cfg(not(unix))]
pub fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Exchanges two paths atomically. Returns `false` if the system does not support it.
#[cfg(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos"))]
fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    let [one, other] = [one, other].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (one, other) = (one?, other?);
    // SAFETY: both are NUL-terminated strings that live until the call returns.
    #[cfg(target_os = "linux")]
    let done = unsafe {
        let here = libc::AT_FDCWD;
        libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), libc::RENAME_EXCHANGE)
    };
    // SAFETY: as above.
    #[cfg(target_os = "macos")]
    let done = unsafe { libc::renamex_np(one.as_ptr(), other.as_ptr(), libc::RENAME_SWAP) };
    if done == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOSYS | libc::ENOTSUP) => Ok(false),
        _ => Err(error),
    }
}

/// Exchanges two paths atomically. Returns `false` if the system does not support it.
#[cfg(not(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos")))]
fn exchange(_one: &Path, _other: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(parent(path)).expect("a folder");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn a_folder_is_replaced_with_its_contents() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("deep/adapter");
        for (file, text) in [("one", "1"), ("two", "2")] {
            replace_folder::<io::Error>(&folder, |temporary| fs::write(temporary.join(file), text)).expect("replaced");
            assert_eq!(names(&folder), [file]);
            assert_eq!(names(&root.path().join("deep")), ["adapter"]);
        }
        let failed = replace_folder(&folder, |temporary| {
            fs::write(temporary.join("three"), "half").expect("written");
            Err(io::Error::other("no"))
        });
        assert!(failed.is_err());
        assert_eq!(
            (names(&folder), names(&root.path().join("deep"))),
            (vec!["two".into()], vec!["adapter".into()])
        );
    }

    #[test]
    fn a_kill_between_two_renames_is_recovered_from() {
        // The siblings after each rename without atomic exchange, and which content is intact.
        for (siblings, intact) in [
            (&[("adapter", "old"), (".adapter.part", "half")][..], "old"),
            (&[("adapter", "old"), (".adapter.next", "new")], "old"),
            (&[(".adapter.last", "old"), (".adapter.next", "new")], "new"),
            (&[("adapter", "new"), (".adapter.last", "old")], "new"),
            (&[(".adapter.last", "old")], "old"),
        ] {
            let root = tempfile::tempdir().expect("a folder");
            siblings
                .iter()
                .for_each(|(name, text)| put(&root.path().join(name).join("file"), text));
            let folder = root.path().join("adapter");
            let read = |folder: &Path| fs::read_to_string(folder.join("file")).expect("a file");
            assert_eq!(read(&intact_folder(&folder)), intact, "{siblings:?}");
            recover(&folder).expect("recovered");
            assert_eq!(read(&folder), intact, "{siblings:?}");
            assert_eq!(names(root.path()), ["adapter"]);
        }
    }

    #[test]
    fn temporary_files_left_by_a_kill_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("file");
        put(&root.path().join(".file.part"), "half");
        write_file::<io::Error>(&path, |out| out.write_all(b"whole")).expect("written");
        put(&root.path().join(".file.part/file"), "half");
        replace_file::<io::Error>(&path, |temporary| fs::write(temporary, "again")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "again");
        assert_eq!(names(root.path()), ["file"]);
    }

    #[test]
    fn leftovers_of_a_killed_process_with_the_same_id_are_skipped() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("file");
        for number in 0..50 {
            put(
                &sibling(&path, &format!("{}-{number}.part", std::process::id())),
                "half",
            );
        }
        write_shared_file::<io::Error>(&path, |out| out.write_all(b"whole")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "whole");
    }

    #[test]
    fn a_line_after_an_incomplete_one_is_complete() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("log");
        append_line(&path, b"one").expect("written");
        fs::write(&path, "one\ntw").expect("written");
        append_line(&path, b"three").expect("written");
        append_line(&path, b"four").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "one\ntw\nthree\nfour\n");
    }
}

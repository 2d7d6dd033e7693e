//! Durable writes: after a kill, a full disk or a loss of power at any moment, a path holds what it held before or what was written,
//! never a part of it.
//!
//! A replacement is staged in a sibling, `.NAME.part`, flushed, renamed, and the renaming flushed too. What a kill leaves of a staged
//! file or folder is removed by the next write to the same path. Two processes must not write one path at the same time.
//! [`append_line`] neither stages nor flushes.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The sibling in which a file or folder is staged.
const PART: &str = "part";
/// The sibling of a folder that is whole, and about to take its place.
const NEXT: &str = "next";
/// The sibling that a folder was before it is replaced.
const LAST: &str = "last";

/// Replaces a file with what `write` writes.
///
/// # Errors
/// What `write` says, or that the file cannot be made, flushed or renamed; then the old one is unchanged.
pub fn write_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let staged = Staged::of(path)?;
    let mut out = BufWriter::new(File::create(&staged.path)?);
    write(&mut out)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    drop(out);
    fs::rename(&staged.path, path)?;
    staged.renamed();
    Ok(sync_folder(parent(path))?)
}

/// Replaces a file with the one that `fill` makes at the path that it is given.
///
/// # Errors
/// As [`write_file`].
pub fn replace_file<E: From<io::Error>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    let staged = Staged::of(path)?;
    fs::create_dir(&staged.path)?;
    let file = staged.path.join(path.file_name().unwrap_or_default());
    fill(&file)?;
    sync_file(&file)?;
    fs::rename(&file, path)?;
    Ok(sync_folder(parent(path))?)
}

/// Replaces a folder and all that is in it with the files that `fill` puts into the empty folder that it is given.
///
/// On Linux and macOS the two are exchanged at once. If the system or the file system cannot do that, the path is missing for a moment;
/// after a kill in it, [`standing_in`] finds the folder that is whole, and [`recover`] puts it in place.
///
/// # Errors
/// What `fill` says, or that the folder cannot be made, flushed or renamed; then the old one is unchanged.
pub fn replace_folder<E: From<io::Error>>(folder: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    if folder.exists() && !folder.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    create_folder(parent(folder))?;
    recover(folder)?;
    let staged = Staged::of(folder)?;
    fs::create_dir(&staged.path)?;
    fill(&staged.path)?;
    for entry in fs::read_dir(&staged.path)? {
        sync_file(&entry?.path())?;
    }
    sync_folder(&staged.path)?;
    if !folder.exists() {
        fs::rename(&staged.path, folder)?;
        staged.renamed();
        return Ok(sync_folder(parent(folder))?);
    }
    if !exchange(&staged.path, folder)? {
        let (next, last) = (sibling(folder, NEXT), sibling(folder, LAST));
        fs::rename(&staged.path, &next)?;
        fs::rename(folder, &last)?;
        if let Err(error) = fs::rename(&next, folder) {
            recover(folder)?;
            return Err(error.into());
        }
        sync_folder(parent(folder))?;
        // It is replaced; the next one removes what is left of it.
        let _ = fs::remove_dir_all(&last);
        return Ok(());
    }
    // The old folder is at the staged path now, which removes itself.
    Ok(sync_folder(parent(folder))?)
}

/// What may stand in for a folder after a kill in [`replace_folder`]: the new one, then the old one.
pub fn stand_ins(folder: &Path) -> [PathBuf; 2] {
    [NEXT, LAST].map(|ending| sibling(folder, ending))
}

/// Where the content of a folder is that [`replace_folder`] replaces: the folder, or what stands in for it after a kill.
pub fn standing_in(folder: &Path) -> PathBuf {
    match folder.exists() {
        true => folder.to_owned(),
        false => stand_ins(folder)
            .into_iter()
            .find(|path| path.is_dir())
            .unwrap_or_else(|| folder.to_owned()),
    }
}

/// Finishes or takes back what a kill left of [`replace_folder`].
///
/// # Errors
/// Something cannot be renamed or removed.
pub fn recover(folder: &Path) -> io::Result<()> {
    let whole = standing_in(folder);
    if whole != folder {
        fs::rename(&whole, folder)?;
        sync_folder(parent(folder))?;
    }
    [PART, NEXT, LAST]
        .into_iter()
        .try_for_each(|ending| remove(&sibling(folder, ending)))
}

/// Adds a line to a file. One that a kill cut short is ended first, so that it costs no other.
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

/// Removes a file, if there is one.
///
/// # Errors
/// It cannot be removed.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_folder(parent(path))),
    }
}

/// Makes a folder and its parents.
///
/// # Errors
/// One of them cannot be made or flushed.
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

/// What is staged; dropped, it is removed.
struct Staged {
    path: PathBuf,
}

impl Staged {
    /// A free path beside another.
    fn of(path: &Path) -> io::Result<Self> {
        if path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
        }
        let staged = sibling(path, PART);
        remove(&staged)?;
        Ok(Self { path: staged })
    }

    /// It has been renamed.
    fn renamed(self) {
        std::mem::forget(self);
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // The next write to the path tries again.
        let _ = remove(&self.path);
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

/// The folder that a path is in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes a file or folder, if there is one.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_file(path: &Path) -> io::Result<()> {
    // Windows flushes only what may be written.
    OpenOptions::new().read(true).write(true).open(path)?.sync_all()
}

/// Waits until the disk has the entries of a folder, so that what was renamed in it stays so through a loss of power.
///
/// # Errors
/// The folder cannot be opened or flushed.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Folders cannot be opened here; NTFS orders renames in its journal.
#[cfg(not(unix))]
pub fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Exchanges two paths at once; `false` if that is not possible here.
#[cfg(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos"))]
fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    let [one, other] = [one, other].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (one, other) = (one?, other?);
    // SAFETY: both are strings that end in NUL and live until the call returns.
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

/// Exchanges two paths at once; `false` if that is not possible here.
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
        fs::write(path, text).expect("it is written");
    }

    #[test]
    fn a_folder_is_replaced_with_all_that_was_in_it() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("deep/adapter");
        for (file, text) in [("one", "1"), ("two", "2")] {
            replace_folder::<io::Error>(&folder, |staged| fs::write(staged.join(file), text)).expect("it is replaced");
            assert_eq!(names(&folder), [file]);
            assert_eq!(names(&root.path().join("deep")), ["adapter"]);
        }
        let failed = replace_folder(&folder, |staged| {
            fs::write(staged.join("three"), "half").expect("it is written");
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
        // What is there after each rename where a folder cannot be exchanged, and which is whole.
        for (there, whole) in [
            (&[("adapter", "old"), (".adapter.part", "half")][..], "old"),
            (&[("adapter", "old"), (".adapter.next", "new")], "old"),
            (&[(".adapter.last", "old"), (".adapter.next", "new")], "new"),
            (&[("adapter", "new"), (".adapter.last", "old")], "new"),
            (&[(".adapter.last", "old")], "old"),
        ] {
            let root = tempfile::tempdir().expect("a folder");
            there
                .iter()
                .for_each(|(name, text)| put(&root.path().join(name).join("file"), text));
            let folder = root.path().join("adapter");
            let read = |folder: &Path| fs::read_to_string(folder.join("file")).expect("a file");
            assert_eq!(read(&standing_in(&folder)), whole, "{there:?}");
            recover(&folder).expect("it is recovered");
            assert_eq!(read(&folder), whole, "{there:?}");
            assert_eq!(names(root.path()), ["adapter"]);
        }
    }

    #[test]
    fn what_a_kill_left_staged_is_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("file");
        put(&root.path().join(".file.part"), "half");
        write_file::<io::Error>(&path, |out| out.write_all(b"whole")).expect("it is written");
        put(&root.path().join(".file.part/file"), "half");
        replace_file::<io::Error>(&path, |staged| fs::write(staged, "again")).expect("it is written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "again");
        assert_eq!(names(root.path()), ["file"]);
    }

    #[test]
    fn a_line_after_a_cut_one_is_a_line() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("log");
        append_line(&path, b"one").expect("it is written");
        fs::write(&path, "one\ntw").expect("it is written");
        append_line(&path, b"three").expect("it is written");
        append_line(&path, b"four").expect("it is written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "one\ntw\nthree\nfour\n");
    }
}

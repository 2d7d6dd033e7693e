//! Atomic replacement of folders.

use super::temporary::{self, Temporary, remove, sibling};
use super::{create_folder, parent, sync_folder, target};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Name suffix of a complete new folder that is about to be renamed.
const NEXT: &str = "next";
/// Name suffix of the old folder while it is being replaced.
const LAST: &str = "last";

/// Replaces a folder and its contents with the files that `fill` writes to the empty temporary
/// folder passed to it.
///
/// On Linux and macOS the folders are exchanged atomically. If the system or the file system does
/// not support that, the path is missing for a moment. If the process is killed at that moment,
/// [`intact_folder`] finds a complete folder, and [`recover`] renames it to the path.
///
/// # Errors
/// The error of `fill`, or if the folder cannot be created, synced or renamed. The old folder is
/// then unchanged.
pub fn replace_folder<E: From<io::Error>>(folder: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    let folder = &target(folder)?;
    if folder.exists() && !folder.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    create_folder(parent(folder))?;
    recover(folder)?;
    let temporary = Temporary::beside(folder)?;
    let new = &temporary.content();
    fs::create_dir(new)?;
    fill(new)?;
    finish_folder(new, folder)?;
    if !folder.exists() {
        fs::rename(new, folder)?;
    } else if !exchange(new, folder)? {
        replace_in_steps(new, folder)?;
    }
    // After an exchange the old folder is at the temporary path, which is removed on drop.
    Ok(sync_folder(parent(folder))?)
}

/// Gives a new folder and its files the permissions of the old ones, and syncs them.
fn finish_folder(new: &Path, old: &Path) -> io::Result<()> {
    for entry in fs::read_dir(new)? {
        let entry = entry?;
        // Windows requires write access to sync a file.
        let file = OpenOptions::new().read(true).write(true).open(entry.path())?;
        super::finish(file, &old.join(entry.file_name()))?;
    }
    if cfg!(unix)
        && let Ok(old) = fs::metadata(old)
    {
        fs::set_permissions(new, old.permissions())?;
    }
    sync_folder(new)
}

/// Replaces a folder by two renames, between which it is missing.
fn replace_in_steps(new: &Path, folder: &Path) -> io::Result<()> {
    let (next, last) = (sibling(folder, NEXT), sibling(folder, LAST));
    fs::rename(new, &next)?;
    fs::rename(folder, &last)?;
    if let Err(error) = fs::rename(&next, folder) {
        recover(folder)?;
        return Err(error);
    }
    sync_folder(parent(folder))?;
    // If this fails, the next replacement removes the old folder.
    let _ = fs::remove_dir_all(&last);
    Ok(())
}

/// Siblings that may hold a folder's content if [`replace_folder`] was killed: the new folder, then
/// the old one.
pub fn recovery_candidates(folder: &Path) -> [PathBuf; 2] {
    [NEXT, LAST].map(|suffix| sibling(folder, suffix))
}

/// The path of a folder's content: the folder, or one of [`recovery_candidates`] if
/// [`replace_folder`] was killed.
pub fn intact_folder(folder: &Path) -> PathBuf {
    if folder.exists() {
        folder.to_owned()
    } else {
        recovery_candidates(folder)
            .into_iter()
            .find(|path| path.is_dir())
            .unwrap_or_else(|| folder.to_owned())
    }
}

/// Completes or reverts a [`replace_folder`] that was killed, and removes temporary files.
///
/// # Errors
/// If a file or folder cannot be renamed or removed.
pub fn recover(folder: &Path) -> io::Result<()> {
    let intact = intact_folder(folder);
    if intact != folder {
        fs::rename(&intact, folder)?;
        sync_folder(parent(folder))?;
    }
    temporary::remove_abandoned(folder);
    [NEXT, LAST]
        .into_iter()
        .try_for_each(|suffix| remove(&sibling(folder, suffix)))
}

/// Exchanges two paths atomically. Returns `false` if the system does not support it.
#[cfg(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos"))]
fn exchange(a: &Path, b: &Path) -> io::Result<bool> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    let [a, b] = [a, b].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (a, b) = (a?, b?);
    // SAFETY: both are NUL-terminated strings that live until the call returns.
    #[cfg(target_os = "linux")]
    let result = unsafe {
        let cwd = libc::AT_FDCWD;
        libc::renameat2(cwd, a.as_ptr(), cwd, b.as_ptr(), libc::RENAME_EXCHANGE)
    };
    // SAFETY: as above.
    #[cfg(target_os = "macos")]
    let result = unsafe { libc::renamex_np(a.as_ptr(), b.as_ptr(), libc::RENAME_SWAP) };
    if result == 0 {
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
fn exchange(_a: &Path, _b: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{names, put};
    use super::*;

    #[test]
    fn a_folder_is_replaced_with_its_contents() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("deep/adapter");
        for (file, text) in [("one", "1"), ("two", "2")] {
            replace_folder::<io::Error>(&folder, |temporary| fs::write(temporary.join(file), text)).expect("replaced");
            assert_eq!(names(&folder), [file]);
            assert_eq!(names(&root.path().join("deep")), ["adapter"]);
        }
        let result = replace_folder(&folder, |temporary| {
            fs::write(temporary.join("three"), "half").expect("written");
            Err(io::Error::other("no"))
        });
        assert!(result.is_err());
        assert_eq!(names(&folder), ["two"]);
        assert_eq!(names(&root.path().join("deep")), ["adapter"]);
    }

    #[test]
    fn a_kill_between_two_renames_is_recovered_from() {
        // The folders after each step without atomic exchange, and the intact content.
        for (folders, intact) in [
            (&[("adapter", "old"), (".adapter.999-1.part", "half")][..], "old"),
            (&[("adapter", "old"), (".adapter.next", "new")], "old"),
            (&[(".adapter.last", "old"), (".adapter.next", "new")], "new"),
            (&[("adapter", "new"), (".adapter.last", "old")], "new"),
            (&[(".adapter.last", "old")], "old"),
        ] {
            let root = tempfile::tempdir().expect("a folder");
            for (name, text) in folders {
                put(&root.path().join(name).join("file"), text);
            }
            if root.path().join(".adapter.999-1.part").exists() {
                put(&root.path().join(".adapter.999-1.part/.lock"), "");
            }
            let folder = root.path().join("adapter");
            let read = |folder: &Path| fs::read_to_string(folder.join("file")).expect("a file");
            assert_eq!(read(&intact_folder(&folder)), intact, "{folders:?}");
            recover(&folder).expect("recovered");
            assert_eq!(read(&folder), intact, "{folders:?}");
            assert_eq!(names(root.path()), ["adapter"]);
        }
    }

    #[test]
    fn simultaneous_replacements_do_not_mix() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("n".repeat(255));
        let outer = replace_folder::<io::Error>(&folder, |new| {
            fs::write(new.join("one"), "outer")?;
            replace_folder::<io::Error>(&folder, |new| fs::write(new.join("inner"), "inner"))?;
            fs::write(new.join("two"), "outer")
        });
        outer.expect("replaced");
        assert_eq!(names(&folder), ["one", "two"]);
        assert_eq!(names(root.path()).len(), 1);
    }

    #[test]
    fn a_replacement_in_steps_leaves_nothing() {
        let root = tempfile::tempdir().expect("a folder");
        let [new, folder] = ["new", "folder"].map(|name| root.path().join(name));
        put(&new.join("file"), "new");
        put(&folder.join("file"), "old");
        replace_in_steps(&new, &folder).expect("replaced");
        assert_eq!(fs::read_to_string(folder.join("file")).expect("a file"), "new");
        assert_eq!(names(root.path()), ["folder"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let root = tempfile::tempdir().expect("a folder");
        let [folder, link] = ["folder", "link"].map(|name| root.path().join(name));
        put(&folder.join("file"), "old");
        symlink("folder", &link).expect("a link");
        for (path, mode) in [(folder.clone(), 0o700), (folder.join("file"), 0o600)] {
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set");
        }
        replace_folder::<io::Error>(&link, |new| fs::write(new.join("file"), "new")).expect("replaced");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("file"))), (0o700, 0o600));
        assert_eq!(fs::read_to_string(folder.join("file")).expect("a file"), "new");
        assert!(link.is_symlink() && names(root.path()) == ["folder", "link"]);
    }
}

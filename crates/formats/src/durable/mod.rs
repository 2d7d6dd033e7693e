//! Durable writes by atomic replacement: if the process is killed or the disk is full at any
//! moment, a path has its complete old or new content.
//!
//! The new content is written to a temporary sibling, `.NAME.PID-N.part`, synced and renamed, and
//! the parent folder is synced. Several processes may write the same path at the same time: the
//! last one to finish replaces the others. A temporary file of a killed process is removed by the
//! next write to the same path.
//!
//! A symbolic link stays and its target is replaced. On Unix the new file or folder has the
//! permissions of the old one, but the owner of this process.
//!
//! After a power loss, if the disk flushes its cache on request:
//! - Linux: a path has the new content if the function returned (`fsync` of the file, `rename`,
//!   `fsync` of the folder).
//! - macOS: as on Linux, with `F_FULLFSYNC` in place of `fsync`.
//! - Windows: a path has the old or the new content, even if the function returned
//!   (`FlushFileBuffers` of the file; folders cannot be synced, and NTFS orders renames in its
//!   journal). A file that another program has open may not be replaceable, which is an error.
//! - FAT and exFAT, on any system: renames are not atomic, and either content may be lost.
//!
//! [`replace_folder`] is atomic on Linux (with glibc) and macOS, and recoverable elsewhere.
//! [`append_line`] neither replaces nor syncs.
//!
//! All files are written through this module, with four exceptions. The file of packed weights and
//! the prompt cache are not synced, since their checksums detect lost pages. A download is appended
//! to and then moved by [`commit_file`]. The restoration of a store also moves the old one away
//! between the two steps.

mod folder;
mod temporary;

pub use folder::{intact_folder, recover, recovery_candidates, replace_folder};

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use temporary::Temporary;

/// Atomically replaces a file with the output of `write`.
///
/// # Errors
/// The error of `write`, or if the path is a folder or a broken link, or the file cannot be
/// created, synced or renamed. The old file is then unchanged.
pub fn write_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    Ok(Staged::new(path, write)?.commit()?)
}

/// Atomically replaces a file with the one that `fill` writes to the temporary path passed to it.
///
/// # Errors
/// As [`write_file`].
pub fn replace_file<E: From<io::Error>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    let path = file_target(path)?;
    let temporary = Temporary::beside(&path)?;
    fill(&temporary.content())?;
    Ok(commit_file(&temporary.content(), &path)?)
}

/// Atomically replaces a file with a complete one on the same file system: syncs the complete one,
/// renames it and syncs the folder.
///
/// # Errors
/// If the file cannot be synced or renamed.
pub fn commit_file(complete: &Path, path: &Path) -> io::Result<()> {
    let path = file_target(path)?;
    // Windows requires write access to sync a file.
    let file = OpenOptions::new().read(true).write(true).open(complete)?;
    finish(file, &path)?;
    fs::rename(complete, &path)?;
    sync_folder(parent(&path))
}

/// A file that is written and synced, but not yet renamed to its final path. Removed on drop.
pub(crate) struct Staged {
    temporary: Temporary,
    path: PathBuf,
}

impl Staged {
    /// Writes the file.
    pub fn new<E: From<io::Error>>(
        path: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let path = file_target(path)?;
        let temporary = Temporary::beside(&path)?;
        let mut out = BufWriter::new(File::create(temporary.content())?);
        write(&mut out)?;
        finish(out.into_inner().map_err(io::IntoInnerError::into_error)?, &path)?;
        Ok(Self { temporary, path })
    }

    /// Renames the file to its final path.
    pub fn commit(self) -> io::Result<()> {
        fs::rename(self.temporary.content(), &self.path)?;
        sync_folder(parent(&self.path))
    }
}

/// Appends a line to a file. If the last line is incomplete, since a process was killed, ends it
/// first, so that only that line is lost.
///
/// # Errors
/// If the file cannot be read or written.
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
/// If the file cannot be removed.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.and_then(|()| sync_folder(parent(path))),
    }
}

/// Creates a folder and its parents.
///
/// # Errors
/// If a folder cannot be created or synced.
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

/// The file that is replaced by a write to `path`.
fn file_target(path: &Path) -> io::Result<PathBuf> {
    let path = target(path)?;
    if path.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else {
        Ok(path)
    }
}

/// The path itself, or the target of a symbolic link.
fn target(path: &Path) -> io::Result<PathBuf> {
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
    }
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    fs::canonicalize(path).map_err(|error| {
        let why = format!("it is a symbolic link whose target cannot be found: {error}");
        io::Error::new(error.kind(), why)
    })
}

/// Gives a new file the permissions of the old one at `path`, syncs it, and closes it, since
/// Windows does not rename an open file.
fn finish(file: File, path: &Path) -> io::Result<()> {
    if cfg!(unix)
        && let Ok(old) = fs::metadata(path)
    {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()
}

/// The parent folder of a path.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Syncs the entries of a folder, so that renames in it survive a power loss.
///
/// # Errors
/// If the folder cannot be opened or synced.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Does nothing: folders cannot be synced on this system.
#[cfg(not(unix))]
pub fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(super) fn put(path: &Path, text: &str) {
        fs::create_dir_all(parent(path)).expect("a folder");
        fs::write(path, text).expect("written");
    }

    /// [`write_file`] and [`replace_file`].
    const WRITE_FUNCTIONS: [fn(&Path, &str) -> io::Result<()>; 2] = [
        |path, text| write_file(path, |out| out.write_all(text.as_bytes())),
        |path, text| replace_file(path, |temporary| fs::write(temporary, text)),
    ];

    fn read(path: &Path) -> String {
        fs::read_to_string(path).expect("a file")
    }

    #[test]
    fn temporary_files_left_by_a_kill_are_removed() {
        for write in WRITE_FUNCTIONS {
            let root = tempfile::tempdir().expect("a folder");
            let path = root.path().join("file");
            put(&root.path().join(".file.999-1.part/.lock"), "");
            put(&root.path().join(".file.999-1.part/file"), "half");
            fs::create_dir(root.path().join(".file.999-2.part")).expect("a folder");
            let others = [
                ".file.999-x.part",
                ".file.part",
                ".other.999-1.part",
                "mine.file.999-1.part",
            ];
            for name in others {
                put(&root.path().join(name).join(".lock"), "");
            }
            write(&path, "whole").expect("written");
            assert_eq!(read(&path), "whole");
            assert_eq!(names(root.path()), [&others[..3], &["file"], &others[3..]].concat());
        }
    }

    #[test]
    fn simultaneous_writes_do_not_mix() {
        for write in WRITE_FUNCTIONS {
            let root = tempfile::tempdir().expect("a folder");
            let path = root.path().join("file");
            let outer = write_file(&path, |out| {
                out.write_all(b"ou")?;
                write(&path, "inner")?;
                assert_eq!(read(&path), "inner");
                out.write_all(b"ter")
            });
            outer.expect("written");
            assert_eq!(read(&path), "outer");
            assert_eq!(names(root.path()), ["file"]);
        }
    }

    #[test]
    fn the_longest_name_is_written() {
        for write in WRITE_FUNCTIONS {
            let root = tempfile::tempdir().expect("a folder");
            let path = root.path().join("n".repeat(255));
            write(&path, "long").expect("written");
            assert_eq!(read(&path), "long");
        }
    }

    #[test]
    fn a_folder_is_refused_before_anything_is_written() {
        let root = tempfile::tempdir().expect("a folder");
        let results = [
            write_file::<io::Error>(root.path(), |_| panic!("it is written")),
            replace_file::<io::Error>(root.path(), |_| panic!("it is written")),
        ];
        assert!(results.iter().all(Result::is_err) && names(root.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn permissions_stay() {
        use std::os::unix::fs::PermissionsExt;
        for write in WRITE_FUNCTIONS {
            let root = tempfile::tempdir().expect("a folder");
            let path = root.path().join("file");
            write(&path, "old").expect("written");
            let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
            let default = root.path().join("default");
            put(&default, "");
            assert_eq!(mode(&path), mode(&default));
            for old_mode in [0o600, 0o664, 0o400] {
                fs::set_permissions(&path, PermissionsExt::from_mode(old_mode)).expect("set");
                write(&path, "new").expect("written");
                assert_eq!(mode(&path), old_mode);
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_target_is_replaced() {
        for write in WRITE_FUNCTIONS {
            let root = tempfile::tempdir().expect("a folder");
            let [file, link] = ["deep/file", "link"].map(|name| root.path().join(name));
            put(&file, "old");
            std::os::unix::fs::symlink("deep/file", &link).expect("a link");
            write(&link, "new").expect("written");
            assert!(link.is_symlink() && !file.is_symlink());
            assert_eq!(read(&file), "new");
            assert_eq!(names(parent(&file)), ["file"]);
            fs::remove_file(&file).expect("removed");
            let error = write(&link, "new").expect_err("a broken link").to_string();
            assert!(error.contains("symbolic link"), "{error}");
        }
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

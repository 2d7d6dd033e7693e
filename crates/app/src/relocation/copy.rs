//! Copies the data folder's files. The files of models, which are never changed in place, are hard
//! links if both folders are on one disk.

use super::copied::{Copied, CopiedFile, modified};
use crate::data_folder::is_relocated;
use hearth_formats::durable;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The folder of models, whose files may be linked.
const MODELS: &str = "models";

/// Bytes copied between two reports.
const CHUNK: usize = 1 << 20;

/// The files, folders and links to copy.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Relative paths of folders, parents first.
    folders: Vec<PathBuf>,
    files: Vec<CopiedFile>,
    /// Relative paths of symbolic links.
    links: Vec<PathBuf>,
    /// Bytes of all files.
    pub bytes: u64,
}

impl Contents {
    /// Lists Hearth's entries in a data folder, except the store.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub(super) fn from_folder(data: &Path) -> io::Result<Self> {
        let mut contents = Self::default();
        for entry in fs::read_dir(data)? {
            let entry = entry?;
            if is_relocated(&entry.file_name()) {
                contents.add(data, &entry.path())?;
            }
        }
        Ok(contents)
    }

    fn add(&mut self, data: &Path, path: &Path) -> io::Result<()> {
        let metadata = fs::symlink_metadata(path)?;
        let name = path.strip_prefix(data).unwrap_or(path).to_owned();
        if metadata.is_dir() {
            self.folders.push(name);
            for entry in fs::read_dir(path)? {
                self.add(data, &entry?.path())?;
            }
        } else if metadata.is_symlink() {
            self.links.push(name);
        } else if metadata.is_file() {
            self.bytes += metadata.len();
            self.files.push(CopiedFile {
                path: name,
                bytes: metadata.len(),
                modified: modified(&metadata),
            });
        }
        Ok(())
    }

    /// The list of the copied entries. Entries whose path is not UTF-8 are left out, and therefore
    /// not deleted later.
    pub(super) fn copied(&self) -> Copied {
        let is_text = |path: &&PathBuf| path.to_str().is_some();
        Copied {
            clock: None,
            files: self.files.iter().filter(|file| is_text(&&file.path)).cloned().collect(),
            links: self.links.iter().filter(is_text).cloned().collect(),
            folders: self.folders.iter().filter(is_text).cloned().collect(),
        }
    }

    /// The number of files and links, and the path of one of them.
    pub(super) fn count(&self) -> (u32, Option<&Path>) {
        let mut paths = self.files.iter().map(|file| &file.path).chain(&self.links);
        let first = paths.next().map(PathBuf::as_path);
        ((self.files.len() + self.links.len()) as u32, first)
    }

    /// Whether the models of `data` can be linked in `to`, so that they take no space.
    fn can_link(&self, data: &Path, to: &Path) -> bool {
        let mut models = self.files.iter().filter(|file| file.path.starts_with(MODELS));
        let Some(first) = models.next() else {
            return false;
        };
        let link = to.join("hearth-link");
        let is_linked = fs::hard_link(data.join(&first.path), &link).is_ok();
        is_linked && fs::remove_file(link).is_ok()
    }

    /// Bytes that the copy in `to` takes.
    pub(super) fn bytes_to_copy(&self, data: &Path, to: &Path) -> u64 {
        let can_link = self.can_link(data, to);
        let copied = self
            .files
            .iter()
            .filter(|file| !(can_link && file.path.starts_with(MODELS)));
        copied.map(|file| file.bytes).sum()
    }

    /// Copies all entries from `data` to the empty folder `to`, which is renamed to `place` later.
    /// `report` receives the number of copied bytes.
    ///
    /// # Errors
    /// A file cannot be read or written, or an error of `report`.
    pub(super) fn copy(
        &self,
        data: &Path,
        to: &Path,
        place: &Path,
        report: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let can_link = self.can_link(data, to);
        for name in &self.folders {
            crate::permissions::create_private_folder(&to.join(name))?;
        }
        let mut done = 0;
        for CopiedFile { path: name, bytes, .. } in &self.files {
            let (source, target) = (data.join(name), to.join(name));
            let is_linked = can_link && name.starts_with(MODELS) && fs::hard_link(&source, &target).is_ok();
            if !is_linked {
                copy_file(&source, &target, &mut |file_done| report(done + file_done))?;
            }
            done += bytes;
            report(done)?;
        }
        for name in &self.links {
            let link = data.join(name);
            let target = relocated(&link, data, place)?;
            make_link(&link, &target, &to.join(name))?;
        }
        // Deepest first: an entry is durable once its folder is synced.
        for name in self.folders.iter().rev() {
            keep_modified(&data.join(name), &to.join(name));
            durable::sync_folder(&to.join(name))?;
        }
        durable::sync_folder(to)
    }
}

fn copy_file(from: &Path, to: &Path, report: &mut dyn FnMut(u64) -> io::Result<()>) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::create_new(to)?;
    target.set_permissions(source.metadata()?.permissions())?;
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let count = match source.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        if count == 0 {
            keep_modified(from, to);
            return target.sync_all();
        }
        target.write_all(&buffer[..count])?;
        done += count as u64;
        report(done)?;
    }
}

/// Copies the modification time, with which later deletions are compared. Some systems cannot set
/// it for a folder, so errors are ignored.
fn keep_modified(from: &Path, to: &Path) {
    let modified = fs::metadata(from).and_then(|metadata| metadata.modified());
    if let Ok(modified) = modified {
        let _ = File::open(to).and_then(|target| target.set_modified(modified));
    }
}

/// Returns the absolute target of a link. A target in `data` is moved to `place`.
fn relocated(link: &Path, data: &Path, place: &Path) -> io::Result<PathBuf> {
    let target = link.parent().unwrap_or(data).join(fs::read_link(link)?);
    // Canonical: a target with `..` may begin with the data folder and be outside of it. A broken
    // link is left unchanged.
    let target = fs::canonicalize(&target).unwrap_or(target);
    let data = fs::canonicalize(data)?;
    Ok(target
        .strip_prefix(&data)
        .map_or_else(|_| target.clone(), |relative| place.join(relative)))
}

/// Creates a copy of the user's link.
#[cfg(unix)]
fn make_link(_: &Path, target: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, to)
}

/// Creates a copy of the user's link, which may need a privilege.
#[cfg(windows)]
fn make_link(from: &Path, target: &Path, to: &Path) -> io::Result<()> {
    if fs::metadata(from).is_ok_and(|metadata| metadata.is_dir()) {
        std::os::windows::fs::symlink_dir(target, to)
    } else {
        std::os::windows::fs::symlink_file(target, to)
    }
}

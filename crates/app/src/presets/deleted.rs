//! Deleted presets, in a subfolder of the presets' folder. They can be restored for a while.

use super::{file, folder, name, no_preset, rename};
use crate::{export::unwritable, permissions, store::RESTORABLE_FOR, wire::Problem};
use std::{
    fs::{self, File},
    io,
    path::Path,
    time::SystemTime,
};

/// The subfolder of deleted presets.
pub(crate) const FOLDER: &str = "deleted";

/// Moves a file to the deleted ones.
pub(super) fn delete(presets: &Path, path: &Path) -> Result<(), Problem> {
    let deleted = presets.join(FOLDER);
    let moved = || -> io::Result<()> {
        permissions::create_private_folder(&deleted)?;
        // Its age counts from now.
        File::options()
            .write(true)
            .open(path)?
            .set_modified(SystemTime::now())?;
        rename(path, &deleted.join(path.file_name().unwrap_or_default()))
    };
    moved().map_err(|error| unwritable(path, &error))
}

/// Moves a deleted preset back. Returns its id, another one if that is taken; so with its name.
pub(super) fn restore(presets: &Path, id: &str) -> Result<String, Problem> {
    let from = folder::path_of(&presets.join(FOLDER), id).ok_or_else(no_preset)?;
    let mut preset = file::read(&from).map_err(|why| super::unreadable(&from, &why))?;
    let free = name::free(&folder::list(presets), &preset.name);
    if free != preset.name {
        preset.name = free;
        file::write(&from, &preset)?;
    }
    let stem = match folder::path_of(presets, id) {
        None => id.to_owned(),
        Some(_) => folder::free_stem(presets, &preset.name),
    };
    let to = presets.join(format!("{stem}.json"));
    rename(&from, &to).map_err(|error| unwritable(&to, &error))?;
    Ok(stem)
}

/// Removes presets that were deleted long ago.
pub(super) fn purge(presets: &Path) {
    let now = SystemTime::now();
    for (_, path) in folder::files(&presets.join(FOLDER)) {
        let deleted = fs::metadata(&path).and_then(|about| about.modified());
        let age = deleted.ok().and_then(|deleted| now.duration_since(deleted).ok());
        if age.is_some_and(|age| age > RESTORABLE_FOR)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "a deleted preset could not be removed");
        }
    }
}

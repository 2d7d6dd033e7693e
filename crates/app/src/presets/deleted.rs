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

/// Moves a preset's file to the subfolder of deleted presets.
pub(super) fn delete(presets: &Path, path: &Path) -> Result<(), Problem> {
    let deleted = presets.join(FOLDER);
    let move_file = || -> io::Result<()> {
        permissions::create_private_folder(&deleted)?;
        // The modification time records the time of the deletion.
        File::options()
            .write(true)
            .open(path)?
            .set_modified(SystemTime::now())?;
        rename(path, &deleted.join(path.file_name().unwrap_or_default()))
    };
    move_file().map_err(|error| unwritable(path, &error))
}

/// Moves a deleted preset back. Returns its id, a new one if the old one is taken. The name is
/// changed, too, if it is taken.
pub(super) fn restore(presets: &Path, id: &str) -> Result<String, Problem> {
    let from = folder::path_of(&presets.join(FOLDER), id).ok_or_else(no_preset)?;
    let mut preset = file::read(&from).map_err(|cause| super::unreadable(&from, cause))?;
    let free_name = name::free(&folder::list(presets), &preset.name);
    if free_name != preset.name {
        preset.name = free_name;
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

/// Removes presets that were deleted more than [`RESTORABLE_FOR`] ago.
pub(super) fn purge(presets: &Path) {
    let now = SystemTime::now();
    for (_, path) in folder::files(&presets.join(FOLDER)) {
        let deleted_at = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let age = deleted_at
            .ok()
            .and_then(|deleted_at| now.duration_since(deleted_at).ok());
        if age.is_some_and(|age| age > RESTORABLE_FOR)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "a deleted preset could not be removed");
        }
    }
}

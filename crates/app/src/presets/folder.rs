//! The folder of presets. The user may put files into it.

use super::{MAX_PRESETS, file, name};
use crate::wire::{BrokenPreset, Preset, Presets};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Most bytes that are read of all files.
const MAX_TOTAL_BYTES: u64 = 32 << 20;

/// The presets in a folder, by name, and the files that are none.
pub(super) fn list(folder: &Path) -> Presets {
    let mut found = Presets::default();
    let mut left = MAX_TOTAL_BYTES;
    let mut files = files(folder);
    let more = files.len().saturating_sub(MAX_PRESETS);
    files.truncate(MAX_PRESETS);
    for (stem, path) in files {
        let bytes = fs::metadata(&path).map_or(0, |about| about.len().min(file::MAX_BYTES));
        let read = match left.checked_sub(bytes) {
            None => Err(format!("The presets before it have {MAX_TOTAL_BYTES} bytes.")),
            Some(rest) => {
                left = rest;
                file::read(&path)
            }
        };
        match read {
            Ok(preset) => found.presets.push(Preset {
                id: stem,
                name: preset.name,
                is_built_in: false,
                values: preset.values,
            }),
            Err(problem) => found.broken.push(BrokenPreset {
                file: format!("{stem}.json"),
                problem,
            }),
        }
    }
    if more > 0 {
        found.broken.push(BrokenPreset {
            file: super::FOLDER.to_owned(),
            problem: format!("{more} more files are left out: there can be {MAX_PRESETS} presets."),
        });
    }
    found
        .presets
        .sort_by_cached_key(|preset| (preset.name.to_lowercase(), preset.id.clone()));
    found
}

/// The files of presets, by the names that are their ids. Links are not followed.
pub(super) fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<(String, PathBuf)> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| Some((entry.file_name().to_str().and_then(stem_of)?, entry.path())))
        .collect();
    files.sort();
    files
}

/// The id of a file with this name. `None` means that it is no preset's.
pub(crate) fn stem_of(file: &str) -> Option<String> {
    let stem = file.strip_suffix(".json")?;
    let is_plain = !stem.is_empty() && !stem.starts_with('.') && !stem.contains(['/', '\\', ':']);
    is_plain.then(|| stem.to_owned())
}

/// The file of an id.
pub(super) fn path_of(folder: &Path, id: &str) -> Option<PathBuf> {
    files(folder)
        .into_iter()
        .find(|(stem, _)| stem == id)
        .map(|(_, path)| path)
}

/// A name for a new file that no other has, not even in another case.
pub(super) fn free_stem(folder: &Path, name: &str) -> String {
    let stem = name::file_stem(name);
    let taken: Vec<String> = files(folder).into_iter().map(|(stem, _)| stem.to_lowercase()).collect();
    let is_free = |stem: &String| !taken.contains(stem) && !folder.join(format!("{stem}.json")).exists();
    if is_free(&stem) {
        return stem;
    }
    let numbered = (2..=u32::MAX).map(|number| format!("{stem}-{number}"));
    numbered.into_iter().find(is_free).unwrap_or(stem)
}

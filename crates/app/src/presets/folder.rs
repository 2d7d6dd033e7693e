//! The folder of presets. The user may put files into it.

use super::{MAX_PRESETS, file, name};
use crate::wire::{BrokenPreset, ChatReason, Preset, Presets};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Most bytes of all files together.
const MAX_TOTAL_BYTES: u64 = 32 << 20;

/// The presets in a folder, sorted by name, and the files that are not valid presets.
pub(super) fn list(folder: &Path) -> Presets {
    let mut list = Presets::default();
    let mut remaining_bytes = MAX_TOTAL_BYTES;
    let mut files = files(folder);
    let excess = files.len().saturating_sub(MAX_PRESETS);
    files.truncate(MAX_PRESETS);
    for (stem, path) in files {
        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len().min(file::MAX_BYTES));
        let preset = match remaining_bytes.checked_sub(bytes) {
            None => Err(file::invalid(ChatReason::PresetsTooLarge { limit: MAX_TOTAL_BYTES })),
            Some(rest) => {
                remaining_bytes = rest;
                file::read(&path)
            }
        };
        match preset {
            Ok(preset) => list.presets.push(Preset {
                id: stem,
                name: preset.name,
                is_built_in: false,
                values: preset.values,
            }),
            Err(problem) => list.broken.push(BrokenPreset {
                file: format!("{stem}.json"),
                problem,
            }),
        }
    }
    if excess > 0 {
        list.broken.push(BrokenPreset {
            file: super::FOLDER.to_owned(),
            problem: file::invalid(ChatReason::MorePresets {
                count: excess,
                limit: MAX_PRESETS,
            }),
        });
    }
    list.presets
        .sort_by_cached_key(|preset| (preset.name.to_lowercase(), preset.id.clone()));
    list
}

/// The ids and paths of the presets' files, sorted by id. Links are not followed.
pub(super) fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<(String, PathBuf)> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| Some((entry.file_name().to_str().and_then(stem_of)?, entry.path())))
        .collect();
    files.sort();
    files
}

/// The id of a file with this name. `None` means that it is not a preset's file.
pub(crate) fn stem_of(file: &str) -> Option<String> {
    let stem = file.strip_suffix(".json")?;
    let is_plain = !stem.is_empty() && !stem.starts_with('.') && !stem.contains(['/', '\\', ':']);
    is_plain.then(|| stem.to_owned())
}

/// The file of the preset with an id.
pub(super) fn path_of(folder: &Path, id: &str) -> Option<PathBuf> {
    files(folder)
        .into_iter()
        .find(|(stem, _)| stem == id)
        .map(|(_, path)| path)
}

/// An unused name for a new file, without its extension. Names that differ only in case count as
/// equal.
pub(super) fn free_stem(folder: &Path, name: &str) -> String {
    let stem = name::file_stem(name);
    let existing: Vec<String> = files(folder).into_iter().map(|(stem, _)| stem.to_lowercase()).collect();
    let is_free = |stem: &String| !existing.contains(stem) && !folder.join(format!("{stem}.json")).exists();
    if is_free(&stem) {
        return stem;
    }
    let numbered = (2..=u32::MAX).map(|number| format!("{stem}-{number}"));
    numbered.into_iter().find(is_free).unwrap_or(stem)
}

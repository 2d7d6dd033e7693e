//! Where models and data are.

use super::private;
use directories::ProjectDirs;
use std::{
    env,
    path::{Path, PathBuf},
};

/// The folder of packed weights, in that of caches.
const PACKED: &str = "packed";

/// The folder that holds the conversations and the downloaded models: `HEARTH_DATA`, or where the system keeps the data
/// of apps. None where a system has no such place.
pub fn data_folder() -> Option<PathBuf> {
    match env::var_os("HEARTH_DATA") {
        Some(folder) if !folder.is_empty() => Some(folder.into()),
        _ => ProjectDirs::from("", "", "Hearth").map(|dirs| dirs.data_dir().to_owned()),
    }
}

/// The folder for what can be made again, which may be emptied at any time: `HEARTH_CACHE`, or `cache` in `HEARTH_DATA`, or where the system
/// keeps such things of apps. None where a system has no such place, where `HEARTH_CACHE` is `off`, and where others can write to the folder: they
/// could exchange the weights of a model.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = wanted_cache_folder()?;
    if ![folder.clone(), folder.join(PACKED)]
        .iter()
        .all(|folder| private::is_closed_to_others(folder))
    {
        tracing::warn!(
            "The cache folder {} is not used, because others on this machine can write to it. Take that right from them, or set \
             HEARTH_CACHE to another folder.",
            folder.display()
        );
        return None;
    }
    Some(folder)
}

fn wanted_cache_folder() -> Option<PathBuf> {
    let named = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    match (named("HEARTH_CACHE"), named("HEARTH_DATA")) {
        (Some(off), _) if off == "off" => None,
        (Some(folder), _) => Some(folder.into()),
        (None, Some(data)) => Some(Path::new(&data).join("cache")),
        (None, None) => ProjectDirs::from("", "", "Hearth").map(|dirs| dirs.cache_dir().to_owned()),
    }
}

/// The folder for weights that were packed for this machine, in [`cache_folder`].
pub fn packed_folder() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join(PACKED))
}

/// The file in which the facts of models are kept from start to start, in [`cache_folder`].
pub fn facts_file() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("models.json"))
}

/// Folders that may hold models which came with the app, the first one first: `HEARTH_MODELS`, the app's resources, and
/// the places where packages and builds put them beside the executable. Some may not be there.
pub fn bundled_folders(resources: Option<&Path>) -> Vec<PathBuf> {
    came_with_the_app("HEARTH_MODELS", "models", "models", resources)
}

/// The same for datasets; `HEARTH_DATASETS` comes first.
pub fn sample_folders(resources: Option<&Path>) -> Vec<PathBuf> {
    came_with_the_app("HEARTH_DATASETS", "datasets", "assets/datasets", resources)
}

/// Where a folder of this name may be; `source` is its name in the source tree.
fn came_with_the_app(variable: &str, name: &str, source: &str, resources: Option<&Path>) -> Vec<PathBuf> {
    let named = env::var_os(variable).filter(|folder| !folder.is_empty());
    let mut folders: Vec<PathBuf> = named.map(PathBuf::from).into_iter().collect();
    folders.extend(resources.map(|folder| folder.join(name)));
    if let Some(beside) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.push(beside.join(name));
        folders.extend(elsewhere(beside, name, source));
    }
    folders
}

/// Where it is when it is not right beside the executable.
fn elsewhere(beside: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let parent = beside.parent()?;
    if cfg!(target_os = "macos") && beside.ends_with("Contents/MacOS") {
        return Some(parent.join("Resources").join(name));
    }
    if cfg!(target_os = "linux") && beside.ends_with("bin") {
        return Some(parent.join("lib/Hearth").join(name));
    }
    // A build in the source tree: target/release/hearth beside the sources.
    let built = parent.file_name().is_some_and(|name| name == "target");
    built.then(|| parent.parent().map(|root| root.join(source))).flatten()
}

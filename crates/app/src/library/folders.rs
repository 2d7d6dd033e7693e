//! Folders of models, data and caches.

use crate::{permissions, relocation::location};
use directories::{ProjectDirs, UserDirs};
use std::{
    env,
    path::{Path, PathBuf},
};

/// Subfolder of the cache folder for packed weights.
const PACKED: &str = "packed";

/// The data folder: the base folder, or the one to which its data was moved. `None` means that the
/// system has none.
pub fn data_folder() -> Option<PathBuf> {
    base_folder().map(location::data_of)
}

/// The folder that has the data or names its location: `HEARTH_DATA`, or the system's folder for
/// app data.
/// `None` means that the system has none.
pub(crate) fn base_folder() -> Option<PathBuf> {
    match env::var_os("HEARTH_DATA") {
        Some(folder) if !folder.is_empty() => Some(folder.into()),
        _ => ProjectDirs::from("", "", "Hearth").map(|dirs| dirs.data_dir().to_owned()),
    }
}

/// The cache folder, which can be emptied at any time: `HEARTH_CACHE`, or `cache` in `HEARTH_DATA`,
/// or the system's folder for caches. `None` if the system has none, `HEARTH_CACHE` is `off`, or
/// other users can write to the folder: they could replace a model's weights.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = configured_cache_folder()?;
    if ![folder.clone(), folder.join(PACKED)]
        .iter()
        .all(|folder| permissions::is_closed_to_others(folder))
    {
        tracing::warn!(
            "The cache folder {} is not used because other users can write to it. Change its permissions, or set \
             HEARTH_CACHE to another folder.",
            folder.display()
        );
        return None;
    }
    Some(folder)
}

fn configured_cache_folder() -> Option<PathBuf> {
    let set = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    match (set("HEARTH_CACHE"), set("HEARTH_DATA")) {
        (Some(off), _) if off == "off" => None,
        (Some(folder), _) => Some(folder.into()),
        (None, Some(data)) => Some(Path::new(&data).join("cache")),
        (None, None) => ProjectDirs::from("", "", "Hearth").map(|dirs| dirs.cache_dir().to_owned()),
    }
}

/// The folder of packed weights, in [`cache_folder`].
pub fn packed_folder() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join(PACKED))
}

/// The file of the metadata cache, in [`cache_folder`].
pub fn metadata_file() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("models.json"))
}

/// Folders of bundled models, by precedence: `HEARTH_MODELS`, the app's resources, and the folders
/// of packages and builds near the executable. Some may not exist.
pub fn bundled_folders(resources: Option<&Path>) -> Vec<PathBuf> {
    shipped_folders("HEARTH_MODELS", "models", "models", resources)
}

/// Folders of sample datasets, as [`bundled_folders`] with `HEARTH_DATASETS`.
pub fn sample_folders(resources: Option<&Path>) -> Vec<PathBuf> {
    shipped_folders("HEARTH_DATASETS", "datasets", "assets/datasets", resources)
}

/// The folder of the Hugging Face hub's tools: `HF_HOME`, or `huggingface` in the user's cache
/// folder.
pub(super) fn hugging_face_home() -> Option<PathBuf> {
    let set = |variable| {
        env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("HF_HOME").or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")));
        cache.map(|cache| cache.join("huggingface"))
    })
}

/// The user's home folder.
pub(super) fn home() -> Option<PathBuf> {
    UserDirs::new().map(|dirs| dirs.home_dir().to_owned())
}

/// Candidates for a shipped folder of this name; `source` is its name in the source tree.
fn shipped_folders(variable: &str, name: &str, source: &str, resources: Option<&Path>) -> Vec<PathBuf> {
    let from_variable = env::var_os(variable).filter(|folder| !folder.is_empty());
    let mut folders: Vec<PathBuf> = from_variable.map(PathBuf::from).into_iter().collect();
    folders.extend(resources.map(|folder| folder.join(name)));
    if let Some(executable_folder) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.push(executable_folder.join(name));
        folders.extend(packaged_folder(executable_folder, name, source));
    }
    folders
}

/// The folder of a package or a build in the source tree.
fn packaged_folder(executable_folder: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let parent = executable_folder.parent()?;
    if cfg!(target_os = "macos") && executable_folder.ends_with("Contents/MacOS") {
        return Some(parent.join("Resources").join(name));
    }
    if cfg!(target_os = "linux") && executable_folder.ends_with("bin") {
        return Some(parent.join("lib/Hearth").join(name));
    }
    // A build in the source tree: target/release/hearth.
    let is_build = parent.file_name().is_some_and(|name| name == "target");
    is_build
        .then(|| parent.parent().map(|root| root.join(source)))
        .flatten()
}

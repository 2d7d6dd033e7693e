//! Where models and data are.

use directories::ProjectDirs;
use std::{
    env,
    path::{Path, PathBuf},
};

/// The folder that holds the conversations and the downloaded models: `HEARTH_DATA`, or where the system keeps the data
/// of apps. None where a system has no such place.
pub fn data_folder() -> Option<PathBuf> {
    match env::var_os("HEARTH_DATA") {
        Some(folder) if !folder.is_empty() => Some(folder.into()),
        _ => ProjectDirs::from("", "", "Hearth").map(|dirs| dirs.data_dir().to_owned()),
    }
}

/// Folders that may hold models which came with the app, the first one first: `HEARTH_MODELS`, the app's resources, and
/// the places where packages and builds put them beside the executable. Some may not be there.
pub fn bundled_folders(resources: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(folder) = env::var_os("HEARTH_MODELS").filter(|folder| !folder.is_empty()) {
        folders.push(folder.into());
    }
    folders.extend(resources.map(|folder| folder.join("models")));
    if let Some(beside) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.push(beside.join("models"));
        folders.extend(elsewhere(beside));
    }
    folders
}

/// Where models are when they are not right beside the executable.
fn elsewhere(beside: &Path) -> Option<PathBuf> {
    let parent = beside.parent()?;
    if cfg!(target_os = "macos") && beside.ends_with("Contents/MacOS") {
        return Some(parent.join("Resources/models"));
    }
    if cfg!(target_os = "linux") && beside.ends_with("bin") {
        return Some(parent.join("lib/Hearth/models"));
    }
    // A build in the source tree: target/release/hearth, and models beside target.
    let built = parent.file_name().is_some_and(|name| name == "target");
    built.then(|| parent.parent().map(|root| root.join("models"))).flatten()
}

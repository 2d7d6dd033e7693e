//! The prompt cache: KV cells that workers save on disk, one folder per conversation, deleted with
//! it.

use crate::{
    cache_files,
    data_folder::{OLD_PROMPT_CACHE, PROMPT_CACHE},
    remove_path::remove_path,
    shared::Shared,
    store::conversation,
    wire::Problem,
};
use hearth_protocol::PromptCacheFolder;
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// The prompt cache's folder and limit, for a load request.
pub(crate) fn for_worker(shared: &Shared) -> PromptCacheFolder {
    PromptCacheFolder {
        path: folder(shared),
        max_bytes: shared.settings().prompt_cache_limit,
    }
}

/// The prompt cache's folder.
pub(crate) fn folder(shared: &Shared) -> PathBuf {
    shared.data.join(PROMPT_CACHE)
}

/// Removes a conversation's folder.
pub(crate) fn remove(shared: &Shared, conversation: i64) {
    // A folder that cannot be removed now is removed by `sweep` at the next start.
    remove_conversation(&folder(shared).join(conversation.to_string()));
}

/// Removes the least recently used files until the rest is within the limit of the settings. A
/// worker with a loaded model does so, too.
pub(crate) fn trim(shared: &Shared) {
    let limit = shared.settings().prompt_cache_limit;
    let mut files = cache_files::files(&folder(shared));
    files.sort_by_key(|file| file.used);
    let mut total: u64 = files.iter().map(|file| file.bytes).sum();
    for file in files {
        if total <= limit {
            break;
        }
        if file.remove() {
            total -= file.bytes;
        }
    }
}

/// Removes folders without a conversation: the app may have ended between the two deletions.
pub(crate) fn sweep(shared: &Shared) -> Result<(), Problem> {
    let conversations = shared.store.read(|t| conversation::list(t))?;
    let ids: HashSet<String> = conversations.iter().map(|row| row.id.to_string()).collect();
    for entry in fs::read_dir(folder(shared)).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_none_or(|name| !ids.contains(name)) {
            remove_conversation(&entry.path());
        }
    }
    Ok(())
}

/// Removes the prompt cache of early versions, whose files are no longer read.
pub(crate) fn remove_old_folder(shared: &Shared) {
    let old = shared.data.join(OLD_PROMPT_CACHE);
    if !is_folder(&old) {
        return;
    }
    entries(&old).for_each(|path| remove_conversation(&path));
    let _ = fs::remove_dir(&old);
}

/// Removes the folder of a conversation. A data folder may hold other files: only cache files in a
/// folder whose name is a number are deleted, and the folder once empty.
fn remove_conversation(folder: &Path) {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !is_folder(folder) || name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return;
    }
    let is_cache_file = |file: &PathBuf| file.extension().is_some_and(|end| end == "kv" || end == "part");
    for file in entries(folder).filter(is_cache_file) {
        remove_path(&file);
    }
    // Fails, and is meant to, if another file remains.
    let _ = fs::remove_dir(folder);
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn entries(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

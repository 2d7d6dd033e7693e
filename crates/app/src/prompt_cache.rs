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
    remove_path(&folder(shared).join(conversation.to_string()));
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
            remove_path(&entry.path());
        }
    }
    Ok(())
}

/// Removes the prompt cache of early versions, whose files are no longer read. A data folder may
/// hold other files: only `CONVERSATION/*.kv` and `*.part` are deleted, and folders once empty.
pub(crate) fn remove_old_folder(shared: &Shared) {
    let old = shared.data.join(OLD_PROMPT_CACHE);
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let entries = |path: &Path| {
        fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    if !is_folder(&old) {
        return;
    }
    for conversation in entries(&old).filter(|path| is_folder(path)) {
        let name = conversation
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        for file in entries(&conversation) {
            if file
                .extension()
                .is_some_and(|extension| extension == "kv" || extension == "part")
            {
                remove_path(&file);
            }
        }
        // Fails, and is meant to, if another file remains.
        let _ = fs::remove_dir(&conversation);
    }
    let _ = fs::remove_dir(&old);
}

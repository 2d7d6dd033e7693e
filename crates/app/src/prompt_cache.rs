//! The prompt cache: KV cells that workers save on disk, one folder per conversation, deleted with
//! it.
//!
//! The folder may contain other files. Only regular `*.kv` files that are named by a key, in
//! folders that are named by a number, are counted and deleted. Symbolic links are not followed.

use crate::{
    cache_files::{self, CacheFile},
    data_folder::{OLD_PROMPT_CACHE, PROMPT_CACHE},
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

/// File extension of the cache's files.
const EXTENSION: &str = "kv";

/// Hexadecimal digits of the key that names a file.
const KEY_DIGITS: usize = 32;

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

/// Removes the least recently used files until the rest is within the limit of the settings.
/// Workers with a loaded model do this, too.
pub(crate) fn trim(shared: &Shared) {
    let limit = shared.settings().prompt_cache_limit;
    let mut files = files(&folder(shared));
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

/// Removes folders without a conversation: the app may have ended after it deleted the
/// conversation. Also removes folders of conversations with purged messages: a file may have cells
/// of their tokens. Until then the files stay, because a branch without the messages begins with
/// the same tokens.
pub(crate) fn sweep(shared: &Shared) -> Result<(), Problem> {
    let conversations = shared.store.read(|t| conversation::list(t))?;
    let purged = shared.store.purged();
    let kept = conversations.iter().map(|row| row.id).filter(|id| !purged.contains(id));
    let ids: HashSet<String> = kept.map(|id| id.to_string()).collect();
    for path in conversations_in(&folder(shared)) {
        if path
            .file_name()
            .and_then(|name| name.to_str())
            .is_none_or(|name| !ids.contains(name))
        {
            remove_conversation(&path);
        }
    }
    Ok(())
}

/// Removes all files of the prompt cache in a data folder: a restored store has other conversations
/// of the same ids.
pub(crate) fn clear(data: &Path) {
    for conversation in conversations_in(&data.join(PROMPT_CACHE)) {
        remove_conversation(&conversation);
    }
    // Fails if the folder has other files.
    let _ = fs::remove_dir(data.join(PROMPT_CACHE));
    remove_old_folder(data);
}

/// Removes the prompt cache of early versions, whose files are no longer read.
pub(crate) fn remove_old_folder(data: &Path) {
    let old = data.join(OLD_PROMPT_CACHE);
    if !is_folder(&old) {
        return;
    }
    for conversation in conversations_in(&old) {
        // Early versions did not name the files by a key.
        for file in cache_files::files(&conversation, &[EXTENSION]) {
            file.remove();
        }
    }
    let _ = fs::remove_dir(&old);
}

/// All files of a prompt cache.
pub(crate) fn files(folder: &Path) -> Vec<CacheFile> {
    conversations_in(folder)
        .flat_map(|path| conversation_files(&path))
        .collect()
}

/// Removes the files of a conversation, and its folder once empty.
fn remove_conversation(folder: &Path) {
    if !is_conversation(folder) {
        return;
    }
    for file in conversation_files(folder) {
        file.remove();
    }
    // Fails if the folder has other files.
    let _ = fs::remove_dir(folder);
}

fn conversation_files(folder: &Path) -> Vec<CacheFile> {
    let mut files = cache_files::files(folder, &[EXTENSION]);
    files.retain(|file| is_named_by_key(&file.path));
    files
}

/// Whether a file has the name that a worker gives it.
fn is_named_by_key(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.len() == KEY_DIGITS && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn conversations_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| is_conversation(path))
}

/// Whether a path is a folder that is named by a number, and not a link.
fn is_conversation(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) && is_folder(path)
}

/// Whether a path is a folder, not a link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

//! What workers keep of conversations, so that an old one goes on at once: a folder for each, which does not outlive it.

use crate::{caches, shared::Shared, store::conversation, tune::removed, wire::Problem};
use hearth_protocol::KeptFolder;
use std::{collections::HashSet, fs, path::PathBuf};

/// What workers are told of it.
pub(crate) fn for_worker(shared: &Shared) -> KeptFolder {
    KeptFolder {
        path: folder(shared),
        most_bytes: shared.settings().kept_bytes,
    }
}

/// The folder of those folders.
pub(crate) fn folder(shared: &Shared) -> PathBuf {
    shared.data.join("kept")
}

/// Removes what is kept of a conversation.
pub(crate) fn remove(shared: &Shared, conversation: i64) {
    // What cannot be removed now is at the next start.
    removed(&folder(shared).join(conversation.to_string()));
}

/// Removes what was not used for longest until the rest is as little as the settings say. A worker that has a model does so too.
pub(crate) fn trim(shared: &Shared) {
    let most = shared.settings().kept_bytes;
    let mut files = caches::files(&folder(shared));
    files.sort_by_key(|file| file.used);
    let mut taken: u64 = files.iter().map(|file| file.bytes).sum();
    for file in files {
        if taken <= most {
            break;
        }
        if file.remove() {
            taken -= file.bytes;
        }
    }
}

/// Removes what belongs to no conversation, as when the app ended in between.
pub(crate) fn sweep(shared: &Shared) -> Result<(), Problem> {
    let there = shared.store.read(|t| conversation::list(t))?;
    let there: HashSet<String> = there.iter().map(|row| row.id.to_string()).collect();
    for entry in fs::read_dir(folder(shared)).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_none_or(|name| !there.contains(name)) {
            removed(&entry.path());
        }
    }
    Ok(())
}

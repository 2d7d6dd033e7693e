//! What workers keep of conversations, so that an old one goes on at once: a folder for each, which does not outlive it.

use crate::{shared::Shared, store::conversation, tune::removed, wire::Problem};
use std::{collections::HashSet, fs, path::PathBuf};

/// The folder of those folders, as workers are told it.
pub(crate) fn folder(shared: &Shared) -> PathBuf {
    shared.data.join("kept")
}

/// Removes what is kept of a conversation.
pub(crate) fn remove(shared: &Shared, conversation: i64) {
    // What cannot be removed now is at the next start.
    removed(&folder(shared).join(conversation.to_string()));
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

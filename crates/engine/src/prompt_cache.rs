//! The prompt cache: KV cells of conversations on disk, so that a reopened conversation continues
//! without prefill.
//!
//! There is one folder per conversation, named by its id, with one file per model (and its
//! adapters) that answered in it, in the format of [`Session::save`]. Each answer appends its new
//! cells. There is no fsync: after a power failure, a file is valid up to its first incomplete
//! segment. A lost file costs only time, so errors are logged and the prompt is prefilled instead.
//!
//! Other files in the folder belong to the user. Only regular `*.kv` files that are named by a key,
//! in real folders whose name is a number, are read, counted and deleted. Symbolic links are not
//! followed.

use crate::adapters::{self, ActiveAdapter, ActiveAdapters};
use hearth_formats::gguf::{Gguf, Identity};
use hearth_formats::hex;
use hearth_llm::{Model, SavedCells, Session, SnapshotError, SnapshotKey, common_prefix};
use hearth_protocol::{ConversationId, PromptCacheFolder};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Minimum number of tokens. For fewer tokens, prefill is as fast.
const MIN_TOKENS: usize = 64;
/// Minimum ratio of the time to prefill a token to the time to read its cells from disk.
const MIN_SPEEDUP: usize = 16;
/// Maximum number of sets of adapters whose keys are kept.
const MAX_KEYS: usize = 64;
/// Hexadecimal digits of a key in a file's name.
const KEY_DIGITS: usize = 32;
/// File extension of the cache's files.
const EXTENSION: &str = "kv";
/// Bytes of disk space to leave free.
const RESERVED_DISK: u64 = 1 << 30;

/// The prompt cache of the loaded model.
pub(crate) struct PromptCache {
    folder: PathBuf,
    /// Size limit of all files in bytes.
    max_bytes: u64,
    /// Identity of the model's file. Unlike the fingerprint in adapter manifests, it need not
    /// recognize copies elsewhere, and is faster to compute.
    model: Identity,
    /// Key of each set of adapters so far. A file is named by its key and begins with it.
    keys: Vec<(ActiveAdapters, SnapshotKey)>,
    /// Tokens of the files that were read so far.
    saved: HashMap<PathBuf, SavedCells>,
}

impl PromptCache {
    /// The cache in a folder, which is created on demand. `None` if the model is not from a file.
    pub fn new(folder: &PromptCacheFolder, model: &Gguf) -> Option<Self> {
        Some(Self {
            folder: folder.path.clone(),
            max_bytes: folder.max_bytes,
            model: model.identity()?,
            keys: Vec::new(),
            saved: HashMap::new(),
        })
    }

    /// Restores the file with the longest common prefix with `ids` into the session, if that is
    /// faster than prefill.
    pub fn restore(&mut self, session: &mut Session, active_adapters: &ActiveAdapters, ids: &[u32]) {
        let reusable = session.reusable(ids);
        if ids.len() - reusable < MIN_TOKENS {
            return;
        }
        let Some(key) = self.key(session.model(), active_adapters) else {
            return;
        };
        let name = file_name(&key);
        let (mut best, mut longest) = (None, reusable);
        for (path, _) in files(&self.folder) {
            if path.file_name().is_none_or(|file_name| *file_name != *name) {
                continue;
            }
            let read = || session.saved(&key, &mut File::open(&path)?);
            // A file of another format counts as empty until it is rewritten.
            let saved = self
                .saved
                .entry(path.clone())
                .or_insert_with(|| read().unwrap_or_default());
            let shared = session.restorable(saved, common_prefix(saved.tokens(), ids));
            if shared > longest && (shared - reusable) * MIN_SPEEDUP >= shared {
                (best, longest) = (Some(path), shared);
            }
        }
        let Some(path) = best else { return };
        match restore_from(session, &key, &path, longest) {
            Ok(()) => mark_used(&path),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a prompt cache file is unusable");
                self.saved.remove(&path);
            }
        }
    }

    /// Saves the session's KV cells for a conversation, if there are enough of them. `give_up` is
    /// called between segments and returns `true` to cancel; complete segments remain.
    pub fn save(
        &mut self,
        conversation: ConversationId,
        session: &Session,
        active_adapters: &ActiveAdapters,
        give_up: &dyn Fn() -> bool,
    ) {
        if session.savable().len() < MIN_TOKENS || self.max_bytes == 0 {
            return;
        }
        let Some(key) = self.key(session.model(), active_adapters) else {
            return;
        };
        let path = self.conversation_folder(conversation).join(file_name(&key));
        let mut saved = SavedCells::default();
        if let Err(error) = self.write(&path, &key, session, &mut saved, give_up) {
            tracing::warn!(path = %path.display(), %error, "a conversation could not be saved completely");
        }
        self.saved.insert(path, saved);
    }

    /// Sets the size limit in bytes, and evicts files above it.
    pub fn set_limit(&mut self, bytes: u64) {
        self.max_bytes = bytes;
        self.evict(None, 0);
    }

    /// Removes a conversation.
    pub fn remove(&mut self, conversation: ConversationId) {
        let folder = self.conversation_folder(conversation);
        self.saved.retain(|path, _| !path.starts_with(&folder));
        if is_conversation(&folder) {
            cache_files(&folder).for_each(|(path, _)| remove_file(&path));
            // The folder may have had no file of the cache. Fails if the folder has other files.
            let _ = fs::remove_dir(&folder);
        }
    }

    fn conversation_folder(&self, conversation: ConversationId) -> PathBuf {
        self.folder.join(conversation.to_string())
    }

    /// The key of the model with its adapters: a hash of everything that the cells depend on.
    /// `None` if an adapter's files were deleted or replaced after it was loaded.
    fn key(&mut self, model: &Model, active_adapters: &ActiveAdapters) -> Option<SnapshotKey> {
        if let Some(index) = self.keys.iter().position(|(adapters, _)| adapters == active_adapters) {
            // The least recently used key is the first.
            self.keys[index..].rotate_left(1);
            return self.keys.last().map(|(_, key)| *key);
        }
        let mut hash = Sha256::new_with_prefix(self.model.hex());
        hash.update(hearth_kernels::linear::arithmetic_id());
        hash.update(model.rope_identity().name());
        for ActiveAdapter { choice, .. } in active_adapters {
            hash.update(choice.scale.to_ne_bytes());
            for file in adapters::files(&choice.path) {
                let mut file = File::open(file).ok()?;
                hash.update(file.metadata().ok()?.len().to_ne_bytes());
                io::copy(&mut file, &mut hash).ok()?;
            }
        }
        let is_unchanged = |adapter: &ActiveAdapter| adapters::modified(&adapter.choice.path) == adapter.modified;
        if !active_adapters.iter().all(is_unchanged) {
            return None;
        }
        let key = hash.finalize().into();
        if self.keys.len() == MAX_KEYS {
            self.keys.remove(0);
        }
        self.keys.push((active_adapters.clone(), key));
        Some(key)
    }

    /// Appends missing cells to a file, and replaces cells that differ. On return, also after an
    /// error, `saved` describes the file.
    fn write(
        &mut self,
        path: &Path,
        key: &SnapshotKey,
        session: &Session,
        saved: &mut SavedCells,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), SnapshotError> {
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)?;
        if !is_conversation(folder) {
            return Err(io::Error::other("the conversation's folder is a link").into());
        }
        if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("it is a link").into());
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        *saved = session.saved(key, &mut &file).unwrap_or_default();
        let savable = session.savable().len();
        if saved.tokens().starts_with(session.savable()) && session.restorable(saved, savable) == savable {
            mark_used(path);
            return Ok(());
        }
        session.cut(saved);
        let mut save = |saved: &mut SavedCells| {
            // Truncated first, since that may free space.
            file.set_len(saved.bytes())?;
            self.reserve(path, saved.bytes(), session.bytes_to_save(saved))?;
            (&file).seek(SeekFrom::Start(saved.bytes()))?;
            session.save(key, saved, &mut CancellableFile { file: &file, give_up })
        };
        let result = save(saved);
        if result.is_err() {
            truncate(&file, path, saved)?;
        }
        result
    }

    /// Evicts files so that the file at `path`, of `current` bytes, can grow by `more` bytes.
    fn reserve(&mut self, path: &Path, current: u64, more: u64) -> io::Result<()> {
        if current + more > self.max_bytes {
            return Err(io::Error::other("it is larger than the prompt cache's limit"));
        }
        if hearth_formats::free_space(&self.folder).is_some_and(|free| free < more.saturating_add(RESERVED_DISK)) {
            return Err(io::Error::other("the disk is nearly full"));
        }
        self.evict(Some(path), current + more);
        Ok(())
    }

    /// Removes the least recently used files until `bytes` more fit. The file at `path` is not
    /// counted and not removed.
    fn evict(&mut self, path: Option<&Path>, bytes: u64) {
        let others = files(&self.folder).filter(|(other, _)| path.is_none_or(|path| path != other));
        let mut others: Vec<_> = others
            .map(|(path, metadata)| {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                (modified, metadata.len(), path)
            })
            .collect();
        others.sort();
        let mut used: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, freed, path) in others {
            if used + bytes <= self.max_bytes {
                break;
            }
            remove_file(&path);
            self.saved.remove(&path);
            used -= freed;
        }
    }
}

/// A file whose writes fail once `give_up` returns `true`.
struct CancellableFile<'a> {
    file: &'a File,
    give_up: &'a dyn Fn() -> bool,
}

impl Write for CancellableFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.give_up)() {
            return Err(io::Error::other("cancelled by another request"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Restores the first `count` tokens of a file. A file with fewer valid tokens is truncated after
/// them.
fn restore_from(session: &mut Session, key: &SnapshotKey, path: &Path, count: usize) -> Result<(), SnapshotError> {
    let file = File::options().read(true).write(true).open(path)?;
    let saved = session.restore(key, &mut BufReader::new(&file), count)?;
    if saved.tokens().len() < count {
        truncate(&file, path, &saved)?;
        let error = format!("only {} of {count} tokens are valid", saved.tokens().len());
        return Err(io::Error::other(error).into());
    }
    Ok(())
}

/// Truncates a file after its valid part. Removes the file if it has none.
fn truncate(file: &File, path: &Path, saved: &SavedCells) -> io::Result<()> {
    if saved.tokens().is_empty() {
        remove_file(path);
    }
    file.set_len(saved.bytes())
}

/// File name of a model in a conversation's folder.
fn file_name(key: &SnapshotKey) -> String {
    format!("{}.{EXTENSION}", hex(&key[..KEY_DIGITS / 2]))
}

/// All files of all conversations.
fn files(folder: &Path) -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
    entries(folder)
        .map(|entry| entry.path())
        .filter(|path| is_conversation(path))
        .flat_map(|conversation| cache_files(&conversation))
}

/// The files of a conversation.
fn cache_files(conversation: &Path) -> impl Iterator<Item = (PathBuf, fs::Metadata)> + use<> {
    entries(conversation)
        // The metadata of an entry describes the link, not its target.
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .filter(|(path, metadata)| metadata.is_file() && is_named_by_key(path))
}

/// Whether a file has a [`file_name`] of this cache.
fn is_named_by_key(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_key = stem.len() == KEY_DIGITS && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_key && path.extension().is_some_and(|extension| extension == EXTENSION)
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// Whether a path is a real folder, not a link, whose name is a number.
fn is_conversation(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Sets a file's modification time to now, for LRU eviction.
fn mark_used(path: &Path) {
    let file = File::options().append(true).open(path);
    if let Err(error) = file.and_then(|file| file.set_modified(SystemTime::now())) {
        tracing::debug!(path = %path.display(), %error, "a file's time could not be set");
    }
}

/// Removes a file, and its folder if it is empty.
fn remove_file(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a file could not be removed");
    }
    // Fails if the folder has other files.
    let _ = path.parent().map(fs::remove_dir);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use hearth_protocol::{AdapterChoice, LoadRequest};
    use std::cell::Cell;
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::time::Duration;
    use tempfile::TempDir;

    /// A tiny model with a prompt cache.
    fn load(folder: &TempDir) -> Engine {
        let request = LoadRequest {
            path: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf"),
            context: Some(256),
            device: Some("cpu".to_owned()),
            prompt_cache: Some(PromptCacheFolder {
                path: folder.path().to_owned(),
                max_bytes: 1 << 30,
            }),
            ..LoadRequest::default()
        };
        Engine::load(&request, &mut |_, _| ControlFlow::Continue(())).unwrap()
    }

    /// Tokens of a conversation. No two conversations share a prefix.
    fn ids(conversation: ConversationId) -> Vec<u32> {
        vec![conversation as u32; 100]
    }

    fn prefill(engine: &mut Engine, ids: &[u32]) {
        let progress = &mut |_: usize, _: usize| ControlFlow::Continue(());
        engine.session.prefill(ids, progress).unwrap();
    }

    fn prefill_and_save(engine: &mut Engine, conversation: ConversationId) {
        prefill(engine, &ids(conversation));
        save(engine, conversation, &|| false);
    }

    fn save(engine: &mut Engine, conversation: ConversationId, give_up: &dyn Fn() -> bool) {
        let cache = engine.prompt_cache.as_mut().unwrap();
        cache.save(conversation, &engine.session, &ActiveAdapters::new(), give_up);
    }

    /// Number of these tokens that are restored from the cache.
    fn restored_tokens(engine: &mut Engine, ids: &[u32]) -> usize {
        let cache = engine.prompt_cache.as_mut().unwrap();
        cache.restore(&mut engine.session, &ActiveAdapters::new(), ids);
        common_prefix(engine.session.tokens(), ids)
    }

    /// Number of tokens of a conversation that are restored from the cache.
    fn restored(engine: &mut Engine, conversation: ConversationId) -> usize {
        restored_tokens(engine, &ids(conversation))
    }

    fn all_files(folder: &TempDir) -> Vec<PathBuf> {
        files(folder.path()).map(|(path, _)| path).collect()
    }

    #[test]
    fn the_least_recently_used_file_is_evicted() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = load(&folder);
        prefill_and_save(&mut engine, 1);
        prefill_and_save(&mut engine, 2);
        for (path, _) in files(folder.path()) {
            let seconds = if path.parent().unwrap().ends_with("1") { 60 } else { 30 };
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
                .unwrap();
        }
        assert_eq!(restored(&mut engine, 1), 96, "whole tiles only");
        let (_, metadata) = files(folder.path()).next().unwrap();
        engine.prompt_cache.as_mut().unwrap().max_bytes = metadata.len() * 5 / 2;
        prefill_and_save(&mut engine, 3);
        assert_eq!(
            [1, 2, 3].map(|conversation| restored(&mut engine, conversation)),
            [96, 0, 96]
        );
        assert_eq!(all_files(&folder).len(), 2);
    }

    #[test]
    fn short_cancelled_or_corrupt_files_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = load(&folder);
        prefill(&mut engine, &[1; 63]);
        save(&mut engine, 1, &|| false);
        prefill(&mut engine, &ids(1));
        save(&mut engine, 1, &|| true);
        assert!(all_files(&folder).is_empty());

        prefill_and_save(&mut engine, 1);
        prefill_and_save(&mut engine, 2);
        let [corrupt, intact] = [1, 2].map(|conversation: u32| folder.path().join(conversation.to_string()));
        let file = all_files(&folder)
            .into_iter()
            .find(|path| path.starts_with(&corrupt))
            .unwrap();
        let mut bytes = fs::read(&file).unwrap();
        let half = bytes.len() / 2;
        bytes[half] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert_eq!(restored(&mut engine, 1), 0);
        assert!(!corrupt.exists() && intact.exists());

        let mut next = load(&folder);
        assert_eq!(restored(&mut next, 2), 96);
        next.remove_prompt_cache(2);
        assert!(!intact.exists());
        prefill(&mut engine, &[9]);
        assert_eq!(
            restored(&mut engine, 2),
            0,
            "nor in a worker that has its tokens in memory"
        );
    }

    #[test]
    fn an_answer_appends_to_the_valid_part() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = load(&folder);
        prefill_and_save(&mut engine, 1);
        let file = all_files(&folder).remove(0);
        let first = fs::read(&file).unwrap();
        let extended = |token| [&ids(1)[..96], &[token; 64]].concat();

        prefill(&mut engine, &extended(2));
        // Cancelled after the header and some of the new cells.
        let polls = Cell::new(0);
        save(&mut engine, 1, &|| polls.replace(polls.get() + 1) == 3);
        assert!(polls.get() > 3 && fs::read(&file).unwrap() == first);
        save(&mut engine, 1, &|| false);
        let both = fs::read(&file).unwrap();
        assert!(both.starts_with(&first));
        save(&mut engine, 1, &|| panic!("nothing is new"));

        // Another worker writes to the file.
        let mut other = load(&folder);
        assert_eq!(restored_tokens(&mut other, &extended(3)), 96);
        prefill(&mut other, &extended(3));
        save(&mut other, 1, &|| false);
        assert_eq!(fs::metadata(&file).unwrap().len(), both.len() as u64);
        save(&mut engine, 1, &|| false);
        assert!(fs::read(&file).unwrap() == both);

        let mut corrupt = both.clone();
        *corrupt.last_mut().unwrap() ^= 1;
        fs::write(&file, corrupt).unwrap();
        let mut next = load(&folder);
        assert_eq!(restored_tokens(&mut next, &extended(2)), 96);
        assert!(fs::read(&file).unwrap() == first);
        prefill(&mut next, &extended(2));
        save(&mut next, 1, &|| false);
        assert!(fs::read(&file).unwrap() == both);

        // A longer file is not replaced by its prefix.
        prefill(&mut next, &ids(1)[..96]);
        save(&mut next, 1, &|| false);
        assert!(fs::read(&file).unwrap() == both);
    }

    #[test]
    fn a_lower_limit_evicts_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = load(&folder);
        prefill_and_save(&mut engine, 1);
        prefill_and_save(&mut engine, 2);
        let (_, metadata) = files(folder.path()).next().unwrap();
        engine.set_prompt_cache_limit(metadata.len());
        assert_eq!(all_files(&folder).len(), 1);
        engine.set_prompt_cache_limit(0);
        prefill_and_save(&mut engine, 3);
        assert!(all_files(&folder).is_empty());
        engine.set_prompt_cache_limit(metadata.len());
        prefill_and_save(&mut engine, 3);
        assert_eq!(all_files(&folder).len(), 1);
    }

    #[test]
    fn files_of_the_user_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = load(&folder);
        prefill_and_save(&mut engine, 1);
        let mine = [
            "photos/model.kv",
            "1/letter.txt",
            "1/app.kv",
            "1/more.kv/model.kv",
            "1x/model.kv",
            "photo.kv",
        ];
        let mine = mine.map(|name| folder.path().join(name));
        for path in &mine {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "mine").unwrap();
        }
        assert_eq!(all_files(&folder).len(), 1);
        engine.set_prompt_cache_limit(0);
        assert!(all_files(&folder).is_empty());
        engine.remove_prompt_cache(1);
        assert!(mine.iter().all(|path| path.exists()));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut engine = load(&folder);
        let mine = elsewhere.path().join("mine.kv");
        fs::write(&mine, "mine").unwrap();
        symlink(elsewhere.path(), folder.path().join("1")).unwrap();
        fs::create_dir(folder.path().join("2")).unwrap();
        symlink(&mine, folder.path().join("2/mine.kv")).unwrap();
        assert!(all_files(&folder).is_empty());
        prefill_and_save(&mut engine, 1);
        engine.set_prompt_cache_limit(0);
        engine.remove_prompt_cache(1);
        engine.remove_prompt_cache(2);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
        assert!(mine.exists() && folder.path().join("2/mine.kv").is_symlink());
    }

    #[test]
    fn adapters_are_distinguished_by_content() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = load(&folder);
        let model = Arc::clone(engine.session.model());
        let cache = engine.prompt_cache.as_mut().unwrap();
        let mut key = |text: &str, scale: f32| {
            let path = folder.path().join("adapter.gguf");
            fs::write(&path, text).unwrap();
            // Each text has another modification time.
            let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(text.len() as u64);
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(modified).unwrap();
            let adapter = ActiveAdapter {
                choice: AdapterChoice { path, scale },
                modified: Some(modified),
            };
            cache.key(&model, &vec![adapter]).unwrap()
        };
        let first = key("one", 1.0);
        assert_eq!(key("one", 1.0), first);
        let keys = [first, key("one", 0.5), key("three", 1.0)];
        assert!(keys[1] != keys[0] && keys[2] != keys[0]);
        assert!(!keys.contains(&cache.key(&model, &ActiveAdapters::new()).unwrap()));
        // The file of the loaded adapter was replaced, so the cells do not belong to the new file.
        let path = folder.path().join("adapter.gguf");
        let adapter = ActiveAdapter {
            choice: AdapterChoice { path, scale: 1.0 },
            modified: Some(SystemTime::UNIX_EPOCH),
        };
        assert_eq!(cache.key(&model, &vec![adapter]), None);
    }
}

//! The prompt cache: KV cells of conversations on disk, so that a reopened conversation continues
//! without prefill.
//!
//! One folder per conversation, named by its id, with one file per model (and its adapters) that
//! answered in it, in the format of [`Session::save`]; each answer appends its new cells. There is
//! no fsync: after a power cut, a file is valid up to its first incomplete segment. A lost file
//! only costs time, so errors are logged and the prompt is prefilled instead.
//!
//! Anything else in the folder is the user's: only regular `*.kv` files that are named by a key, in
//! real folders whose name is a number, are read, counted and deleted; symbolic links are not
//! followed.

use crate::adapters::{self, ActiveAdapters};
use hearth_formats::gguf::{Gguf, Identity};
use hearth_formats::hex;
use hearth_llm::{SavedCells, Session, SnapshotError, SnapshotKey, common_prefix};
use hearth_protocol::{AdapterChoice, ConversationId, PromptCacheFolder};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Minimum number of tokens; for fewer, prefill is as fast.
const MIN_TOKENS: usize = 64;
/// Minimum ratio of the time to prefill a token to the time to read its cells from disk.
const MIN_SPEEDUP: usize = 16;
/// Sets of adapters whose keys are kept.
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
    /// Key of each set of adapters so far; files are named by it and begin with it.
    keys: Vec<(ActiveAdapters, SnapshotKey)>,
    /// Contents of the files read so far.
    saved: HashMap<PathBuf, SavedCells>,
}

impl PromptCache {
    /// The cache in a folder that is created on demand. `None` if the model is not from files.
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
        let there = session.reusable(ids);
        if ids.len() - there < MIN_TOKENS {
            return;
        }
        let Some(key) = self.key(active_adapters) else { return };
        let name = name(&key);
        let (mut best, mut longest) = (None, there);
        for (path, _) in files(&self.folder) {
            if path.file_name().is_none_or(|it| *it != *name) {
                continue;
            }
            let look = || session.saved(&key, &mut File::open(&path)?);
            // A file of another format counts as empty until it is rewritten.
            let saved = self
                .saved
                .entry(path.clone())
                .or_insert_with(|| look().unwrap_or_default());
            let shared = session.restorable(saved, common_prefix(saved.tokens(), ids));
            if shared > longest && (shared - there) * MIN_SPEEDUP >= shared {
                (best, longest) = (Some(path), shared);
            }
        }
        let Some(path) = best else { return };
        match restore_from(session, &key, &path, longest) {
            Ok(()) => used(&path),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a prompt cache file is unusable");
                self.saved.remove(&path);
            }
        }
    }

    /// Saves the session's KV cells for a conversation, unless they are few. `give_up` is polled
    /// between segments and returns `true` to cancel; complete segments remain.
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
        let Some(key) = self.key(active_adapters) else { return };
        let path = self.conversation_folder(conversation).join(name(&key));
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
            // Also if it has no file of the cache; fails if it has others.
            let _ = fs::remove_dir(&folder);
        }
    }

    fn conversation_folder(&self, conversation: ConversationId) -> PathBuf {
        self.folder.join(conversation.to_string())
    }

    /// The key of the model with its adapters: a hash of everything that the cells depend on.
    /// `None` if an adapter's files are gone or were replaced after it was loaded.
    fn key(&mut self, active_adapters: &ActiveAdapters) -> Option<SnapshotKey> {
        if let Some(at) = self.keys.iter().position(|(of, _)| of == active_adapters) {
            // The least recently used one is the first.
            self.keys[at..].rotate_left(1);
            return self.keys.last().map(|(_, key)| *key);
        }
        let mut hash = Sha256::new_with_prefix(self.model.hex());
        hash.update(hearth_kernels::linear::arithmetic_id());
        for (choice, _) in active_adapters {
            hash.update(choice.scale.to_ne_bytes());
            for file in adapters::files(&choice.path) {
                let mut file = File::open(file).ok()?;
                hash.update(file.metadata().ok()?.len().to_ne_bytes());
                io::copy(&mut file, &mut hash).ok()?;
            }
        }
        let is_loaded = |(choice, time): &(AdapterChoice, _)| adapters::written(&choice.path) == *time;
        if !active_adapters.iter().all(is_loaded) {
            return None;
        }
        let key = hash.finalize().into();
        if self.keys.len() == MAX_KEYS {
            self.keys.remove(0);
        }
        self.keys.push((active_adapters.clone(), key));
        Some(key)
    }

    /// Appends missing cells to a file, replacing cells that differ. On return, also after an
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
        if fs::symlink_metadata(path).is_ok_and(|about| !about.is_file()) {
            return Err(io::Error::other("it is a link").into());
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        *saved = session.saved(key, &mut &file).unwrap_or_default();
        let whole = session.savable().len();
        if saved.tokens().starts_with(session.savable()) && session.restorable(saved, whole) == whole {
            used(path);
            return Ok(());
        }
        session.cut(saved);
        let mut save = |saved: &mut SavedCells| {
            // Truncation frees space, too.
            file.set_len(saved.bytes())?;
            self.reserve(path, saved.bytes(), session.bytes_to_save(saved))?;
            (&file).seek(SeekFrom::Start(saved.bytes()))?;
            session.save(key, saved, &mut CancellableFile { file: &file, give_up })
        };
        let saving = save(saved);
        if saving.is_err() {
            truncate(&file, path, saved)?;
        }
        saving
    }

    /// Evicts files so that the file at `path`, of `there` bytes, can grow by `more` bytes.
    fn reserve(&mut self, path: &Path, there: u64, more: u64) -> io::Result<()> {
        if there + more > self.max_bytes {
            return Err(io::Error::other("it is larger than the prompt cache's limit"));
        }
        if hearth_formats::free_space(&self.folder).is_some_and(|free| free < more.saturating_add(RESERVED_DISK)) {
            return Err(io::Error::other("the disk is nearly full"));
        }
        self.evict(Some(path), there + more);
        Ok(())
    }

    /// Removes the least recently used files until `bytes` more fit, not counting the file at
    /// `path`.
    fn evict(&mut self, path: Option<&Path>, bytes: u64) {
        let others = files(&self.folder).filter(|(other, _)| path.is_none_or(|path| path != other));
        let mut others: Vec<_> = others
            .map(|(path, about)| (about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), path))
            .collect();
        others.sort();
        let mut taken: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, freed, path) in others {
            if taken + bytes <= self.max_bytes {
                break;
            }
            remove_file(&path);
            self.saved.remove(&path);
            taken -= freed;
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
        let good = format!("only {} of {count} tokens are valid", saved.tokens().len());
        return Err(io::Error::other(good).into());
    }
    Ok(())
}

/// Truncates a file after its valid part; removes it if there is none.
fn truncate(file: &File, path: &Path, saved: &SavedCells) -> io::Result<()> {
    if saved.tokens().is_empty() {
        remove_file(path);
    }
    file.set_len(saved.bytes())
}

/// File name of a model in a conversation's folder.
fn name(key: &SnapshotKey) -> String {
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
        .filter(|(path, about)| about.is_file() && is_named_by_key(path))
}

/// Whether a file has a [`name`] of this cache.
fn is_named_by_key(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_key = stem.len() == KEY_DIGITS && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_key && path.extension().is_some_and(|end| end == EXTENSION)
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// Whether a path is a real folder, not a link, whose name is a number.
fn is_conversation(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number && fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

/// Sets a file's modification time to now, for LRU eviction.
fn used(path: &Path) {
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
    // The folder may hold other files.
    let _ = path.parent().map(fs::remove_dir);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use hearth_protocol::LoadRequest;
    use std::cell::Cell;
    use std::ops::ControlFlow;
    use std::time::Duration;
    use tempfile::TempDir;

    /// A tiny model with a prompt cache.
    fn loaded(folder: &TempDir) -> Engine {
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

    /// Tokens of a conversation; no two share a prefix.
    fn ids(conversation: ConversationId) -> Vec<u32> {
        vec![conversation as u32; 100]
    }

    fn read(engine: &mut Engine, ids: &[u32]) {
        let go = &mut |_: usize, _: usize| ControlFlow::Continue(());
        engine.session.prefill(ids, go).unwrap();
    }

    fn prefill_and_save(engine: &mut Engine, conversation: ConversationId) {
        read(engine, &ids(conversation));
        save(engine, conversation, &|| false);
    }

    fn save(engine: &mut Engine, conversation: ConversationId, give_up: &dyn Fn() -> bool) {
        let cache = engine.prompt_cache.as_mut().unwrap();
        cache.save(conversation, &engine.session, &ActiveAdapters::new(), give_up);
    }

    /// Number of these tokens in the cache.
    fn known(engine: &mut Engine, ids: &[u32]) -> usize {
        let cache = engine.prompt_cache.as_mut().unwrap();
        cache.restore(&mut engine.session, &ActiveAdapters::new(), ids);
        common_prefix(engine.session.tokens(), ids)
    }

    /// Number of tokens of a conversation in the cache.
    fn recalled(engine: &mut Engine, conversation: ConversationId) -> usize {
        known(engine, &ids(conversation))
    }

    fn all(folder: &TempDir) -> Vec<PathBuf> {
        files(folder.path()).map(|(path, _)| path).collect()
    }

    #[test]
    fn the_least_recently_used_file_is_evicted() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        prefill_and_save(&mut engine, 1);
        prefill_and_save(&mut engine, 2);
        for (path, _) in files(folder.path()) {
            let seconds = if path.parent().unwrap().ends_with("1") { 60 } else { 30 };
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
                .unwrap();
        }
        assert_eq!(recalled(&mut engine, 1), 96, "whole tiles only");
        let (_, about) = files(folder.path()).next().unwrap();
        engine.prompt_cache.as_mut().unwrap().max_bytes = about.len() * 5 / 2;
        prefill_and_save(&mut engine, 3);
        assert_eq!(
            [1, 2, 3].map(|conversation| recalled(&mut engine, conversation)),
            [96, 0, 96]
        );
        assert_eq!(all(&folder).len(), 2);
    }

    #[test]
    fn short_cancelled_or_corrupt_files_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        read(&mut engine, &[1; 63]);
        save(&mut engine, 1, &|| false);
        read(&mut engine, &ids(1));
        save(&mut engine, 1, &|| true);
        assert!(all(&folder).is_empty());

        prefill_and_save(&mut engine, 1);
        prefill_and_save(&mut engine, 2);
        let [corrupt, intact] = [1, 2].map(|conversation: u32| folder.path().join(conversation.to_string()));
        let file = all(&folder)
            .into_iter()
            .find(|path| path.starts_with(&corrupt))
            .unwrap();
        let mut bytes = fs::read(&file).unwrap();
        let half = bytes.len() / 2;
        bytes[half] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert_eq!(recalled(&mut engine, 1), 0);
        assert!(!corrupt.exists() && intact.exists());

        let mut next = loaded(&folder);
        assert_eq!(recalled(&mut next, 2), 96);
        next.remove_prompt_cache(2);
        assert!(!intact.exists());
        read(&mut engine, &[9]);
        assert_eq!(
            recalled(&mut engine, 2),
            0,
            "nor in a worker that has its tokens in memory"
        );
    }

    #[test]
    fn an_answer_appends_to_the_valid_part() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        prefill_and_save(&mut engine, 1);
        let file = all(&folder).remove(0);
        let first = fs::read(&file).unwrap();
        let more = |kind| [&ids(1)[..96], &[kind; 64]].concat();

        read(&mut engine, &more(2));
        // The header and some of the new cells.
        let polls = Cell::new(0);
        save(&mut engine, 1, &|| polls.replace(polls.get() + 1) == 3);
        assert!(polls.get() > 3 && fs::read(&file).unwrap() == first);
        save(&mut engine, 1, &|| false);
        let both = fs::read(&file).unwrap();
        assert!(both.starts_with(&first));
        save(&mut engine, 1, &|| panic!("nothing is new"));

        // Another worker writes.
        let mut other = loaded(&folder);
        assert_eq!(known(&mut other, &more(3)), 96);
        read(&mut other, &more(3));
        save(&mut other, 1, &|| false);
        assert_eq!(fs::metadata(&file).unwrap().len(), both.len() as u64);
        save(&mut engine, 1, &|| false);
        assert!(fs::read(&file).unwrap() == both);

        let mut corrupt = both.clone();
        *corrupt.last_mut().unwrap() ^= 1;
        fs::write(&file, corrupt).unwrap();
        let mut next = loaded(&folder);
        assert_eq!(known(&mut next, &more(2)), 96);
        assert!(fs::read(&file).unwrap() == first);
        read(&mut next, &more(2));
        save(&mut next, 1, &|| false);
        assert!(fs::read(&file).unwrap() == both);

        // A longer file is not replaced by its prefix.
        read(&mut next, &ids(1)[..96]);
        save(&mut next, 1, &|| false);
        assert!(fs::read(&file).unwrap() == both);
    }

    #[test]
    fn a_lower_limit_evicts_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        prefill_and_save(&mut engine, 1);
        prefill_and_save(&mut engine, 2);
        let (_, about) = files(folder.path()).next().unwrap();
        engine.set_prompt_cache_limit(about.len());
        assert_eq!(all(&folder).len(), 1);
        engine.set_prompt_cache_limit(0);
        prefill_and_save(&mut engine, 3);
        assert!(all(&folder).is_empty());
        engine.set_prompt_cache_limit(about.len());
        prefill_and_save(&mut engine, 3);
        assert_eq!(all(&folder).len(), 1);
    }

    #[test]
    fn files_of_the_user_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
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
        assert_eq!(all(&folder).len(), 1);
        engine.set_prompt_cache_limit(0);
        assert!(all(&folder).is_empty());
        engine.remove_prompt_cache(1);
        assert!(mine.iter().all(|path| path.exists()));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut engine = loaded(&folder);
        let mine = elsewhere.path().join("mine.kv");
        fs::write(&mine, "mine").unwrap();
        symlink(elsewhere.path(), folder.path().join("1")).unwrap();
        fs::create_dir(folder.path().join("2")).unwrap();
        symlink(&mine, folder.path().join("2/mine.kv")).unwrap();
        assert!(all(&folder).is_empty());
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
        let mut engine = loaded(&folder);
        let cache = engine.prompt_cache.as_mut().unwrap();
        let mut key = |text: &str, scale: f32| {
            let path = folder.path().join("adapter.gguf");
            fs::write(&path, text).unwrap();
            // A different modification time for each.
            let written = SystemTime::UNIX_EPOCH + Duration::from_secs(text.len() as u64);
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(written).unwrap();
            cache
                .key(&vec![(AdapterChoice { path, scale }, Some(written))])
                .unwrap()
        };
        let first = key("one", 1.0);
        assert_eq!(key("one", 1.0), first);
        let keys = [first, key("one", 0.5), key("three", 1.0)];
        assert!(keys[1] != keys[0] && keys[2] != keys[0]);
        assert!(!keys.contains(&cache.key(&ActiveAdapters::new()).unwrap()));
        // The file of the loaded adapter was replaced, so the cells do not belong to the new file.
        let path = folder.path().join("adapter.gguf");
        let loaded = SystemTime::UNIX_EPOCH;
        let choice = AdapterChoice { path, scale: 1.0 };
        assert_eq!(cache.key(&vec![(choice, Some(loaded))]), None);
    }
}

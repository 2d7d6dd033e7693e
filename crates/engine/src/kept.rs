//! What was read of conversations, kept on the disk, so that one that is opened again goes on at once.
//!
//! A folder for each conversation, named by its id; in it a file for each model (with its adapters) that answered there, of the bytes of
//! [`Session::save`]. Losing one costs time alone, so whatever fails is logged, and the text is read again.

use crate::adapters::{self, Worn};
use hearth_formats::adapter::Fingerprint;
use hearth_formats::gguf::Gguf;
use hearth_llm::{SavedError, SavedKey, Session};
use hearth_protocol::ConversationId;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Fewer tokens are read again as quickly.
const SHORTEST: usize = 64;
/// A token takes a model longer than its cells take the disk, so many times at least.
const FASTER: usize = 16;
/// Bytes that all files may take.
const MOST: u64 = 2 << 30;
/// Bytes of the disk that are left alone.
const SPARED: u64 = 1 << 30;

/// The folder, as the loaded model sees it.
pub(crate) struct Kept {
    folder: PathBuf,
    most: u64,
    /// The fingerprint of the model's file.
    model: String,
    /// What files are named by and begin with, for each set of adapters so far.
    keys: Vec<(Worn, SavedKey)>,
    /// The tokens in the files that were looked into.
    tokens: HashMap<PathBuf, Vec<u32>>,
}

impl Kept {
    /// In a folder that is made when it is needed; what another worker left half written there is removed.
    pub fn new(folder: PathBuf, model: &Gguf) -> Self {
        for (path, _) in files(&folder) {
            if path.extension().is_some_and(|ending| ending == "new") {
                remove(&path);
            }
        }
        Self {
            folder,
            most: MOST,
            model: Fingerprint::of(model).file,
            keys: Vec::new(),
            tokens: HashMap::new(),
        }
    }

    /// Makes the session begin with as much of `ids` as it or any file does, where that saves time.
    pub fn recall(&mut self, session: &mut Session, worn: &Worn, ids: &[u32]) {
        let there = common_prefix(session.tokens(), ids);
        if ids.len() - there < SHORTEST {
            return;
        }
        let Some(key) = self.key(worn) else { return };
        let name = name(&key);
        let (mut best, mut most) = (None, there);
        for (path, _) in files(&self.folder) {
            if path.file_name().is_none_or(|it| *it != *name) {
                continue;
            }
            let look = || session.saved_tokens(&key, &mut File::open(&path)?);
            // One of another form is as good as empty, until it is written anew.
            let tokens = self
                .tokens
                .entry(path.clone())
                .or_insert_with(|| look().unwrap_or_default());
            let shared = common_prefix(tokens, ids);
            if shared > most && (shared - there) * FASTER >= tokens.len() {
                (best, most) = (Some(path), shared);
            }
        }
        let Some(path) = best else { return };
        let restore = |session: &mut Session| session.restore(&key, &mut File::open(&path)?);
        match restore(session) {
            Ok(()) => used(&path),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "what was kept of a conversation cannot be used");
                remove(&path);
                self.tokens.remove(&path);
            }
        }
    }

    /// Keeps the session's state for a conversation, unless that is short or `give_up` says so, which is asked between pieces.
    pub fn keep(&mut self, conversation: ConversationId, session: &Session, worn: &Worn, give_up: &dyn Fn() -> bool) {
        let tokens = session.savable();
        if tokens.len() < SHORTEST {
            return;
        }
        let Some(key) = self.key(worn) else { return };
        let path = self.of(conversation).join(name(&key));
        if self.tokens.get(&path).is_some_and(|known| known == tokens) && path.exists() {
            return used(&path);
        }
        match self.write(&path, &key, session, give_up) {
            Ok(()) => drop(self.tokens.insert(path, tokens.to_vec())),
            Err(error) => tracing::warn!(path = %path.display(), %error, "a conversation's state is not kept"),
        }
    }

    /// Removes what is kept of a conversation.
    pub fn forget(&mut self, conversation: ConversationId) {
        let folder = self.of(conversation);
        self.tokens.retain(|path, _| !path.starts_with(&folder));
        if let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(folder = %folder.display(), %error, "what was kept of a conversation could not be removed");
        }
    }

    fn of(&self, conversation: ConversationId) -> PathBuf {
        self.folder.join(conversation.to_string())
    }

    /// Names the model with its adapters, by all that the cells depend on; none where an adapter's files are gone.
    fn key(&mut self, worn: &Worn) -> Option<SavedKey> {
        if let Some((_, key)) = self.keys.iter().find(|(of, _)| of == worn) {
            return Some(*key);
        }
        let mut hash = Sha256::new_with_prefix(&self.model);
        for (choice, _) in worn {
            hash.update(choice.scale.to_ne_bytes());
            for file in adapters::files(&choice.path) {
                let bytes = fs::read(file).ok()?;
                hash.update((bytes.len() as u64).to_ne_bytes());
                hash.update(bytes);
            }
        }
        let key = hash.finalize().into();
        self.keys.push((worn.clone(), key));
        Some(key)
    }

    /// Writes a file beside its place, then puts it there. It is not flushed to the disk: half a file is refused by its checksum.
    fn write(
        &self,
        path: &Path,
        key: &SavedKey,
        session: &Session,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), SavedError> {
        let new = path.with_extension("new");
        let save = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            self.make_room(path, session.savable_bytes())?;
            let file = File::create(&new)?;
            session.save(key, &mut Patient { file, give_up })?;
            Ok(fs::rename(&new, path)?)
        };
        save().inspect_err(|_| remove(&new))
    }

    /// Removes those that were not used for longest, so that so many bytes fit in place of what is at `path`.
    fn make_room(&self, path: &Path, bytes: u64) -> io::Result<()> {
        if bytes > self.most {
            return Err(io::Error::other("it is larger than all that may be kept"));
        }
        if hearth_llm::free_space(&self.folder).is_some_and(|free| free < bytes.saturating_add(SPARED)) {
            return Err(io::Error::other("the disk is nearly full"));
        }
        let others = files(&self.folder).filter(|(other, _)| other != path);
        let mut others: Vec<_> = others
            .map(|(path, about)| (about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), path))
            .collect();
        others.sort();
        let mut taken: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, freed, path) in others {
            if taken + bytes <= self.most {
                break;
            }
            remove(&path);
            taken -= freed;
        }
        Ok(())
    }
}

/// A file that takes no more once nobody has time for it.
struct Patient<'a> {
    file: File,
    give_up: &'a dyn Fn() -> bool,
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.give_up)() {
            return Err(io::Error::other("something else was wanted"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// How many tokens two sequences begin with in common.
pub(crate) fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The name of a model's file in a conversation's folder.
fn name(key: &SavedKey) -> String {
    let digits: String = key[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    digits + ".kv"
}

/// Every file of every conversation.
fn files(folder: &Path) -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
    let list = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    list(folder.to_owned())
        .flat_map(move |conversation| list(conversation.path()))
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .filter(|(_, about)| about.is_file())
}

/// Says that a file was of use just now.
fn used(path: &Path) {
    let file = File::options().append(true).open(path);
    if let Err(error) = file.and_then(|file| file.set_modified(SystemTime::now())) {
        tracing::debug!(path = %path.display(), %error, "a file's time could not be set");
    }
}

/// Removes a file, and its folder if that is empty then.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a file could not be removed");
    }
    // It may hold more.
    let _ = path.parent().map(fs::remove_dir);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use hearth_protocol::{AdapterChoice, LoadRequest};
    use std::ops::ControlFlow;
    use std::time::Duration;
    use tempfile::TempDir;

    /// A tiny model that keeps what it reads in a folder.
    fn loaded(folder: &TempDir) -> Engine {
        let request = LoadRequest {
            path: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf"),
            context: Some(256),
            device: Some("cpu".to_owned()),
            kept: Some(folder.path().to_owned()),
            ..LoadRequest::default()
        };
        Engine::load(&request, &mut |_, _| ControlFlow::Continue(())).unwrap()
    }

    /// What is said in a conversation, of which no two begin alike.
    fn ids(conversation: ConversationId) -> Vec<u32> {
        vec![conversation as u32; 100]
    }

    fn read(engine: &mut Engine, conversation: ConversationId) {
        let go = &mut |_: usize, _: usize| ControlFlow::Continue(());
        engine.session.prefill(&ids(conversation), go).unwrap();
    }

    fn read_and_keep(engine: &mut Engine, conversation: ConversationId) {
        read(engine, conversation);
        engine.keep(conversation, &|| false);
    }

    /// How many tokens of a conversation are known.
    fn recalled(engine: &mut Engine, conversation: ConversationId) -> usize {
        let kept = engine.kept.as_mut().unwrap();
        kept.recall(&mut engine.session, &engine.worn, &ids(conversation));
        common_prefix(engine.session.tokens(), &ids(conversation))
    }

    fn all(folder: &TempDir) -> Vec<PathBuf> {
        files(folder.path()).map(|(path, _)| path).collect()
    }

    #[test]
    fn what_was_not_used_for_longest_gives_way() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        read_and_keep(&mut engine, 1);
        read_and_keep(&mut engine, 2);
        for (path, _) in files(folder.path()) {
            let seconds = if path.parent().unwrap().ends_with("1") { 60 } else { 30 };
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
                .unwrap();
        }
        assert_eq!(recalled(&mut engine, 1), 96, "as many as fill whole tiles");
        let (_, about) = files(folder.path()).next().unwrap();
        engine.kept.as_mut().unwrap().most = about.len() * 5 / 2;
        read_and_keep(&mut engine, 3);
        assert_eq!(
            [1, 2, 3].map(|conversation| recalled(&mut engine, conversation)),
            [96, 0, 96]
        );
        assert_eq!(all(&folder).len(), 2);
    }

    #[test]
    fn what_is_short_unwanted_or_damaged_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        engine
            .session
            .prefill(&[1; 63], &mut |_, _| ControlFlow::Continue(()))
            .unwrap();
        engine.keep(1, &|| false);
        read(&mut engine, 1);
        engine.keep(1, &|| true);
        assert!(all(&folder).is_empty());

        read_and_keep(&mut engine, 1);
        read_and_keep(&mut engine, 2);
        let [damaged, kept] = [1, 2].map(|conversation: u32| folder.path().join(conversation.to_string()));
        let file = all(&folder)
            .into_iter()
            .find(|path| path.starts_with(&damaged))
            .unwrap();
        let mut bytes = fs::read(&file).unwrap();
        let half = bytes.len() / 2;
        bytes[half] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert_eq!(recalled(&mut engine, 1), 0);
        assert!(!damaged.exists() && kept.exists());

        fs::write(kept.join("half.new"), "half").unwrap();
        let mut next = loaded(&folder);
        assert_eq!(all(&folder).len(), 1);
        assert_eq!(recalled(&mut next, 2), 96);
        next.forget_conversation(2);
        assert!(!kept.exists());
        engine
            .session
            .prefill(&[9], &mut |_, _| ControlFlow::Continue(()))
            .unwrap();
        assert_eq!(recalled(&mut engine, 2), 0, "nor by one who remembers it");
    }

    #[test]
    fn adapters_are_told_apart_by_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        let kept = engine.kept.as_mut().unwrap();
        let mut key = |text: &str, scale: f32| {
            let path = folder.path().join("adapter.gguf");
            fs::write(&path, text).unwrap();
            // As if each were written at another time.
            let written = SystemTime::UNIX_EPOCH + Duration::from_secs(text.len() as u64);
            kept.key(&vec![(AdapterChoice { path, scale }, Some(written))]).unwrap()
        };
        let first = key("one", 1.0);
        assert_eq!(key("one", 1.0), first);
        let keys = [first, key("one", 0.5), key("three", 1.0)];
        assert!(keys[1] != keys[0] && keys[2] != keys[0]);
        assert!(!keys.contains(&kept.key(&Worn::new()).unwrap()));
    }
}

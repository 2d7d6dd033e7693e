//! What was read of conversations, kept on the disk, so that one that is opened again goes on at once.
//!
//! A folder for each conversation, named by its id; in it a file for each model (with its adapters) that answered there, of the bytes of
//! [`Session::save`], to which each answer appends what is new. Nothing is flushed to the disk: what a power cut leaves of a file is good
//! up to the first segment that is not whole. Losing one costs time alone, so whatever fails is logged, and the text is read again.

use crate::adapters::{self, Worn};
use hearth_formats::gguf::{Gguf, Identity};
use hearth_llm::{Saved, SavedError, SavedKey, Session};
use hearth_protocol::{ConversationId, KeptFolder};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Fewer tokens are read again as quickly.
const SHORTEST: usize = 64;
/// A token takes a model longer than its cells take the disk, so many times at least.
const FASTER: usize = 16;
/// Bytes of the disk that are left alone.
const SPARED: u64 = 1 << 30;

/// The folder, as the loaded model sees it.
pub(crate) struct Kept {
    folder: PathBuf,
    /// Bytes that all files may take.
    most: u64,
    /// The model's file. Not the fingerprint that adapters know a model by: a copy elsewhere need not be told as the same, and this one
    /// reads less of it.
    model: Identity,
    /// What files are named by and begin with, for each set of adapters so far.
    keys: Vec<(Worn, SavedKey)>,
    /// The tokens in the files that were looked into.
    tokens: HashMap<PathBuf, Vec<u32>>,
}

impl Kept {
    /// In a folder that is made when it is needed; none where the model does not come from files.
    pub fn new(folder: &KeptFolder, model: &Gguf) -> Option<Self> {
        Some(Self {
            folder: folder.path.clone(),
            most: folder.most_bytes,
            model: model.identity()?,
            keys: Vec::new(),
            tokens: HashMap::new(),
        })
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
            let look = || session.saved(&key, &mut File::open(&path)?);
            // One of another form is as good as empty, until it is written anew.
            let tokens = self
                .tokens
                .entry(path.clone())
                .or_insert_with(|| look().unwrap_or_default().tokens().to_vec());
            let shared = common_prefix(tokens, ids);
            if shared > most && (shared - there) * FASTER >= shared {
                (best, most) = (Some(path), shared);
            }
        }
        let Some(path) = best else { return };
        match restore(session, &key, &path, most) {
            Ok(()) => used(&path),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "what was kept of a conversation cannot be used");
                self.tokens.remove(&path);
            }
        }
    }

    /// Keeps the session's state for a conversation, unless that is short. `give_up` is asked between pieces; then what is whole
    /// already stays.
    pub fn keep(&mut self, conversation: ConversationId, session: &Session, worn: &Worn, give_up: &dyn Fn() -> bool) {
        if session.savable().len() < SHORTEST || self.most == 0 {
            return;
        }
        let Some(key) = self.key(worn) else { return };
        let path = self.of(conversation).join(name(&key));
        let mut saved = Saved::default();
        if let Err(error) = self.write(&path, &key, session, &mut saved, give_up) {
            tracing::warn!(path = %path.display(), %error, "a conversation's state is not kept, or not all of it");
        }
        self.tokens.insert(path, saved.tokens().to_vec());
    }

    /// Keeps no more bytes than these from now on; what is too much goes.
    pub fn at_most(&mut self, bytes: u64) {
        self.most = bytes;
        self.evict(None, 0);
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
        let mut hash = Sha256::new_with_prefix(self.model.hex());
        hash.update(hearth_kernels::linear::arithmetic());
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

    /// Appends to a file what it lacks, in place of what differs. `saved` is what it has then, whether that went well or not.
    fn write(
        &self,
        path: &Path,
        key: &SavedKey,
        session: &Session,
        saved: &mut Saved,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), SavedError> {
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        *saved = session.saved(key, &mut &file).unwrap_or_default();
        if saved.tokens().starts_with(session.savable()) {
            used(path);
            return Ok(());
        }
        saved.cut(session.savable());
        let save = |saved: &mut Saved| {
            // What is cut off makes room too.
            file.set_len(saved.bytes())?;
            self.make_room(path, saved.bytes(), session.bytes_to_save(saved))?;
            (&file).seek(SeekFrom::Start(saved.bytes()))?;
            session.save(key, saved, &mut Patient { file: &file, give_up })
        };
        let saving = save(saved);
        if saving.is_err() {
            leave(&file, path, saved)?;
        }
        saving
    }

    /// Makes room for so many bytes more behind those of the file at `path`.
    fn make_room(&self, path: &Path, there: u64, more: u64) -> io::Result<()> {
        if there + more > self.most {
            return Err(io::Error::other("it is larger than all that may be kept"));
        }
        if hearth_llm::free_space(&self.folder).is_some_and(|free| free < more.saturating_add(SPARED)) {
            return Err(io::Error::other("the disk is nearly full"));
        }
        self.evict(Some(path), there + more);
        Ok(())
    }

    /// Removes those that were not used for longest, so that one of so many bytes fits in the place of what is at `path`.
    fn evict(&self, path: Option<&Path>, bytes: u64) {
        let others = files(&self.folder).filter(|(other, _)| path.is_none_or(|path| path != other));
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
    }
}

/// A file that takes no more once nobody has time for it.
struct Patient<'a> {
    file: &'a File,
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

/// Makes the session begin with the first `wanted` tokens of a file. A file of which less can be used is cut there.
fn restore(session: &mut Session, key: &SavedKey, path: &Path, wanted: usize) -> Result<(), SavedError> {
    let file = File::options().read(true).write(true).open(path)?;
    let saved = session.restore(key, &mut BufReader::new(&file), wanted)?;
    if saved.tokens().len() < wanted {
        leave(&file, path, &saved)?;
        let good = format!("of {wanted} tokens only {} are undamaged", saved.tokens().len());
        return Err(io::Error::other(good).into());
    }
    Ok(())
}

/// Leaves of a file what is known to be of use; nothing of one that has none.
fn leave(file: &File, path: &Path, saved: &Saved) -> io::Result<()> {
    if saved.tokens().is_empty() {
        remove(path);
    }
    file.set_len(saved.bytes())
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
    use std::cell::Cell;
    use std::ops::ControlFlow;
    use std::time::Duration;
    use tempfile::TempDir;

    /// A tiny model that keeps what it reads in a folder.
    fn loaded(folder: &TempDir) -> Engine {
        let request = LoadRequest {
            path: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf"),
            context: Some(256),
            device: Some("cpu".to_owned()),
            kept: Some(KeptFolder {
                path: folder.path().to_owned(),
                most_bytes: 1 << 30,
            }),
            ..LoadRequest::default()
        };
        Engine::load(&request, &mut |_, _| ControlFlow::Continue(())).unwrap()
    }

    /// What is said in a conversation, of which no two begin alike.
    fn ids(conversation: ConversationId) -> Vec<u32> {
        vec![conversation as u32; 100]
    }

    fn read(engine: &mut Engine, ids: &[u32]) {
        let go = &mut |_: usize, _: usize| ControlFlow::Continue(());
        engine.session.prefill(ids, go).unwrap();
    }

    fn read_and_keep(engine: &mut Engine, conversation: ConversationId) {
        read(engine, &ids(conversation));
        engine.keep(conversation, &|| false);
    }

    /// How many of these tokens are known.
    fn known(engine: &mut Engine, ids: &[u32]) -> usize {
        let kept = engine.kept.as_mut().unwrap();
        kept.recall(&mut engine.session, &engine.worn, ids);
        common_prefix(engine.session.tokens(), ids)
    }

    /// How many tokens of a conversation are known.
    fn recalled(engine: &mut Engine, conversation: ConversationId) -> usize {
        known(engine, &ids(conversation))
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
        read(&mut engine, &[1; 63]);
        engine.keep(1, &|| false);
        read(&mut engine, &ids(1));
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

        let mut next = loaded(&folder);
        assert_eq!(recalled(&mut next, 2), 96);
        next.forget_conversation(2);
        assert!(!kept.exists());
        read(&mut engine, &[9]);
        assert_eq!(recalled(&mut engine, 2), 0, "nor by one who remembers it");
    }

    #[test]
    fn an_answer_adds_what_is_new_to_what_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        read_and_keep(&mut engine, 1);
        let file = all(&folder).remove(0);
        let first = fs::read(&file).unwrap();
        let more = |kind| [&ids(1)[..96], &[kind; 64]].concat();

        read(&mut engine, &more(2));
        // The head and some of what is new.
        let asked = Cell::new(0);
        engine.keep(1, &|| asked.replace(asked.get() + 1) == 3);
        assert!(asked.get() > 3 && fs::read(&file).unwrap() == first);
        engine.keep(1, &|| false);
        let both = fs::read(&file).unwrap();
        assert!(both.starts_with(&first));
        engine.keep(1, &|| panic!("nothing is new"));

        // Another worker was here.
        let mut other = loaded(&folder);
        assert_eq!(known(&mut other, &more(3)), 96);
        read(&mut other, &more(3));
        other.keep(1, &|| false);
        assert_eq!(fs::metadata(&file).unwrap().len(), both.len() as u64);
        engine.keep(1, &|| false);
        assert!(fs::read(&file).unwrap() == both);

        let mut damaged = both.clone();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&file, damaged).unwrap();
        let mut next = loaded(&folder);
        assert_eq!(known(&mut next, &more(2)), 96);
        assert!(fs::read(&file).unwrap() == first);
        read(&mut next, &more(2));
        next.keep(1, &|| false);
        assert!(fs::read(&file).unwrap() == both);

        // A longer one is not given up for its beginning.
        read(&mut next, &ids(1)[..96]);
        next.keep(1, &|| false);
        assert!(fs::read(&file).unwrap() == both);
    }

    #[test]
    fn less_is_kept_once_less_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = loaded(&folder);
        read_and_keep(&mut engine, 1);
        read_and_keep(&mut engine, 2);
        let (_, about) = files(folder.path()).next().unwrap();
        engine.keep_at_most(about.len());
        assert_eq!(all(&folder).len(), 1);
        engine.keep_at_most(0);
        read_and_keep(&mut engine, 3);
        assert!(all(&folder).is_empty());
        engine.keep_at_most(about.len());
        read_and_keep(&mut engine, 3);
        assert_eq!(all(&folder).len(), 1);
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

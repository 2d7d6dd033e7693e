//! Facts of models, read once as long as the files stay the same: in memory, and on the disk where a file for it is given.

use super::{
    Facts,
    parts::files_of,
    probe::{self, Answer, Failed, ProbeCommand, Question},
};
use hearth_formats::adapter::write_whole;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Raised with what the file of the cache means.
const VERSION: u32 = 1;

/// More than this, in bytes, is no file of ours.
const LONGEST: u64 = 16 << 20;

/// The most models in the cache. With more, the cache is cleared.
const MOST: usize = 4096;

/// How long a temporary failure is cached.
const RETRY: Duration = Duration::from_secs(60);

/// Who reads files.
#[derive(Debug, Clone)]
pub enum Reader {
    /// This process, which lives for one command only.
    Here,
    /// Processes of their own.
    Probe(ProbeCommand),
}

impl Reader {
    /// The answers, in order.
    fn ask(&self, questions: &[Question]) -> Vec<Result<Answer, Failed>> {
        match self {
            Self::Here => questions.iter().map(|question| Ok(question.answer())).collect(),
            Self::Probe(command) => probe::ask(command, questions),
        }
    }
}

/// What the system says of a file: another file, or another state of it, has another stamp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    /// When it was last written to, in nanoseconds from 1970.
    modified: Option<u64>,
    /// When anything about it last changed, rights included, where the system says so.
    changed: Option<(i64, i64)>,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let about = fs::metadata(path)?;
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
        let nanos = |time: SystemTime| since(time).and_then(|since| u64::try_from(since.as_nanos()).ok());
        #[cfg(unix)]
        let changed = {
            use std::os::unix::fs::MetadataExt;
            Some((about.ctime(), about.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let changed = None;
        Ok(Self {
            size: about.len(),
            modified: about.modified().ok().and_then(nanos),
            changed,
        })
    }
}

/// The stamps of all files of a model; none for a part that is not there.
type Stamps = Vec<Option<Stamp>>;

/// What is known of a model.
#[derive(Debug)]
struct Known {
    stamps: Stamps,
    facts: Result<Facts, String>,
    /// When it is to be asked again though nothing has changed.
    until: Option<Instant>,
}

/// Facts by path.
#[derive(Debug)]
pub(super) struct Cache {
    reader: Reader,
    file: Option<PathBuf>,
    known: Mutex<HashMap<PathBuf, Known>>,
    /// Held while files are read, so that none is read twice at once; what is known already waits for nothing.
    reading: Mutex<()>,
}

impl Cache {
    /// Nothing is known but what `file` remembers.
    pub(super) fn new(reader: Reader, file: Option<PathBuf>) -> Self {
        let known = file.as_deref().map(load).unwrap_or_default();
        Self {
            reader,
            file,
            known: Mutex::new(known),
            reading: Mutex::default(),
        }
    }

    /// The facts of models, or a sentence each on why they cannot be had, in order.
    pub(super) fn of(&self, paths: &[PathBuf]) -> Vec<Result<Facts, String>> {
        let stamped: Vec<Result<Stamps, String>> = paths.iter().map(|path| stamps(path)).collect();
        let mut facts: Vec<Option<Result<Facts, String>>> = vec![None; paths.len()];
        for round in 0..2 {
            // What another thread read meanwhile is known then.
            let _reading = (round > 0).then(|| lock(&self.reading));
            let mut missing = Vec::new();
            let known = lock(&self.known);
            for (place, (path, stamps)) in paths.iter().zip(&stamped).enumerate() {
                match stamps {
                    Err(why) => facts[place] = Some(Err(why.clone())),
                    Ok(stamps) => match known.get(path).filter(|known| known.counts(stamps)) {
                        Some(known) => facts[place] = Some(known.facts.clone()),
                        None => missing.push(place),
                    },
                }
            }
            drop(known);
            if missing.is_empty() {
                break;
            }
            if round > 0 {
                self.read(paths, &stamped, &missing, &mut facts);
            }
        }
        let all = facts.into_iter().zip(paths);
        all.map(|(facts, path)| facts.unwrap_or_else(|| Err(format!("{} was not read. Try again.", path.display()))))
            .collect()
    }

    /// Reads what is not known, and remembers it.
    fn read(
        &self,
        paths: &[PathBuf],
        stamped: &[Result<Stamps, String>],
        missing: &[usize],
        facts: &mut [Option<Result<Facts, String>>],
    ) {
        let questions: Vec<_> = missing
            .iter()
            .map(|&place| Question::Model {
                path: paths[place].clone(),
            })
            .collect();
        let answers = self.reader.ask(&questions);
        let mut known = lock(&self.known);
        for (&place, answer) in missing.iter().zip(answers) {
            let (read, temporary) = match answer {
                Ok(Answer::Facts(facts)) => (Ok(facts), false),
                Ok(Answer::Problem(why)) => (Err(why), false),
                Ok(Answer::Fits) => (Err("the answer was to another question. Try again.".to_owned()), true),
                Err(failed) => (Err(failed.message), failed.temporary),
            };
            facts[place] = Some(read.clone());
            if let Ok(stamps) = &stamped[place] {
                let new = Known {
                    stamps: stamps.clone(),
                    facts: read,
                    until: temporary.then(|| Instant::now() + RETRY),
                };
                known.insert(paths[place].clone(), new);
            }
        }
        let Some(file) = &self.file else { return };
        let saved = serialised(&mut known);
        // Writing may take long, and what is known already waits for nothing.
        drop(known);
        if let Err(error) = saved.and_then(|text| save(file, &text)) {
            tracing::warn!(%error, "facts of models could not be kept; they are read again at the next start");
        }
    }

    /// Whether an adapter fits a model, or a sentence on why not.
    pub(super) fn check_adapter(&self, path: &Path, model: &Path) -> Result<(), String> {
        let question = Question::Adapter {
            path: path.to_owned(),
            model: model.to_owned(),
        };
        match self.reader.ask(&[question]).pop() {
            Some(Ok(Answer::Fits)) => Ok(()),
            Some(Ok(Answer::Problem(why))) => Err(why),
            Some(Err(failed)) => Err(failed.message),
            Some(Ok(Answer::Facts(_))) | None => Err(format!("{} was not read. Try again.", path.display())),
        }
    }
}

impl Known {
    fn counts(&self, stamps: &Stamps) -> bool {
        self.stamps == *stamps && self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// The stamps of a model's files, or why there are none.
fn stamps(path: &Path) -> Result<Stamps, String> {
    let own = Stamp::of(path).map_err(|error| {
        format!(
            "{} cannot be read: {error}. It may have been moved or deleted.",
            path.display()
        )
    })?;
    let others = files_of(path).into_iter().filter(|other| other != path);
    Ok(std::iter::once(Some(own))
        .chain(others.map(|other| Stamp::of(&other).ok()))
        .collect())
}

/// What is on the disk. Only facts are: a file that could not be read is tried again at the next start.
#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    models: Vec<SavedModel>,
}

#[derive(Serialize, Deserialize)]
struct SavedModel {
    path: PathBuf,
    stamps: Stamps,
    facts: Facts,
}

/// What a file remembers; nothing where it is not ours, or not there.
fn load(file: &Path) -> HashMap<PathBuf, Known> {
    let read = || -> io::Result<Saved> {
        let mut bytes = Vec::new();
        File::open(file)?.take(LONGEST).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    match read() {
        Ok(saved) if saved.version == VERSION => saved
            .models
            .into_iter()
            .map(|model| {
                let known = Known {
                    stamps: model.stamps,
                    facts: Ok(model.facts),
                    until: None,
                };
                (model.path, known)
            })
            .collect(),
        Ok(_) => HashMap::new(),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::info!(%error, "the cache of model facts cannot be read; the models are read again");
            }
            HashMap::new()
        }
    }
}

/// The cache's text. One with too many models is cleared first.
fn serialised(known: &mut HashMap<PathBuf, Known>) -> io::Result<Vec<u8>> {
    if known.len() > MOST {
        known.clear();
    }
    let mut models: Vec<_> = known
        .iter()
        .filter(|(path, _)| path.to_str().is_some())
        .filter_map(|(path, known)| {
            let facts = known.facts.as_ref().ok()?.clone();
            Some(SavedModel {
                path: path.clone(),
                stamps: known.stamps.clone(),
                facts,
            })
        })
        .collect();
    models.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(serde_json::to_vec(&Saved {
        version: VERSION,
        models,
    })?)
}

fn save(file: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    write_whole(file, |out| out.write_all(text))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The cache of models' metadata, in memory and optionally on disk. An entry is valid while its
//! files are unchanged.

use super::{
    ModelMetadata,
    metadata::MetadataError,
    probe::{self, ProbeCommand, ProbeError, ProbeRequest, ProbeResponse},
};
use crate::{
    lock::lock,
    wire::{Problem, ProblemCode},
};
use hearth_formats::{durable::write_file, gguf::part_files};
use hearth_protocol::ModelsReason;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Version of the cache file's format.
const VERSION: u32 = 6;

/// Most bytes of the cache file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Most models in the cache. It is cleared when it has more.
const MAX_MODELS: usize = 4096;

/// Time for which a temporary failure is cached.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// The process in which files are read.
#[derive(Debug, Clone)]
pub enum Reader {
    /// In this process, for one command.
    InProcess,
    /// In probe processes.
    Probe(ProbeCommand),
}

impl Reader {
    /// Executes requests. Returns the responses in order.
    pub(super) fn run(&self, requests: &[ProbeRequest]) -> Vec<Result<ProbeResponse, ProbeError>> {
        match self {
            Self::InProcess => requests.iter().map(|request| Ok(request.execute())).collect(),
            Self::Probe(command) => probe::run(command, requests),
        }
    }
}

/// A file's size and times. A file with changed content has another stamp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    size: u64,
    /// Modification time in nanoseconds since 1970.
    modified: Option<u64>,
    /// Time of the last status change (`ctime`): seconds and nanoseconds. `None` if the system has
    /// none.
    changed: Option<(i64, i64)>,
}

impl Stamp {
    pub(super) fn from_path(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
        let nanos = |time: SystemTime| since_epoch(time).and_then(|duration| u64::try_from(duration.as_nanos()).ok());
        #[cfg(unix)]
        let changed = {
            use std::os::unix::fs::MetadataExt;
            Some((metadata.ctime(), metadata.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let changed = None;
        Ok(Self {
            size: metadata.len(),
            modified: metadata.modified().ok().and_then(nanos),
            changed,
        })
    }
}

/// The stamps of all shards of a model; `None` means a missing shard.
type Stamps = Vec<Option<Stamp>>;

/// A cache entry.
#[derive(Debug)]
struct Entry {
    stamps: Stamps,
    metadata: Result<ModelMetadata, MetadataError>,
    /// Expiry of a temporary failure.
    expires: Option<Instant>,
}

/// The cache, by path.
#[derive(Debug)]
pub(super) struct MetadataCache {
    reader: Reader,
    file: Option<PathBuf>,
    entries: Mutex<HashMap<PathBuf, Entry>>,
    /// Held while a list of files is read, so that two threads do not read the same file. Cached
    /// entries and single files do not wait for it.
    reading: Mutex<()>,
    /// Held while the cache is saved, so that the newest state is saved last.
    saving: Mutex<()>,
}

impl MetadataCache {
    /// Loads the cache from `file`; `None` means memory only.
    pub(super) fn new(reader: Reader, file: Option<PathBuf>) -> Self {
        let entries = file.as_deref().map(load).unwrap_or_default();
        Self {
            reader,
            file,
            entries: Mutex::new(entries),
            reading: Mutex::default(),
            saving: Mutex::default(),
        }
    }

    /// The metadata of a model, or the reason for failure. Does not wait for files that another
    /// thread is reading, which may be on slow drives.
    pub(super) fn get_one(&self, path: &Path) -> Result<ModelMetadata, MetadataError> {
        let paths = [path.to_owned()];
        let stamped = [stamps(path)];
        let cached = match &stamped[0] {
            Err(error) => Some(Err(error.clone())),
            Ok(stamps) => {
                let entries = lock(&self.entries);
                let valid = entries.get(path).filter(|entry| entry.is_valid(stamps));
                valid.map(|entry| entry.metadata.clone())
            }
        };
        let mut metadata = [cached];
        if metadata[0].is_none() {
            self.read_missing(&paths, &stamped, &[0], &mut metadata);
        }
        let [metadata] = metadata;
        metadata.unwrap_or_else(|| Err(MetadataError::Unreadable(not_read(path))))
    }

    /// The metadata of models, or the reason for failure, in order.
    pub(super) fn get(&self, paths: &[PathBuf]) -> Vec<Result<ModelMetadata, MetadataError>> {
        let stamped: Vec<Result<Stamps, MetadataError>> = paths.iter().map(|path| stamps(path)).collect();
        let mut metadata: Vec<Option<Result<ModelMetadata, MetadataError>>> = vec![None; paths.len()];
        for round in 0..2 {
            // Another thread may have read the missing files meanwhile.
            let _reading = (round > 0).then(|| lock(&self.reading));
            let mut missing = Vec::new();
            let entries = lock(&self.entries);
            for (index, (path, stamps)) in paths.iter().zip(&stamped).enumerate() {
                match stamps {
                    Err(error) => metadata[index] = Some(Err(error.clone())),
                    Ok(stamps) => match entries.get(path).filter(|entry| entry.is_valid(stamps)) {
                        Some(entry) => metadata[index] = Some(entry.metadata.clone()),
                        None => missing.push(index),
                    },
                }
            }
            drop(entries);
            if missing.is_empty() {
                break;
            }
            if round > 0 {
                self.read_missing(paths, &stamped, &missing, &mut metadata);
            }
        }
        let results = metadata.into_iter().zip(paths);
        results
            .map(|(metadata, path)| metadata.unwrap_or_else(|| Err(MetadataError::Unreadable(not_read(path)))))
            .collect()
    }

    /// Reads missing entries and caches them.
    fn read_missing(
        &self,
        paths: &[PathBuf],
        stamped: &[Result<Stamps, MetadataError>],
        missing: &[usize],
        metadata: &mut [Option<Result<ModelMetadata, MetadataError>>],
    ) {
        let requests: Vec<_> = missing
            .iter()
            .map(|&index| ProbeRequest::Model {
                path: paths[index].clone(),
            })
            .collect();
        let responses = self.reader.run(&requests);
        let mut entries = lock(&self.entries);
        for (&index, response) in missing.iter().zip(responses) {
            let (result, is_temporary) = match response {
                Ok(ProbeResponse::Metadata(metadata)) => (Ok(metadata), false),
                Ok(ProbeResponse::IsAdapter) => (Err(MetadataError::IsAdapter(paths[index].clone())), false),
                Ok(ProbeResponse::Incomplete(problem)) => (Err(MetadataError::Incomplete(problem)), false),
                Ok(ProbeResponse::Problem(problem)) => (Err(MetadataError::Unreadable(problem)), false),
                Ok(_) => (Err(MetadataError::Unreadable(not_read(&paths[index]))), true),
                Err(error) => (Err(MetadataError::Unreadable(error.problem)), error.temporary),
            };
            metadata[index] = Some(result.clone());
            if let Ok(stamps) = &stamped[index] {
                let new = Entry {
                    stamps: stamps.clone(),
                    metadata: result,
                    expires: is_temporary.then(|| Instant::now() + RETRY_DELAY),
                };
                entries.insert(paths[index].clone(), new);
            }
        }
        drop(entries);
        let Some(file) = &self.file else { return };
        let _one_at_a_time = lock(&self.saving);
        // The lock is not held while the file is written, which may be slow.
        let saved = serialize(&mut lock(&self.entries));
        if let Err(error) = saved.and_then(|text| save(file, &text)) {
            tracing::warn!(%error, "the metadata cache could not be saved; models are read again at the next start");
        }
    }

    /// The source of a model's chat template; it is not cached.
    ///
    /// # Errors
    /// The file cannot be read, or its template is malformed or too long.
    pub(super) fn chat_template(&self, path: &Path) -> Result<Option<String>, Problem> {
        let request = ProbeRequest::ChatTemplate { path: path.to_owned() };
        match self.reader.run(&[request]).pop() {
            Some(Ok(ProbeResponse::ChatTemplate(template))) => Ok(template),
            Some(Ok(ProbeResponse::Problem(problem))) => Err(problem),
            Some(Err(error)) => Err(error.problem),
            Some(Ok(_)) | None => Err(not_read(path)),
        }
    }

    /// Checks that an adapter fits a model.
    ///
    /// # Errors
    /// The adapter or the model cannot be read, or they do not fit.
    pub(super) fn check_adapter(&self, path: &Path, model: &Path) -> Result<(), Problem> {
        let request = ProbeRequest::Adapter {
            path: path.to_owned(),
            model: model.to_owned(),
        };
        match self.reader.run(&[request]).pop() {
            Some(Ok(ProbeResponse::Fits)) => Ok(()),
            Some(Ok(ProbeResponse::Problem(problem))) => Err(problem),
            Some(Err(error)) => Err(error.problem),
            Some(Ok(_)) | None => Err(not_read(path)),
        }
    }
}

impl Entry {
    fn is_valid(&self, stamps: &Stamps) -> bool {
        self.stamps == *stamps && self.expires.is_none_or(|expires| Instant::now() < expires)
    }
}

/// The problem of a file that was not read for an unknown reason.
pub(super) fn not_read(path: &Path) -> Problem {
    let path = path.display().to_string();
    Problem::new(ProblemCode::FileInvalid, ModelsReason::NotRead { path })
}

/// The stamps of a model's files, or the error if its first file cannot be read.
fn stamps(path: &Path) -> Result<Stamps, MetadataError> {
    let first = Stamp::from_path(path).map_err(|error| {
        let reason = ModelsReason::Unreadable {
            path: path.display().to_string(),
            detail: error.to_string(),
        };
        MetadataError::Unreadable(Problem::new(ProblemCode::FileUnreadable, reason))
    })?;
    let others = part_files(path).into_iter().filter(|other| other != path);
    Ok(std::iter::once(Some(first))
        .chain(others.map(|other| Stamp::from_path(&other).ok()))
        .collect())
}

/// The cache file. It holds no failures: those are retried at the next start.
#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    models: Vec<SavedModel>,
}

#[derive(Serialize, Deserialize)]
struct SavedModel {
    path: PathBuf,
    stamps: Stamps,
    metadata: ModelMetadata,
}

/// Loads the cache file. Returns an empty map if it is missing, corrupt or of another version.
fn load(file: &Path) -> HashMap<PathBuf, Entry> {
    let read = || -> io::Result<Saved> {
        let mut bytes = Vec::new();
        File::open(file)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    match read() {
        Ok(saved) if saved.version == VERSION => saved
            .models
            .into_iter()
            .map(|model| {
                let entry = Entry {
                    stamps: model.stamps,
                    metadata: Ok(model.metadata),
                    expires: None,
                };
                (model.path, entry)
            })
            .collect(),
        Ok(_) => HashMap::new(),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::info!(%error, "the metadata cache cannot be read; the models are read again");
            }
            HashMap::new()
        }
    }
}

/// Serializes the cache, which is cleared first if it has too many models.
fn serialize(entries: &mut HashMap<PathBuf, Entry>) -> io::Result<Vec<u8>> {
    if entries.len() > MAX_MODELS {
        entries.clear();
    }
    let mut models: Vec<_> = entries
        .iter()
        .filter(|(path, _)| path.to_str().is_some())
        .filter_map(|(path, entry)| {
            let metadata = entry.metadata.as_ref().ok()?.clone();
            Some(SavedModel {
                path: path.clone(),
                stamps: entry.stamps.clone(),
                metadata,
            })
        })
        .collect();
    models.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(serde_json::to_vec(&Saved {
        version: VERSION,
        models,
    })?)
}

fn save(file: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    write_file(file, |out| out.write_all(text))
}

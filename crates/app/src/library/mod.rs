//! The library: the models on this machine, their origins, and downloads.

mod adapter_headers;
mod adapters;
pub mod catalog;
mod download;
pub mod drafts;
mod error;
mod file_sampling;
mod folders;
mod foreign;
pub mod hub;
mod metadata;
mod metadata_cache;
pub mod probe;
mod updates;

pub use adapters::OwnAdapter;
pub(crate) use adapters::{is_named, path_of, size as adapter_size};
pub use download::{Progress, arrived, discard, download, resumes};
pub use error::LibraryError;
pub use file_sampling::FileSampling;
pub(crate) use folders::base_folder;
pub use folders::{bundled_folders, cache_folder, data_folder, metadata_file, packed_folder, sample_folders};
pub use foreign::Place;
pub use hearth_protocol::{Flaw, Kept};
pub use hub::Hub;
pub use metadata::{MetadataError, ModelMetadata, chat_template};
pub use metadata_cache::Reader;
pub use updates::{Untold, Update};

use crate::{
    lock::lock,
    relocation::location,
    settings, store,
    wire::{Problem, ProblemCode, Settings, Source},
};
use catalog::Entry;
use hearth_formats::{
    gguf::{is_first_part, part_files},
    hex,
};
use hearth_protocol::{ModelsReason, SamplingParams};
use hub::{Keychain, Origin, Reference, Remote, RemoteFile, Repository, SystemKeychain};
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, HashSet},
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

/// Time for which the search of other programs' folders is valid.
const PLACES_VALID_FOR: Duration = Duration::from_secs(60);

/// Attempts of a download whose file changes on the server meanwhile.
const MAX_CHANGES: u32 = 3;

/// Architecture of multimodal projectors, which are no chat models.
const PROJECTOR: &str = "clip";

/// A model of the library; its file may be missing.
#[derive(Debug, Clone)]
pub struct Model {
    /// Id: the catalog's, the file's name without extension, or `file-` and a digest of its path.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The GGUF file; of a split model the first shard.
    pub path: PathBuf,
    /// Origin.
    pub source: Source,
    /// Its catalog entry.
    pub entry: Option<&'static Entry>,
    /// Its origin, if Hearth downloaded it.
    pub origin: Option<Origin>,
    /// Whether its file is in a folder of the app under the name of its catalog entry, as earlier
    /// versions downloaded it without a record of its origin.
    pub is_flat_entry: bool,
    /// Metadata of its file, or the reason why it cannot be read.
    pub metadata: Result<ModelMetadata, Problem>,
    /// Whether its file lacks bytes at its end.
    pub is_incomplete: bool,
    /// System prompt that the adapter merged into it was trained with.
    pub training_prompt: Option<String>,
    /// The catalog entry of the model that an adapter was merged into.
    pub base_entry: Option<&'static Entry>,
}

impl Model {
    /// Default system prompt.
    pub fn system_prompt(&self) -> Option<&str> {
        let of_entry = self.entry.and_then(|entry| entry.system_prompt.as_deref());
        self.training_prompt.as_deref().or(of_entry)
    }

    /// Default sampling parameters: the catalog's, or those that the file recommends over the
    /// base's, or over Hearth's.
    pub fn sampling(&self) -> SamplingParams {
        let of_entry = |entry: Option<&Entry>| entry.and_then(|entry| entry.sampling.clone());
        if let Some(sampling) = of_entry(self.entry) {
            return sampling;
        }
        let others = of_entry(self.base_entry).unwrap_or_default();
        match &self.metadata {
            Ok(metadata) => metadata.sampling.over(others),
            Err(_) => others,
        }
    }

    /// Whether it writes titles of conversations, as its base does.
    pub fn writes_titles(&self) -> bool {
        self.entry.or(self.base_entry).is_none_or(|entry| entry.titles)
    }

    /// License of the weights, if known.
    pub fn license(&self) -> Option<String> {
        let entry = self.entry.map(|entry| entry.license.clone());
        entry.or_else(|| self.origin.as_ref()?.license.clone())
    }

    /// Whether [`Library::delete`] deletes its files.
    pub fn is_deletable(&self) -> bool {
        self.source == Source::Catalog && (self.is_flat_entry || self.origin.is_some())
    }
}

/// The models on this machine.
#[derive(Debug)]
pub struct Library {
    bundled: Vec<PathBuf>,
    downloaded: PathBuf,
    /// The folder of downloads before the data folder was moved. Ids depend on it.
    downloaded_first: PathBuf,
    adapters: PathBuf,
    metadata: metadata_cache::MetadataCache,
    headers: adapter_headers::AdapterHeaders,
    places: Mutex<Places>,
}

/// The file of a model of the list, not read yet.
#[derive(Debug, Clone)]
struct ListedFile {
    path: PathBuf,
    source: Source,
    /// The name in another program.
    name: Option<String>,
}

impl ListedFile {
    fn new(path: PathBuf, source: Source) -> Self {
        Self {
            path,
            source,
            name: None,
        }
    }
}

fn canonical_paths(files: &[ListedFile]) -> HashSet<PathBuf> {
    let paths = files.iter().map(|file| fs::canonicalize(&file.path));
    paths.flatten().collect()
}

/// The folders of other programs, and the models in them.
#[derive(Debug, Default)]
struct Places {
    folders: Vec<Place>,
    /// The models, and the time of their search.
    models: Option<(Instant, Vec<foreign::ForeignModel>)>,
}

impl Library {
    /// A library over folders of bundled models, of which the first with a model wins, and the data
    /// folder. `reader` reads the files; `cache` is the metadata cache's file, `None` means no
    /// cache on disk.
    pub fn new(bundled: Vec<PathBuf>, data: &Path, reader: Reader, cache: Option<PathBuf>) -> Self {
        Self {
            bundled,
            downloaded: data.join("models"),
            downloaded_first: location::origin(data).join("models"),
            adapters: data.join("adapters"),
            headers: adapter_headers::AdapterHeaders::new(reader.clone()),
            metadata: metadata_cache::MetadataCache::new(reader, cache),
            places: Mutex::default(),
        }
    }

    /// Sets the folders of other programs whose models are listed, too.
    pub fn set_places(&self, folders: Vec<Place>) {
        let mut places = lock(&self.places);
        if places.folders != folders {
            *places = Places { folders, models: None };
        }
    }

    /// Makes the next list search the folders of other programs again.
    pub fn rescan(&self) {
        lock(&self.places).models = None;
    }

    /// The models in the folders of other programs.
    fn foreign_models(&self) -> Vec<foreign::ForeignModel> {
        let folders = {
            let places = lock(&self.places);
            match &places.models {
                Some((searched_at, models)) if searched_at.elapsed() < PLACES_VALID_FOR => return models.clone(),
                _ => places.folders.clone(),
            }
        };
        // The lock is not held during the search, because a drive may be slow.
        let models: Vec<foreign::ForeignModel> = folders.iter().flat_map(Place::models).collect();
        let mut places = lock(&self.places);
        if places.folders == folders {
            places.models = Some((Instant::now(), models.clone()));
        }
        models
    }

    /// The folder of downloads.
    pub fn folder(&self) -> &Path {
        &self.downloaded
    }

    /// The target folder of a download: the folder of models or the folder of adapters.
    pub fn folder_of(&self, remote: &Remote) -> &Path {
        if remote.kind.is_adapter() {
            &self.adapters
        } else {
            &self.downloaded
        }
    }

    /// All models: bundled, downloaded, added by path, then models of other programs. A file is
    /// listed once. An unreadable one is listed with the reason, but another program's only if it
    /// is incomplete.
    pub fn list(&self, added: &[PathBuf]) -> Vec<Model> {
        let mut files = self.own_files(added);
        files.extend(self.foreign_files(&files));
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        let mut models: Vec<Model> = files
            .into_iter()
            .zip(self.metadata.get(&paths))
            .map(|(file, metadata)| self.model_of(file, metadata))
            .filter(is_listed)
            .collect();
        // The catalog's first entry is the default model.
        models.sort_by_key(|model| {
            catalog::entries()
                .iter()
                .position(|entry| Some(entry) == model.entry)
                .unwrap_or(usize::MAX)
        });
        models
    }

    /// The model of the list with this id. Reads no other file: a file may be on a drive that does
    /// not respond.
    pub fn find(&self, id: &str, added: &[PathBuf]) -> Option<Model> {
        let read = |file: ListedFile| {
            let metadata = self.metadata(&file.path);
            Some(self.model_of(file, metadata)).filter(is_listed)
        };
        let own = self.own_files(added);
        let has_id = |file: &&ListedFile| self.id_of(file) == id;
        match own.iter().find(has_id) {
            Some(file) => read(file.clone()),
            None => self
                .foreign_files(&own)
                .into_iter()
                .find(|file| has_id(&file))
                .and_then(read),
        }
    }

    /// The model that [`Library::default`] chooses from the whole list. Reads files only until it
    /// is found.
    pub fn find_default(&self, added: &[PathBuf]) -> Option<Model> {
        let mut files = self.own_files(added);
        files.extend(self.foreign_files(&files));
        let position = |entry: Option<&Entry>| {
            let mut entries = catalog::entries().iter();
            entries
                .position(|candidate| Some(candidate) == entry)
                .unwrap_or(usize::MAX)
        };
        let position_by_name = |file: &ListedFile| {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            position(catalog::of_file(&name))
        };
        let read = |file: &ListedFile| {
            let metadata = self.metadata(&file.path);
            Some(self.model_of(file.clone(), metadata)).filter(|model| is_listed(model) && model.metadata.is_ok())
        };
        // Files with the name of an entry come first. Some of them may be other models.
        let mut order: Vec<usize> = (0..files.len())
            .filter(|index| position_by_name(&files[*index]) < usize::MAX)
            .collect();
        order.sort_by_key(|index| position_by_name(&files[*index]));
        let mut others: HashMap<usize, Option<Model>> = HashMap::new();
        for index in order {
            match read(&files[index]) {
                Some(model) if position(model.entry) < usize::MAX => return Some(model),
                other => drop(others.insert(index, other)),
            }
        }
        (0..files.len()).find_map(|index| others.remove(&index).unwrap_or_else(|| read(&files[index])))
    }

    /// The files of bundled and downloaded models, and of those added by path.
    fn own_files(&self, added: &[PathBuf]) -> Vec<ListedFile> {
        let mut seen = HashSet::new();
        let mut files = Vec::new();
        let folders = self.bundled.iter().map(|folder| (folder, Source::Bundled));
        for (folder, source) in folders.chain([(&self.downloaded, Source::Catalog)]) {
            let is_new = |path: &PathBuf| seen.insert(app_model_id(path));
            let paths = models_in(folder).into_iter().filter(is_new);
            files.extend(paths.map(|path| ListedFile::new(path, source)));
        }
        let nested = nested_models(&self.downloaded).into_iter();
        files.extend(nested.map(|path| ListedFile::new(path, Source::Catalog)));
        let listed_paths = canonical_paths(&files);
        let others = added.iter().filter(|path| !listed_paths.contains(*path));
        files.extend(others.map(|path| ListedFile::new(path.clone(), Source::File)));
        files
    }

    /// The files of other programs, without those in `own`.
    fn foreign_files(&self, own: &[ListedFile]) -> Vec<ListedFile> {
        let mut listed_paths = canonical_paths(own);
        self.foreign_models()
            .into_iter()
            .filter(|model| listed_paths.insert(model.canonical.clone()))
            .map(|model| ListedFile {
                path: model.path,
                source: model.source,
                name: model.name,
            })
            .collect()
    }

    /// The model of a file.
    fn model_of(&self, file: ListedFile, metadata: Result<ModelMetadata, MetadataError>) -> Model {
        let is_incomplete = matches!(metadata, Err(MetadataError::Incomplete(_)));
        let metadata = metadata.map_err(Problem::from);
        let id = self.id_of(&file);
        let ListedFile { path, source, name } = file;
        let model = match source {
            Source::Bundled | Source::Catalog if self.is_flat(&path) => app_model(path, source, metadata),
            _ => {
                let model = file_model(path, source, metadata);
                Model {
                    id,
                    name: name.unwrap_or(model.name),
                    ..model
                }
            }
        };
        Model { is_incomplete, ..model }
    }

    /// The id of a file's model.
    fn id_of(&self, file: &ListedFile) -> String {
        match file.source {
            Source::Bundled | Source::Catalog if self.is_flat(&file.path) => app_model_id(&file.path),
            Source::Catalog => file_id(&self.first_path(&file.path)),
            _ => file_id(&file.path),
        }
    }

    /// The default model: the first that can be read.
    pub fn default<'a>(&self, models: &'a [Model]) -> Option<&'a Model> {
        models.iter().find(|model| model.metadata.is_ok())
    }

    /// Resolves a name: the path of a file, or the id, name or file name of a model of the library.
    pub fn resolve(&self, name: &str, added: &[PathBuf]) -> Result<Model, LibraryError> {
        let path = Path::new(name);
        if path.is_file() {
            return Ok(self.by_path(path));
        }
        let models = self.list(added);
        let matches = |candidate: &str| candidate.to_lowercase() == name.to_lowercase();
        let matches_file = |model: &Model| {
            let matches_part =
                |part: Option<&std::ffi::OsStr>| part.is_some_and(|part| matches(&part.to_string_lossy()));
            matches_part(model.path.file_name()) || matches_part(model.path.file_stem())
        };
        if let Some(model) = models
            .iter()
            .find(|model| matches(&model.id) || matches(&model.name) || matches_file(model))
        {
            return Ok(model.clone());
        }
        if path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
            && path.components().count() > 1
        {
            let path = path.display().to_string();
            let reason = ModelsReason::NoSuchFile { path };
            return Err(LibraryError::Unreadable(Problem::new(
                ProblemCode::FileUnreadable,
                reason,
            )));
        }
        let ids = models.into_iter().map(|model| model.id).collect();
        Err(LibraryError::NotFound(unknown_model(name, ids)))
    }

    /// The model of a file, in any folder.
    pub fn by_path(&self, path: &Path) -> Model {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let metadata = self.metadata(path).map_err(Problem::from);
        match catalog::of_file(&name) {
            Some(_) => app_model(path.to_owned(), Source::File, metadata),
            None => file_model(path.to_owned(), Source::File, metadata),
        }
    }

    /// Checks that an adapter, a file or a folder, fits a model.
    ///
    /// # Errors
    /// The adapter or the model cannot be read, or they do not fit.
    pub fn check_adapter(&self, adapter: &Path, model: &Path) -> Result<(), Problem> {
        self.metadata.check_adapter(adapter, model)
    }

    /// The source of the chat template in a model's file. `None` means that it has none.
    ///
    /// # Errors
    /// The file cannot be read, or its template is malformed or too long.
    pub fn chat_template(&self, path: &Path) -> Result<Option<String>, Problem> {
        self.metadata.chat_template(path)
    }

    fn metadata(&self, path: &Path) -> Result<ModelMetadata, MetadataError> {
        self.metadata.get_one(path)
    }

    /// Downloads a model or an adapter, unless the library has it. `name` is a reference that
    /// [`Reference::parse`] reads. If the server has a new version, it replaces the old one.
    /// Returns the file, or the folder of a PEFT adapter. Blocks until done.
    ///
    /// # Errors
    /// There is no such model, or the download fails.
    pub fn pull(
        &self,
        hub: &Hub,
        name: &str,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<PathBuf, LibraryError> {
        let reference = Reference::parse(name, hub)?;
        if let Some(path) = self.settled(&reference) {
            return Ok(path);
        }
        match self.pull_remote(hub, &reference, progress) {
            Err(error) if error.is_temporary() => self.complete_entry(&reference).ok_or(error),
            result => result,
        }
    }

    fn pull_remote(
        &self,
        hub: &Hub,
        reference: &Reference,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<PathBuf, LibraryError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let remote = remote(hub, reference)?;
            match download(hub, &remote, self.folder_of(&remote), progress) {
                Err(LibraryError::Changed { .. }) if tries < MAX_CHANGES => {}
                first_file => return Ok(adapters::path_of(&first_file?, remote.kind)),
            }
        }
    }

    /// The file of a model of the catalog that needs no update: it is bundled, or was downloaded
    /// with the catalog's hash or at its commit.
    pub fn settled(&self, reference: &Reference) -> Option<PathBuf> {
        let is_settled = |model: &Model, entry: &Entry| match model.source {
            Source::Bundled => true,
            _ => download::saved(&model.path).is_some_and(|saved| {
                // Downloaded from a repository by an earlier Hearth, and identified by its size.
                let is_copy = !model.is_flat_entry && entry.sha256.is_some() && saved.files.is_empty();
                entry.is_of(&saved) || is_copy && !saved.updating
            }),
        };
        self.entry_file(reference, is_settled)
    }

    /// The file of a model of the catalog in any version, unless an update of it was interrupted.
    fn complete_entry(&self, reference: &Reference) -> Option<PathBuf> {
        let is_updating = |model: &Model| download::saved(&model.path).is_some_and(|saved| saved.updating);
        self.entry_file(reference, |model, _| !is_updating(model))
    }

    /// The file of a bundled or downloaded model of the catalog that can be read and meets a
    /// condition.
    fn entry_file(&self, reference: &Reference, condition: impl Fn(&Model, &Entry) -> bool) -> Option<PathBuf> {
        let Reference::Catalog(entry) = reference else {
            return None;
        };
        let is_own = |model: &Model| matches!(model.source, Source::Bundled | Source::Catalog);
        let mut models = self.list(&[]).into_iter();
        let model = models.find(|model| {
            model.entry == Some(entry) && model.metadata.is_ok() && is_own(model) && condition(model, entry)
        });
        model.map(|model| model.path)
    }

    /// Checks that a file is a model. Returns it and the canonical path to store.
    pub fn check(&self, path: &Path) -> Result<(Model, String), LibraryError> {
        let canonical =
            canonical_model_path(path).map_err(|error| LibraryError::Unreadable(no_access(path, &error)))?;
        let text = plain(&canonical)
            .to_str()
            .ok_or_else(|| LibraryError::NonUtf8Path(canonical.clone()))?
            .to_owned();
        let path = PathBuf::from(&text);
        match self.metadata(&path) {
            Ok(metadata) => Ok((file_model(path, Source::File, Ok(metadata)), text)),
            Err(MetadataError::IsAdapter(path)) => Err(LibraryError::IsAdapter(path)),
            Err(MetadataError::Incomplete(problem) | MetadataError::Unreadable(problem)) => {
                Err(LibraryError::Unreadable(problem))
            }
        }
    }

    /// Deletes the file of a downloaded model, unless it is being downloaded; other files stay.
    pub fn delete(&self, model: &Model) -> Result<(), LibraryError> {
        match (model.source, model.entry) {
            (Source::Bundled, _) => Err(LibraryError::Bundled {
                name: model.name.clone(),
            }),
            (Source::Catalog, _) if model.is_deletable() => {
                if part_files(&model.path).iter().any(|part| download::is_loading(part)) {
                    Err(LibraryError::Loading(model.name.clone()))
                } else {
                    self.delete_files(&model.path)
                }
            }
            (Source::Catalog, _) => Err(LibraryError::AddedByHand(model.path.clone())),
            (Source::File, _) => Ok(()),
            _ => Err(LibraryError::Foreign(model.path.clone())),
        }
    }

    /// Deletes the files of a downloaded model, its record, and the folders that become empty.
    fn delete_files(&self, model: &Path) -> Result<(), LibraryError> {
        let failed = |path: &Path, source| LibraryError::Delete {
            path: path.to_owned(),
            source,
        };
        for part in part_files(model) {
            match fs::remove_file(&part) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&part, error)),
                _ => {}
            }
        }
        download::remove_origin(model).map_err(|error| failed(model, error))?;
        for folder in model.ancestors().skip(1) {
            // A folder with other files stays.
            if folder == self.downloaded || !folder.starts_with(&self.downloaded) || fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The path of a file before the data folder was moved.
    fn first_path(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.downloaded) {
            Ok(inside) => self.downloaded_first.join(inside),
            Err(_) => path.to_owned(),
        }
    }

    /// Whether a file is directly in a folder of models, without a separate folder.
    fn is_flat(&self, path: &Path) -> bool {
        let folder = path.parent();
        folder == Some(self.downloaded.as_path())
            || self.bundled.iter().any(|bundled| Some(bundled.as_path()) == folder)
    }
}

/// The files of a model on the network; asks the hub.
///
/// # Errors
/// There is no such model, or the hub cannot be asked.
pub fn remote(hub: &Hub, reference: &Reference) -> Result<Remote, LibraryError> {
    match reference {
        Reference::Catalog(entry) => entry.remote(hub),
        Reference::Hub {
            repository,
            revision,
            selection,
        } => Repository::get(hub, repository, revision)?.remote(hub, selection),
        Reference::Ollama { name, tag } => hub::ollama(hub, name, tag),
        Reference::Url(url) => RemoteFile::at(hub, url),
    }
}

/// The reason that no model has this name. `known` are the ids of all models.
fn unknown_model(name: &str, known: Vec<String>) -> ModelsReason {
    let id = catalog::find(name).map(|entry| entry.id.clone());
    let name = name.to_owned();
    match id {
        None if known.is_empty() => ModelsReason::UnknownModelOfNone { name },
        None => ModelsReason::UnknownModel { name, known },
        Some(id) if known.is_empty() => ModelsReason::NotDownloadedOfNone { name, id },
        Some(id) => ModelsReason::NotDownloaded { name, id, known },
    }
}

/// The problem of a chosen path that cannot be resolved.
pub(crate) fn no_access(path: &Path, error: &io::Error) -> Problem {
    let reason = ModelsReason::NoAccess {
        path: path.display().to_string(),
        detail: error.to_string(),
    };
    Problem::new(ProblemCode::FileUnreadable, reason)
}

/// Whether a model is listed. Files that are no chat models, and unreadable files of other
/// programs, are not. An incomplete model of another program is listed with the reason.
fn is_listed(model: &Model) -> bool {
    match (&model.metadata, model.source) {
        (Ok(metadata), source) => source == Source::File || metadata.architecture != PROJECTOR,
        (Err(_), Source::Bundled | Source::Catalog | Source::File) => true,
        (Err(_), _) => model.is_incomplete,
    }
}

/// Id of a model in one of the app's folders.
fn app_model_id(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    catalog::of_file(&file).map_or_else(stem, |entry| entry.id.clone())
}

/// A model in one of the app's folders, where file names match the catalog.
fn app_model(path: PathBuf, source: Source, metadata: Result<ModelMetadata, Problem>) -> Model {
    let entry = catalog::of_file(&path.file_name().unwrap_or_default().to_string_lossy());
    let model = file_model(path.clone(), source, metadata);
    Model {
        id: app_model_id(&path),
        name: entry.map_or(model.name, |entry| entry.name.clone()),
        entry,
        is_flat_entry: entry.is_some(),
        ..model
    }
}

/// The models in subfolders of the download folder.
fn nested_models(downloads: &Path) -> Vec<PathBuf> {
    let place = Place {
        source: Source::Catalog,
        folder: downloads.to_owned(),
    };
    let models = place.models().into_iter().map(|model| model.path);
    models.filter(|path| path.parent() != Some(downloads)).collect()
}

/// Id of a file in any folder.
fn file_id(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    format!("file-{}", hex(&digest[..6]))
}

/// A model in any folder.
fn file_model(path: PathBuf, source: Source, metadata: Result<ModelMetadata, Problem>) -> Model {
    let id = file_id(&path);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let origin = (source == Source::Catalog).then(|| download::origin(&path)).flatten();
    let entry = catalog::of_file(&file).filter(|entry| is_entry(entry, origin.as_ref(), &metadata));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = entry.map_or_else(|| metadata::name(&metadata, stem), |entry| entry.name.clone());
    Model {
        id,
        name,
        origin,
        is_flat_entry: false,
        path,
        source,
        entry,
        metadata,
        is_incomplete: false,
        training_prompt: None,
        base_entry: None,
    }
}

/// Whether a file with an entry's name is that model: it was downloaded as such, or has the size of
/// the file whose hash the catalog has.
fn is_entry(entry: &Entry, origin: Option<&Origin>, metadata: &Result<ModelMetadata, Problem>) -> bool {
    let has_size = || metadata.as_ref().is_ok_and(|metadata| metadata.file_size == entry.size);
    origin.is_some_and(|origin| origin.source == entry.id) || entry.sha256.is_some() && has_size()
}

/// The hub of the settings and the environment, for the command line.
///
/// # Errors
/// The network is switched off, or the store cannot be read.
pub fn hub_of_settings() -> Result<Hub, LibraryError> {
    let data = data_folder().unwrap_or_default();
    let settings = store::read_only(&data, settings::load)?.unwrap_or_default();
    hub_of(&settings, &SystemKeychain::default())
}

/// The hub of the settings and the environment, with the token of the keychain. Blocks.
///
/// # Errors
/// The network is switched off.
pub(crate) fn hub_of(settings: &Settings, keychain: &dyn Keychain) -> Result<Hub, LibraryError> {
    if settings.offline {
        Err(LibraryError::OfflineBySetting)
    } else {
        Hub::from_environment(settings.hub_endpoint.as_deref(), keychain)
    }
}

/// The library of the command line, and the paths of models added in the window.
pub fn open() -> Result<(Library, Vec<PathBuf>), LibraryError> {
    let data = data_folder().unwrap_or_default();
    let rows = store::read_only(&data, |connection| {
        Ok((store::model::list(connection)?, settings::load(connection)?))
    });
    let (added, settings) = rows?.unwrap_or_default();
    let library = Library::new(bundled_folders(None), &data, Reader::InProcess, None);
    library.set_places(places(&settings, Place::of_programs()));
    Ok((library, added))
}

/// The folders of models that the settings list or enable.
pub(crate) fn places(settings: &Settings, programs: Vec<Place>) -> Vec<Place> {
    let added = settings.model_folders.iter().map(|folder| Place {
        source: Source::Folder,
        folder: folder.into(),
    });
    let programs = programs.into_iter().filter(|_| settings.list_other_programs);
    added.chain(programs).collect()
}

/// The canonical path of a model. For a split model it is the path of the first part, so that the
/// model is listed once.
fn canonical_model_path(path: &Path) -> io::Result<PathBuf> {
    let parts = part_files(path);
    let first = parts.first().filter(|first| first.exists()).map_or(path, |first| first);
    let canonical = fs::canonicalize(first)?;
    if parts.len() == 1 || part_files(&canonical).len() == parts.len() {
        return Ok(canonical);
    }
    // A link to a part, as in the cache of Hugging Face, whose target lacks the part number by
    // which the other parts are found.
    let folder = first.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")))?;
    Ok(folder.join(first.file_name().unwrap_or_default()))
}

/// Paths with the extension `gguf` in a folder, sorted; of a split model the first shard only.
/// Entries that are not readable files are included, so that they are listed with the reason.
fn models_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = files
        .filter_map(|file| file.ok().map(|file| file.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
                && is_first_part(path)
        })
        .collect();
    paths.sort();
    paths
}

/// Strips the prefix `\\?\` of Windows' canonical paths, which some programs refuse.
pub(crate) fn plain(path: &Path) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_prefix(r"\\?\")) {
        Some(rest) if cfg!(windows) && !rest.starts_with("UNC") => PathBuf::from(rest),
        _ => path.to_owned(),
    }
}

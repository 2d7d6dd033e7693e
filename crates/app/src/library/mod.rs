//! The library: which models are on this machine, where they came from, and how more are had.

mod cache;
pub mod catalog;
mod download;
mod error;
mod facts;
mod folders;
mod parts;
pub(crate) mod private;
pub mod probe;

pub use cache::Reader;
pub use download::{Hub, Progress, download};
pub use error::LibraryError;
pub use facts::Facts;
pub use folders::{bundled_folders, cache_folder, data_folder, facts_file, packed_folder, sample_folders};

use crate::{store, wire::Source};
use catalog::Entry;
use hearth_protocol::Sampling;
use parts::is_first;
use sha2::{Digest, Sha256};
use std::{
    collections::HashSet,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// One model that is here, or was.
#[derive(Debug, Clone)]
pub struct Model {
    /// Names it: the catalog's id, the file's name without its ending, or `file-` and a digest of its path.
    pub id: String,
    /// For people.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Where it comes from.
    pub source: Source,
    /// What the catalog knows of it.
    pub entry: Option<&'static Entry>,
    /// What its file says, or why that cannot be read.
    pub facts: Result<Facts, String>,
}

impl Model {
    /// What a conversation with it begins with, unless it has its own.
    pub fn system_prompt(&self) -> Option<&'static str> {
        self.entry.and_then(|entry| entry.system_prompt.as_deref())
    }

    /// How its tokens are chosen, unless a person says otherwise.
    pub fn sampling(&self) -> Sampling {
        self.entry
            .map_or_else(Sampling::default, |entry| entry.sampling.clone())
    }
}

/// The models on this machine.
#[derive(Debug)]
pub struct Library {
    bundled: Vec<PathBuf>,
    downloaded: PathBuf,
    facts: cache::Cache,
}

impl Library {
    /// A library over folders of bundled models (the first that has a model wins) and the app's own data folder. `reader`
    /// reads the files; `remembered` is the file in which facts are kept for the next start, if they are.
    pub fn new(bundled: Vec<PathBuf>, data: &Path, reader: Reader, remembered: Option<PathBuf>) -> Self {
        Self {
            bundled,
            downloaded: data.join("models"),
            facts: cache::Cache::new(reader, remembered),
        }
    }

    /// Where downloads go.
    pub fn folder(&self) -> &Path {
        &self.downloaded
    }

    /// Every model: bundled ones, downloaded ones, then those added by path. A file is listed once; one that cannot be read is
    /// listed with the reason.
    pub fn list(&self, added: &[PathBuf]) -> Vec<Model> {
        let mut seen = HashSet::new();
        let mut files = Vec::new();
        let folders = self.bundled.iter().map(|folder| (folder, Source::Bundled));
        for (folder, source) in folders.chain([(&self.downloaded, Source::Catalog)]) {
            let new = |path: &PathBuf| seen.insert(known_id(path));
            files.extend(models_in(folder).into_iter().filter(new).map(|path| (path, source)));
        }
        let here: HashSet<PathBuf> = files
            .iter()
            .filter_map(|(path, _)| fs::canonicalize(path).ok())
            .collect();
        let others = added.iter().filter(|path| !here.contains(*path));
        files.extend(others.map(|path| (path.clone(), Source::File)));
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
        let mut models: Vec<Model> = files
            .into_iter()
            .zip(self.facts.of(&paths))
            .map(|((path, source), facts)| match source {
                Source::File => file_model(path, facts),
                _ => known_model(path, source, facts),
            })
            .collect();
        // The catalog's first is the default model, and comes first.
        models.sort_by_key(|model| {
            catalog::entries()
                .iter()
                .position(|entry| Some(entry) == model.entry)
                .unwrap_or(usize::MAX)
        });
        models
    }

    /// The model a new conversation begins with: the catalog's first, or the first that can be read.
    pub fn default<'a>(&self, models: &'a [Model]) -> Option<&'a Model> {
        models.iter().find(|model| model.facts.is_ok())
    }

    /// The model that a person means: the path of a file, or the id, name or file name of one that is here.
    pub fn resolve(&self, name: &str, added: &[PathBuf]) -> Result<Model, LibraryError> {
        let path = Path::new(name);
        if path.is_file() {
            return Ok(self.by_path(path));
        }
        let models = self.list(added);
        let same = |known: &str| known.to_lowercase() == name.to_lowercase();
        let file = |model: &Model| {
            let of = |part: Option<&std::ffi::OsStr>| part.is_some_and(|part| same(&part.to_string_lossy()));
            of(model.path.file_name()) || of(model.path.file_stem())
        };
        if let Some(model) = models
            .iter()
            .find(|model| same(&model.id) || same(&model.name) || file(model))
        {
            return Ok(model.clone());
        }
        if path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"))
            && path.components().count() > 1
        {
            let message = format!("There is no file {}. Check the path.", path.display());
            return Err(LibraryError::Unreadable {
                path: path.to_owned(),
                found: false,
                message,
            });
        }
        Err(LibraryError::Unknown {
            name: name.to_owned(),
            pull: catalog::find(name).map(|entry| entry.id.clone()),
            known: models.into_iter().map(|model| model.id).collect(),
        })
    }

    /// A model by its file, wherever that lies.
    pub fn by_path(&self, path: &Path) -> Model {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match catalog::of_file(&name) {
            Some(_) => known_model(path.to_owned(), Source::File, self.facts(path)),
            None => file_model(path.to_owned(), self.facts(path)),
        }
    }

    /// Whether an adapter, a file or a folder, can be used over a model; or a sentence on why not.
    pub fn check_adapter(&self, adapter: &Path, model: &Path) -> Result<(), String> {
        self.facts.check_adapter(adapter, model)
    }

    fn facts(&self, path: &Path) -> Result<Facts, String> {
        let one = self.facts.of(&[path.to_owned()]).pop();
        one.unwrap_or_else(|| Err(format!("{} was not read. Try again.", path.display())))
    }

    /// Downloads a model of the catalog; one that is here already is left alone. Blocks until it is done.
    pub fn pull(
        &self,
        hub: &Hub,
        name: &str,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<PathBuf, LibraryError> {
        let entry = catalog::find(name).ok_or_else(|| LibraryError::NotInCatalog {
            name: name.to_owned(),
            known: catalog::entries().iter().map(|entry| entry.id.clone()).collect(),
        })?;
        let here = self
            .list(&[])
            .into_iter()
            .find(|model| model.entry == Some(entry) && model.facts.is_ok());
        match here {
            Some(model) => Ok(model.path),
            None => download(hub, entry, &self.downloaded, progress),
        }
    }

    /// Checks that a file a person adds is a model, and says under which path it is kept.
    pub fn check(&self, path: &Path) -> Result<(Model, String), LibraryError> {
        let unreadable = |found, message| LibraryError::Unreadable {
            path: path.to_owned(),
            found,
            message,
        };
        // The canonical path, so that one file is never two models.
        let full = fs::canonicalize(path)
            .map_err(|error| unreadable(false, format!("{} cannot be read: {error}.", path.display())))?;
        let kept = plain(&full)
            .to_str()
            .ok_or_else(|| LibraryError::StrangePath(full.clone()))?
            .to_owned();
        let path = PathBuf::from(&kept);
        let model = file_model(path.clone(), self.facts(&path));
        match &model.facts {
            Ok(_) => Ok((model, kept)),
            Err(message) => Err(unreadable(true, message.clone())),
        }
    }

    /// Deletes the file of a downloaded model. Other files are not the app's to delete.
    pub fn delete(&self, model: &Model) -> Result<(), LibraryError> {
        match (model.source, model.entry) {
            (Source::Bundled, _) => Err(LibraryError::Bundled {
                name: model.name.clone(),
            }),
            (Source::Catalog, Some(_)) => fs::remove_file(&model.path).map_err(|source| LibraryError::Delete {
                path: model.path.clone(),
                source,
            }),
            (Source::Catalog, None) => Err(LibraryError::ByHand(model.path.clone())),
            (Source::File, _) => Ok(()),
        }
    }
}

/// What a model in one of the app's folders is called.
fn known_id(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    catalog::of_file(&file).map_or_else(stem, |entry| entry.id.clone())
}

/// A model in one of the app's folders.
fn known_model(path: PathBuf, source: Source, facts: Result<Facts, String>) -> Model {
    Model {
        id: known_id(&path),
        ..model(path, source, facts)
    }
}

/// A model that a person added by its path.
fn file_model(path: PathBuf, facts: Result<Facts, String>) -> Model {
    model(path, Source::File, facts)
}

fn model(path: PathBuf, source: Source, facts: Result<Facts, String>) -> Model {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let id = digest
        .iter()
        .take(6)
        .fold("file-".to_owned(), |id, byte| format!("{id}{byte:02x}"));
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let entry = catalog::of_file(&file);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = entry.map_or_else(|| facts::name(&facts, stem), |entry| entry.name.clone());
    Model {
        id,
        name,
        path,
        source,
        entry,
        facts,
    }
}

/// The library as the command line sees it: the environment's folders, and the models that were added in the window.
pub fn open() -> Result<(Library, Vec<PathBuf>), LibraryError> {
    let data = data_folder().unwrap_or_default();
    let added = store::added_models(&data)?;
    Ok((Library::new(bundled_folders(None), &data, Reader::Here, None), added))
}

/// What is called like a GGUF file in a folder, by name; of a split model only its first part. What is no file, or cannot be read,
/// is listed too, so that a person learns why. None where the folder is not there.
fn models_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = files
        .filter_map(|file| file.ok().map(|file| file.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"))
                && is_first(path)
        })
        .collect();
    paths.sort();
    paths
}

/// Windows' canonical paths begin with `\\?\`, which people do not recognise and some programs refuse.
pub(crate) fn plain(path: &Path) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_prefix(r"\\?\")) {
        Some(rest) if cfg!(windows) && !rest.starts_with("UNC") => PathBuf::from(rest),
        _ => path.to_owned(),
    }
}

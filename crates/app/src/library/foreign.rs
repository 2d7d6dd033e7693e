//! Models of other programs, read in place. Their folders are never changed.

use super::{
    folders::{home, hugging_face_home},
    hub::Manifest,
};
use crate::wire::Source;
use hearth_formats::gguf::is_first_part;
use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
};

/// Most levels of subfolders that are searched. LM Studio and Jan use up to four.
const MAX_DEPTH: usize = 6;

/// Most directory entries that a search of one folder reads.
const MAX_ENTRIES: usize = 20_000;

/// Most models that are listed of one folder.
const MAX_MODELS: usize = 1000;

/// Most bytes of a manifest of Ollama.
const MAX_MANIFEST_BYTES: u64 = 256 << 10;

/// A folder with models that other programs may own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The program, or [`Source::Folder`].
    pub source: Source,
    /// The folder; it may not exist.
    pub folder: PathBuf,
}

/// A model in a folder of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForeignModel {
    pub path: PathBuf,
    /// The canonical path.
    pub canonical: PathBuf,
    pub source: Source,
    /// Its name in the program. `None` means that the file's name is used.
    pub name: Option<String>,
}

impl Place {
    /// The folders of other programs, from the programs' environment variables or else at their
    /// default locations.
    pub fn of_programs() -> Vec<Self> {
        let set = |variable| {
            env::var_os(variable)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let home = home();
        let at_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let data = |name: &str| match () {
            () if cfg!(windows) => set("APPDATA").map(|folder| folder.join(name)),
            () if cfg!(target_os = "macos") => at_home("Library/Application Support").map(|folder| folder.join(name)),
            () => set("XDG_DATA_HOME")
                .or_else(|| at_home(".local/share"))
                .map(|folder| folder.join(name)),
        };
        let cache = |name: &str| match () {
            () if cfg!(windows) => set("LOCALAPPDATA").map(|folder| folder.join(name)),
            () if cfg!(target_os = "macos") => at_home("Library/Caches").map(|folder| folder.join(name)),
            () => set("XDG_CACHE_HOME")
                .or_else(|| at_home(".cache"))
                .map(|folder| folder.join(name)),
        };
        let hub = set("HF_HUB_CACHE").or_else(|| hugging_face_home().map(|home| home.join("hub")));
        let studio = at_home(".lmstudio-home-pointer")
            .filter(|pointer| fs::metadata(pointer).is_ok_and(|metadata| metadata.len() < 4096))
            .and_then(|pointer| fs::read_to_string(pointer).ok())
            .map(|path| PathBuf::from(path.trim()))
            .or_else(|| at_home(".lmstudio"));
        let ollama = set("OLLAMA_MODELS").or_else(|| at_home(".ollama/models"));
        [
            (Source::HuggingFace, hub),
            (Source::LmStudio, studio.map(|folder| folder.join("models"))),
            (Source::LmStudio, at_home(".cache/lm-studio/models")),
            (Source::Ollama, ollama),
            // The user `ollama`, which Ollama's Linux installer creates.
            (
                Source::Ollama,
                cfg!(target_os = "linux").then(|| "/usr/share/ollama/.ollama/models".into()),
            ),
            (
                Source::Jan,
                data("Jan").map(|folder| folder.join("data/llamacpp/models")),
            ),
            (Source::LlamaCpp, set("LLAMA_CACHE").or_else(|| cache("llama.cpp"))),
        ]
        .into_iter()
        .filter_map(|(source, folder)| folder.map(|folder| Self { source, folder }))
        .collect()
    }

    /// The models in it, sorted by path.
    pub(super) fn models(&self) -> Vec<ForeignModel> {
        let mut models = match self.source {
            Source::Ollama => self.ollama(),
            _ => self.files(),
        };
        models.sort_by(|a, b| a.path.cmp(&b.path));
        models.truncate(MAX_MODELS);
        models
    }

    fn files(&self) -> Vec<ForeignModel> {
        let mut walk = Walk::new(is_model);
        walk.folder(&self.folder, MAX_DEPTH);
        let mut seen = HashSet::new();
        walk.files
            .into_iter()
            .filter(|path| is_first_part(path))
            .filter_map(|path| Some((fs::canonicalize(&path).ok()?, path)))
            // Several snapshots of the Hugging Face cache link to one file.
            .filter(|(canonical, _)| seen.insert(canonical.clone()))
            .map(|(canonical, path)| ForeignModel {
                canonical,
                // In Jan every file is named `model.gguf`, and its folder has the model's name.
                name: (path.file_stem().is_some_and(|stem| stem == "model"))
                    .then(|| path.parent()?.file_name()?.to_str().map(str::to_owned))
                    .flatten(),
                source: self.source,
                path,
            })
            .collect()
    }

    /// The models of Ollama's manifests: `manifests/HOST/OWNER/NAME/TAG` names blobs by their
    /// hashes.
    fn ollama(&self) -> Vec<ForeignModel> {
        let manifests = self.folder.join("manifests");
        let mut walk = Walk::new(|_| true);
        walk.folder(&manifests, MAX_DEPTH);
        let read_manifest = |manifest: PathBuf| {
            let is_small = fs::metadata(&manifest).is_ok_and(|metadata| metadata.len() <= MAX_MANIFEST_BYTES);
            let text = fs::read(&manifest).ok().filter(|_| is_small)?;
            let parsed: Manifest = serde_json::from_slice(&text).ok()?;
            let (_, hash) = parsed.model()?;
            let path = self.folder.join("blobs").join(format!("sha256-{hash}"));
            let canonical = fs::canonicalize(&path).ok().filter(|canonical| canonical.is_file())?;
            let names: Vec<&str> = manifest
                .strip_prefix(&manifests)
                .ok()?
                .iter()
                .filter_map(|name| name.to_str())
                .collect();
            let name = match names[..] {
                [_, "library", name, tag] => format!("{name}:{tag}"),
                [_, owner, name, tag] => format!("{owner}/{name}:{tag}"),
                _ => return None,
            };
            Some(ForeignModel {
                path,
                canonical,
                source: Source::Ollama,
                name: Some(name),
            })
        };
        let mut seen = HashSet::new();
        let models = walk.files.into_iter().filter_map(read_manifest);
        // Several tags may name one file.
        models.filter(|model| seen.insert(model.path.clone())).collect()
    }
}

/// Whether a file name has the extension of a model and is not a projector's.
fn is_model(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.ends_with(".gguf") && !name.contains("mmproj")
}

/// A bounded search for files. Links to folders are not followed, so that it terminates.
struct Walk {
    is_wanted: fn(&Path) -> bool,
    files: Vec<PathBuf>,
    entries: usize,
}

/// Whether a folder is skipped: a hidden one, which may have unfinished files, or a folder of the
/// Hugging Face cache for datasets, spaces or blobs.
fn is_skipped(name: &str) -> bool {
    name.starts_with('.') || name.starts_with("datasets--") || name.starts_with("spaces--") || name == "blobs"
}

impl Walk {
    fn new(is_wanted: fn(&Path) -> bool) -> Self {
        Self {
            is_wanted,
            files: Vec::new(),
            entries: 0,
        }
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && is_skipped(&entry.file_name().to_string_lossy()) => {}
                Ok(kind) if kind.is_dir() && depth > 1 => self.folder(&entry.path(), depth - 1),
                Ok(kind) if kind.is_file() || kind.is_symlink() => {
                    self.files
                        .extend(Some(entry.path()).filter(|path| (self.is_wanted)(path)));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn names(source: Source, folder: &Path) -> Vec<(String, Option<String>)> {
        let place = Place {
            source,
            folder: folder.to_owned(),
        };
        let relative = |path: PathBuf| {
            path.strip_prefix(folder)
                .expect("inside")
                .to_string_lossy()
                .replace('\\', "/")
        };
        place
            .models()
            .into_iter()
            .map(|model| (relative(model.path), model.name))
            .collect()
    }

    #[test]
    fn nested_files_are_found_and_projectors_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [
            "owner/repo/a.Q4.gguf",
            "owner/repo/mmproj-a.gguf",
            "owner/repo/b-00001-of-00002.gguf",
            "owner/repo/b-00002-of-00002.gguf",
            "owner/repo/notes.txt",
            "qwen/model.gguf",
            "1/2/3/4/5/6/deep.gguf",
        ] {
            write(folder.path(), path, "");
        }
        let expected = [
            ("owner/repo/a.Q4.gguf".to_owned(), None),
            ("owner/repo/b-00001-of-00002.gguf".to_owned(), None),
            ("qwen/model.gguf".to_owned(), Some("qwen".to_owned())),
        ];
        assert_eq!(names(Source::Jan, folder.path()), expected);
        assert_eq!(names(Source::Jan, &folder.path().join("nowhere")), []);
    }

    #[cfg(unix)]
    #[test]
    fn snapshots_that_link_to_one_blob_are_one_model() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "models--o--n/blobs/abc", "");
        for snapshot in ["1", "2"] {
            let path = folder.path().join("models--o--n/snapshots").join(snapshot);
            fs::create_dir_all(&path).expect("a folder");
            std::os::unix::fs::symlink("../../blobs/abc", path.join("m.gguf")).expect("a link");
        }
        // A circle of links.
        std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).expect("a link");
        assert_eq!(names(Source::HuggingFace, folder.path()).len(), 1);
    }

    #[test]
    fn manifests_of_ollama_name_blobs() {
        let folder = tempfile::tempdir().expect("a folder");
        let hash = "ab".repeat(32);
        let manifest = |hash: &str| {
            format!(
                r#"{{"schemaVersion": 2, "layers": [
                    {{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:00", "size": 1}},
                    {{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:{hash}", "size": 4}}]}}"#
            )
        };
        write(folder.path(), &format!("blobs/sha256-{hash}"), "GGUF");
        let root = "manifests/registry.ollama.ai";
        write(folder.path(), &format!("{root}/library/tiny/latest"), &manifest(&hash));
        write(folder.path(), &format!("{root}/library/tiny/1b"), &manifest(&hash));
        write(
            folder.path(),
            &format!("{root}/me/gone/latest"),
            &manifest(&"cd".repeat(32)),
        );
        write(
            folder.path(),
            &format!("{root}/me/evil/latest"),
            &manifest("../../../etc/passwd"),
        );
        write(folder.path(), &format!("{root}/me/broken/latest"), "{");
        let actual = names(Source::Ollama, folder.path());
        assert_eq!(actual.len(), 1, "{actual:?}");
        assert_eq!(actual[0].0, format!("blobs/sha256-{hash}"));
        assert!(actual[0].1.as_deref().is_some_and(|name| name.starts_with("tiny:")));
    }
}

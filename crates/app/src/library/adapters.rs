//! Adapters that Hearth downloaded, in a separate folder.

use super::{
    Library, LibraryError, Model,
    download::{ORIGIN, origin, remove_origin},
    hub::{Kind, Origin},
};
use crate::{inside::inside, wire::Problem};
use hearth_formats::adapter::{AdapterHeader, Fingerprint, PEFT_CONFIG, PEFT_TENSORS};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Deepest folder that is searched: owner, repository, commit, and the repository's own folders.
const MAX_DEPTH: usize = 8;

/// Most directory entries that are read.
const MAX_ENTRIES: usize = 20_000;

/// Words in file names that are not part of the model's name.
const NOISE: [&str; 7] = ["gguf", "bnb", "4bit", "8bit", "unsloth", "hf", "fp16"];

/// An adapter that Hearth downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnAdapter {
    /// The GGUF file, or the folder of a PEFT adapter.
    pub path: PathBuf,
    /// Display name until the user renames it.
    pub name: String,
    /// Its origin.
    pub origin: Origin,
}

impl Library {
    /// The headers of adapters, or the reason for failure, in order.
    pub fn adapter_headers(&self, paths: &[PathBuf]) -> Vec<Result<AdapterHeader, Problem>> {
        self.headers.get(paths)
    }

    /// The fingerprint of a model, as adapters record it.
    pub fn fingerprint(&self, model: &Path) -> Result<Fingerprint, Problem> {
        self.headers.fingerprint(model)
    }

    /// The origin of an adapter, if Hearth downloaded it and owns its files.
    pub fn adapter_origin(&self, path: &Path) -> Option<Origin> {
        let is_own = inside(path, &self.adapters).is_some();
        origin(&first_file(path)).filter(|_| is_own)
    }

    /// The completely downloaded adapters.
    pub fn own_adapters(&self) -> Vec<OwnAdapter> {
        let mut records = Vec::new();
        let mut remaining_entries = MAX_ENTRIES;
        collect(&self.adapters, MAX_DEPTH, &mut remaining_entries, &mut records);
        records.sort();
        let adapter = |record: PathBuf| {
            let name = record.file_name()?.to_str()?.strip_suffix(ORIGIN)?.to_owned();
            let first = record.with_file_name(&name);
            let kind = if name == PEFT_CONFIG {
                Kind::PeftAdapter
            } else {
                Kind::GgufAdapter
            };
            first.is_file().then_some(())?;
            let path = path_of(&first, kind);
            Some(OwnAdapter {
                name: self.adapter_name(&path)?,
                origin: origin(&first)?,
                path,
            })
        };
        records.into_iter().filter_map(adapter).collect()
    }

    /// The display name of an adapter: the name of a GGUF file, or the repository's name and the
    /// subfolder.
    fn adapter_name(&self, path: &Path) -> Option<String> {
        let inside = path.strip_prefix(&self.adapters).ok()?;
        let mut parts = inside.iter().map(|part| part.to_string_lossy());
        let (_owner, repository, _commit) = (parts.next()?, parts.next()?, parts.next()?);
        let rest: Vec<_> = parts.collect();
        Some(match rest.join("/") {
            // The name of a GGUF file is more specific than its repository's.
            file if !path.is_dir() => file.trim_end_matches(".gguf").to_owned(),
            subfolder if subfolder.is_empty() => repository.into_owned(),
            subfolder => format!("{repository} {subfolder}"),
        })
    }

    /// Deletes the files of an adapter that Hearth downloaded, and folders that are empty then.
    /// Other files stay.
    ///
    /// # Errors
    /// A file cannot be deleted.
    pub fn delete_adapter(&self, path: &Path) -> Result<(), LibraryError> {
        if self.adapter_origin(path).is_none() {
            return Ok(());
        }
        let first = first_file(path);
        let failed = |path: &Path, source| LibraryError::Delete {
            path: path.to_owned(),
            source,
        };
        for file in files(path).into_iter().rev() {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&file, error)),
                _ => {}
            }
        }
        remove_origin(&first).map_err(|error| failed(&first, error))?;
        for folder in first.ancestors().skip(1) {
            if folder == self.adapters || !folder.starts_with(&self.adapters) || fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// The path of an adapter or model with this first file: the folder of a PEFT adapter, else the
/// file.
pub(crate) fn path_of(first: &Path, kind: Kind) -> PathBuf {
    match (kind, first.parent()) {
        (Kind::PeftAdapter, Some(folder)) => folder.to_owned(),
        _ => first.to_owned(),
    }
}

/// Size of an adapter's files in bytes.
pub(crate) fn size(path: &Path) -> u64 {
    let sizes = files(path).into_iter().filter_map(|file| fs::metadata(file).ok());
    sizes.map(|metadata| metadata.len()).fold(0, u64::saturating_add)
}

/// Whether one of a model's names is the name of an adapter's base.
pub(crate) fn is_named(model: &Model, base: &str) -> bool {
    let base = normalized(base.rsplit('/').next().unwrap_or(base));
    let stem = model.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let metadata_name = model.metadata.as_ref().ok().and_then(|metadata| metadata.name.clone());
    let source = model.origin.as_ref().map(|origin| origin.source.as_str());
    let source = source.and_then(|source| source.strip_prefix("hf.co/")?.split(['/', ':']).nth(1));
    let entry = model.entry.map(|entry| entry.id.as_str());
    let names = [
        Some(model.name.as_str()),
        stem.as_deref(),
        metadata_name.as_deref(),
        source,
        entry,
    ];
    !base.is_empty() && names.into_iter().flatten().any(|name| normalized(name) == base)
}

/// A model's name in lower-case letters and digits, without its quantization and other words of
/// file names.
fn normalized(name: &str) -> String {
    let quantization = super::hub::quantization(&format!("{name}.gguf")).unwrap_or_default();
    let lower = name.to_lowercase();
    let name = if quantization.is_empty() {
        lower
    } else {
        lower.replace(&quantization.to_lowercase(), "-")
    };
    let words = name.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !NOISE.contains(word)).collect()
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        [PEFT_CONFIG, PEFT_TENSORS].map(|name| path.join(name)).into()
    } else {
        vec![path.to_owned()]
    }
}

fn first_file(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join(PEFT_CONFIG)
    } else {
        path.to_owned()
    }
}

/// Collects the records of origins in a folder and its subfolders. Links are not followed.
fn collect(folder: &Path, depth: usize, remaining_entries: &mut usize, records: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(remaining) = remaining_entries.checked_sub(1) else {
            return;
        };
        *remaining_entries = remaining;
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, remaining_entries, records);
        } else if kind.is_file() && entry.file_name().to_string_lossy().ends_with(ORIGIN) {
            records.push(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_model_are_equal() {
        for (left, right) in [
            ("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct.Q4_1"),
            ("SmolLM2-135M-Instruct", "Smollm2 135M Instruct"),
            ("Qwen3-0.6B", "Qwen3-0.6B-UD-Q4_K_XL"),
            ("Qwen3-8B-unsloth-bnb-4bit", "Qwen3-8B-GGUF"),
        ] {
            assert_eq!(normalized(left), normalized(right), "{left} {right}");
        }
        assert_ne!(normalized("Qwen3-0.6B"), normalized("Qwen3-6B"));
        assert_ne!(normalized("Qwen3-0.6B"), normalized("Qwen3-0.6B-Base"));
        assert_eq!(normalized("GGUF"), "");
    }
}

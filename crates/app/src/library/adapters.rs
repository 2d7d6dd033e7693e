//! Adapters that Hearth downloaded, in a separate folder.

use super::{
    Library, LibraryError, Model,
    download::{ORIGIN, origin, remove_origin},
    hub::{Kind, Origin},
};
use crate::inside::inside;
use hearth_formats::adapter::{AdapterHeader, Fingerprint, PEFT_CONFIG, PEFT_TENSORS};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Deepest folder that is searched: owner, repository, commit, and the repository's own folders.
const MAX_DEPTH: usize = 8;

/// Most entries of the folder that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// Words in the names of files that do not name the model.
const NOISE: [&str; 7] = ["gguf", "bnb", "4bit", "8bit", "unsloth", "hf", "fp16"];

/// An adapter that Hearth downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnAdapter {
    /// File, or folder of PEFT's.
    pub path: PathBuf,
    /// Display name until the user renames it.
    pub name: String,
    /// Where it was downloaded from.
    pub origin: Origin,
}

impl Library {
    /// The headers of adapters, or a sentence with the reason for failure, in order.
    pub fn adapter_headers(&self, paths: &[PathBuf]) -> Vec<Result<AdapterHeader, String>> {
        self.headers.get(paths)
    }

    /// The fingerprint of a model, as adapters record it.
    pub fn fingerprint(&self, model: &Path) -> Result<Fingerprint, String> {
        self.headers.fingerprint(model)
    }

    /// Where an adapter was downloaded from, if Hearth did it and owns its files.
    pub fn adapter_origin(&self, path: &Path) -> Option<Origin> {
        let is_own = inside(path, &self.adapters).is_some();
        origin(&first_file(path)).filter(|_| is_own)
    }

    /// The adapters that Hearth downloaded, completely.
    pub fn own_adapters(&self) -> Vec<OwnAdapter> {
        let mut records = Vec::new();
        let mut left = MAX_ENTRIES;
        collect(&self.adapters, MAX_DEPTH, &mut left, &mut records);
        records.sort();
        let own = |record: PathBuf| {
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
        records.into_iter().filter_map(own).collect()
    }

    /// The name of the repository, and what of its path says more.
    fn adapter_name(&self, path: &Path) -> Option<String> {
        let inside = path.strip_prefix(&self.adapters).ok()?;
        let mut parts = inside.iter().map(|part| part.to_string_lossy());
        let (_owner, repository, _commit) = (parts.next()?, parts.next()?, parts.next()?);
        let rest: Vec<_> = parts.collect();
        Some(match rest.join("/") {
            // A GGUF file says more than its repository.
            file if !path.is_dir() => file.trim_end_matches(".gguf").to_owned(),
            rest if rest.is_empty() => repository.into_owned(),
            rest => format!("{repository} {rest}"),
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

/// The path of an adapter whose first file this is; of a model, the file.
pub(crate) fn path_of(first: &Path, kind: Kind) -> PathBuf {
    match (kind, first.parent()) {
        (Kind::PeftAdapter, Some(folder)) => folder.to_owned(),
        _ => first.to_owned(),
    }
}

/// Size of an adapter's files in bytes.
pub(crate) fn size(path: &Path) -> u64 {
    let sizes = files(path).into_iter().filter_map(|file| fs::metadata(file).ok());
    sizes.map(|about| about.len()).fold(0, u64::saturating_add)
}

/// Whether one of a model's names is the name of an adapter's base.
pub(crate) fn is_named(model: &Model, base: &str) -> bool {
    let base = bare(base.rsplit('/').next().unwrap_or(base));
    let stem = model.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let inside = model.metadata.as_ref().ok().and_then(|metadata| metadata.name.clone());
    let source = model.origin.as_ref().map(|origin| origin.source.as_str());
    let source = source.and_then(|source| source.strip_prefix("hf.co/")?.split(['/', ':']).nth(1));
    let entry = model.entry.map(|entry| entry.id.as_str());
    let names = [
        Some(model.name.as_str()),
        stem.as_deref(),
        inside.as_deref(),
        source,
        entry,
    ];
    !base.is_empty() && names.into_iter().flatten().any(|name| bare(name) == base)
}

/// A model's name in small letters and digits, without its quantization and other words of files.
fn bare(name: &str) -> String {
    let quantization = super::hub::quantization(&format!("{name}.gguf")).unwrap_or_default();
    let lower = name.to_lowercase();
    let without = lower.replace(&quantization.to_lowercase(), "-");
    let whole = if quantization.is_empty() { lower } else { without };
    let words = whole.split(|c: char| !c.is_alphanumeric());
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

/// Collects the records of origins below a folder; follows no links.
fn collect(folder: &Path, depth: usize, left: &mut usize, records: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, left, records);
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
        for (one, other) in [
            ("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct.Q4_1"),
            ("SmolLM2-135M-Instruct", "Smollm2 135M Instruct"),
            ("Qwen3-0.6B", "Qwen3-0.6B-UD-Q4_K_XL"),
            ("Qwen3-8B-unsloth-bnb-4bit", "Qwen3-8B-GGUF"),
        ] {
            assert_eq!(bare(one), bare(other), "{one} {other}");
        }
        assert_ne!(bare("Qwen3-0.6B"), bare("Qwen3-6B"));
        assert_ne!(bare("Qwen3-0.6B"), bare("Qwen3-0.6B-Base"));
        assert_eq!(bare("GGUF"), "");
    }
}

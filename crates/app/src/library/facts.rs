//! What a model's file says of itself, read once as long as the file stays the same.

use hearth_formats::gguf::Gguf;
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

/// What a GGUF file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The model's own name.
    pub name: Option<String>,
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// The file's quantisation, as people call it.
    pub quantization: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes.
    pub file_size: u64,
    /// Context in tokens that the model was trained for; 0 where the file does not say.
    pub context_trained: u32,
}

/// The name of a model: its own, or the file's.
pub(super) fn name(facts: &Result<Facts, String>, stem: String) -> String {
    match facts {
        Ok(Facts { name: Some(name), .. }) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => stem,
    }
}

/// Facts by path, kept while the file's size and time stay the same.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<PathBuf, Kept>>);

#[derive(Debug)]
struct Kept {
    size: u64,
    changed: Option<SystemTime>,
    facts: Result<Facts, String>,
}

impl Cache {
    /// The facts of a file, or a sentence on why they cannot be had.
    pub(super) fn of(&self, path: &Path) -> Result<Facts, String> {
        let about = fs::metadata(path).map_err(|error| {
            format!(
                "{} cannot be read: {error}. It may have been moved or deleted.",
                path.display()
            )
        })?;
        let (size, changed) = (about.len(), about.modified().ok());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept
            .get(path)
            .filter(|known| known.size == size && known.changed == changed)
        {
            return known.facts.clone();
        }
        let facts = read(path);
        kept.insert(
            path.to_owned(),
            Kept {
                size,
                changed,
                facts: facts.clone(),
            },
        );
        facts
    }
}

fn read(path: &Path) -> Result<Facts, String> {
    let gguf = Gguf::open(path).map_err(|error| error.to_string())?;
    let architecture = gguf.architecture().map_err(|error| error.to_string())?.to_owned();
    // What only describes is not worth refusing a model for.
    let context = gguf.u64(&format!("{architecture}.context_length")).ok().flatten();
    Ok(Facts {
        name: gguf.str("general.name").ok().flatten().map(str::to_owned),
        quantization: gguf.quantization().to_string(),
        parameters: gguf.parameter_count(),
        file_size: gguf.file_size(),
        context_trained: context.map_or(0, |tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        architecture,
    })
}

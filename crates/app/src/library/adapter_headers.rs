//! The headers of adapters, and the fingerprints of models that are compared with them, in memory.
//! An entry is valid while its files are unchanged.

use super::{
    metadata_cache::{Reader, Stamp, not_read},
    probe::{ProbeRequest, ProbeResponse},
};
use crate::{lock::lock, wire::Problem};
use hearth_formats::{
    adapter::{AdapterHeader, Fingerprint, PEFT_CONFIG, PEFT_MANIFEST, PEFT_TENSORS},
    gguf::part_files,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Most entries of a kind. The map is cleared when it is full.
const MAX_ENTRIES: usize = 4096;

/// The files of a PEFT folder.
const PEFT_FILES: [&str; 3] = [PEFT_CONFIG, PEFT_TENSORS, PEFT_MANIFEST];

/// The stamps of all files of an entry; `None` means a missing file.
type Stamps = Vec<Option<Stamp>>;

/// The results of reading, by path.
type Entries<T> = Mutex<HashMap<PathBuf, (Stamps, Result<T, Problem>)>>;

/// The cache.
#[derive(Debug)]
pub(super) struct AdapterHeaders {
    reader: Reader,
    headers: Entries<AdapterHeader>,
    fingerprints: Entries<Fingerprint>,
}

impl AdapterHeaders {
    pub fn new(reader: Reader) -> Self {
        Self {
            reader,
            headers: Mutex::default(),
            fingerprints: Mutex::default(),
        }
    }

    /// The headers of adapters, or the reason for failure, in order. Those that are not cached are
    /// read in one process.
    pub fn get(&self, paths: &[PathBuf]) -> Vec<Result<AdapterHeader, Problem>> {
        let request = |path: &Path| ProbeRequest::AdapterHeader { path: path.to_owned() };
        let unwrap = |response| match response {
            ProbeResponse::AdapterHeader(header) => Some(header),
            _ => None,
        };
        let files = |path: &Path| {
            if path.is_dir() {
                PEFT_FILES.map(|name| path.join(name)).into()
            } else {
                vec![path.to_owned()]
            }
        };
        self.read(&self.headers, paths, files, request, unwrap)
    }

    /// The fingerprint of a model; reads samples of all its tensors.
    pub fn fingerprint(&self, model: &Path) -> Result<Fingerprint, Problem> {
        let request = |path: &Path| ProbeRequest::Fingerprint { path: path.to_owned() };
        let unwrap = |response| match response {
            ProbeResponse::Fingerprint(fingerprint) => Some(fingerprint),
            _ => None,
        };
        let paths = [model.to_owned()];
        let fingerprint = self.read(&self.fingerprints, &paths, part_files, request, unwrap).pop();
        fingerprint.unwrap_or_else(|| Err(not_read(model)))
    }

    fn read<T: Clone>(
        &self,
        entries: &Entries<T>,
        paths: &[PathBuf],
        files: impl Fn(&Path) -> Vec<PathBuf>,
        request: impl Fn(&Path) -> ProbeRequest,
        unwrap: impl Fn(ProbeResponse) -> Option<T>,
    ) -> Vec<Result<T, Problem>> {
        let stamp = |path: &PathBuf| files(path).iter().map(|file| Stamp::from_path(file).ok()).collect();
        let stamps: Vec<Stamps> = paths.iter().map(stamp).collect();
        let cached = |index: usize| {
            let entries = lock(entries);
            let (saved_stamps, result) = entries.get(&paths[index])?;
            (*saved_stamps == stamps[index]).then(|| result.clone())
        };
        let mut results: Vec<Option<Result<T, Problem>>> = (0..paths.len()).map(cached).collect();
        let missing: Vec<usize> = (0..paths.len()).filter(|&index| results[index].is_none()).collect();
        if missing.is_empty() {
            return results.into_iter().flatten().collect();
        }
        let requests: Vec<ProbeRequest> = missing.iter().map(|&index| request(&paths[index])).collect();
        for (&index, response) in missing.iter().zip(self.reader.run(&requests)) {
            let is_temporary = response.as_ref().is_err_and(|error| error.temporary);
            let result = match response {
                Ok(ProbeResponse::Problem(problem)) => Err(problem),
                Ok(response) => unwrap(response).ok_or_else(|| not_read(&paths[index])),
                Err(error) => Err(error.problem),
            };
            results[index] = Some(result.clone());
            if !is_temporary {
                let mut entries = lock(entries);
                if entries.len() >= MAX_ENTRIES {
                    entries.clear();
                }
                entries.insert(paths[index].clone(), (stamps[index].clone(), result));
            }
        }
        let results = results.into_iter().zip(paths);
        results
            .map(|(result, path)| result.unwrap_or_else(|| Err(not_read(path))))
            .collect()
    }
}

//! The headers of adapters, and the fingerprints of models that are compared with them, in memory.
//! An entry is valid while its files are unchanged.

use super::{
    metadata_cache::{Reader, Stamp},
    probe::{ProbeRequest, ProbeResponse},
};
use crate::lock::lock;
use hearth_formats::{
    adapter::{AdapterHeader, Fingerprint, PEFT_CONFIG, PEFT_MANIFEST, PEFT_TENSORS},
    gguf::part_files,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Most entries of a kind; with more, they are cleared.
const MAX_ENTRIES: usize = 4096;

/// The files of a PEFT folder.
const PEFT_FILES: [&str; 3] = [PEFT_CONFIG, PEFT_TENSORS, PEFT_MANIFEST];

/// The stamps of all files of an entry; `None` means a missing file.
type Stamps = Vec<Option<Stamp>>;

/// The results of reading, by path.
type Entries<T> = Mutex<HashMap<PathBuf, (Stamps, Result<T, String>)>>;

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

    /// The headers of adapters, or a sentence with the reason for failure, in order. Those that are
    /// not cached are read in one process.
    pub fn get(&self, paths: &[PathBuf]) -> Vec<Result<AdapterHeader, String>> {
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
    pub fn fingerprint(&self, model: &Path) -> Result<Fingerprint, String> {
        let request = |path: &Path| ProbeRequest::Fingerprint { path: path.to_owned() };
        let unwrap = |response| match response {
            ProbeResponse::Fingerprint(fingerprint) => Some(fingerprint),
            _ => None,
        };
        let paths = [model.to_owned()];
        let one = self.read(&self.fingerprints, &paths, part_files, request, unwrap).pop();
        one.unwrap_or_else(|| Err(unread(model)))
    }

    fn read<T: Clone>(
        &self,
        entries: &Entries<T>,
        paths: &[PathBuf],
        files: impl Fn(&Path) -> Vec<PathBuf>,
        request: impl Fn(&Path) -> ProbeRequest,
        unwrap: impl Fn(ProbeResponse) -> Option<T>,
    ) -> Vec<Result<T, String>> {
        let stamp = |path: &PathBuf| files(path).iter().map(|file| Stamp::from_path(file).ok()).collect();
        let stamps: Vec<Stamps> = paths.iter().map(stamp).collect();
        let known = |at: usize| {
            let entries = lock(entries);
            let (saved, read) = entries.get(&paths[at])?;
            (*saved == stamps[at]).then(|| read.clone())
        };
        let mut all: Vec<Option<Result<T, String>>> = (0..paths.len()).map(known).collect();
        let missing: Vec<usize> = (0..paths.len()).filter(|&at| all[at].is_none()).collect();
        if missing.is_empty() {
            return all.into_iter().flatten().collect();
        }
        let requests: Vec<ProbeRequest> = missing.iter().map(|&at| request(&paths[at])).collect();
        for (&at, response) in missing.iter().zip(self.reader.run(&requests)) {
            let is_temporary = response.as_ref().is_err_and(|failed| failed.temporary);
            let read = match response {
                Ok(ProbeResponse::Problem(why)) => Err(why),
                Ok(response) => unwrap(response).ok_or_else(|| unread(&paths[at])),
                Err(failed) => Err(failed.message),
            };
            all[at] = Some(read.clone());
            if !is_temporary {
                let mut entries = lock(entries);
                if entries.len() >= MAX_ENTRIES {
                    entries.clear();
                }
                entries.insert(paths[at].clone(), (stamps[at].clone(), read));
            }
        }
        let read = all.into_iter().zip(paths);
        read.map(|(read, path)| read.unwrap_or_else(|| Err(unread(path))))
            .collect()
    }
}

fn unread(path: &Path) -> String {
    format!("{} was not read. Try again.", path.display())
}

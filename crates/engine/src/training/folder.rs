//! The folder of a run.
//!
//! `run.json` has the inputs and settings, `log.jsonl` the steps, `checkpoint.safetensors` (of
//! `hearth-train`) the state to resume from, and `adapter/` the result: a PEFT folder with a
//! manifest. All of them are written with [`hearth_formats::durable`], so that a run can be resumed
//! after a kill at any time.

use crate::numbers::saturating_u32;
use crate::problem::{disk, from_adapter, internal};
use hearth_formats::adapter::{
    AdapterError, AdapterFile, AdapterManifest, BaseId, BaseShape, Fit, LoraTensors, PEFT_CONFIG, PEFT_MANIFEST,
    PEFT_TENSORS, TargetName, UnmatchedEntries,
};
use hearth_formats::{durable, read_regular};
use hearth_llm::LoraPart;
use hearth_protocol::{DataSource, LoadReason, Notice, Problem, ProblemCode, StepReport, TrainingReason};
use hearth_train::Settings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The inputs and settings of a run (`run.json`). New fields need `#[serde(default)]`, as in
/// [`Settings`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// The base model's file.
    pub model: PathBuf,
    /// Identity of the base model. `None` in runs of early versions.
    #[serde(default)]
    pub base: Option<BaseId>,
    /// The dataset.
    pub data: DataSource,
    /// The adapter to start from. Not recorded in runs of early versions.
    #[serde(default)]
    pub init: Option<PathBuf>,
    /// The settings, with the chosen values of automatic ones.
    pub settings: Settings,
    /// Maximum sequence length in tokens.
    pub sequence: u32,
    /// Validation split, as a fraction of the examples.
    pub eval_split: f32,
    /// Whether prompts are in the loss.
    pub train_on_prompts: bool,
    /// System prompt of conversations that have none. Runs of early versions do not have this
    /// field; they used the default of the chat template.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Prompts for the verification of exports: of validation examples, or of training examples if
    /// there is no validation split.
    pub prompts: Vec<Vec<u32>>,
}

impl RunFile {
    /// Reads the run of an adapter. The path is a run's folder or its `adapter` folder.
    pub fn from_adapter_path(adapter: &Path) -> Option<Self> {
        let folders = [Some(adapter), adapter.parent()];
        folders
            .into_iter()
            .flatten()
            .find_map(|folder| RunFolder(folder.to_owned()).read())
    }
}

const RUN: &str = "run.json";
/// Maximum size of `run.json`, which may come with an adapter from elsewhere.
const MAX_RUN_BYTES: u64 = 16 << 20;
const LOG: &str = "log.jsonl";
const LOCK: &str = ".lock";

/// Time to wait for the run's previous worker to exit.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The files of an adapter's folder.
const ADAPTER_FILES: [&str; 3] = [PEFT_CONFIG, PEFT_TENSORS, PEFT_MANIFEST];

pub(super) fn is_adapter_file(name: &OsStr) -> bool {
    ADAPTER_FILES.iter().any(|file| *file == name)
}

/// Whether a file was created by a file manager or a network file system.
fn is_system_file(name: &OsStr) -> bool {
    let names = [".DS_Store", ".directory", "desktop.ini", "Thumbs.db"];
    names.iter().any(|file| *file == name) || name.to_string_lossy().starts_with(".nfs")
}

/// The names in a folder, without system files. Empty if the folder does not exist.
pub(super) fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    let names = |entries: fs::ReadDir| entries.map(|entry| entry.map(|entry| entry.file_name()));
    match fs::read_dir(folder) {
        Ok(entries) => names(entries)
            .filter(|name| name.as_ref().is_ok_and(|name| !is_system_file(name)) || name.is_err())
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A run's folder.
#[derive(Debug, Clone)]
pub struct RunFolder(pub PathBuf);

impl RunFolder {
    /// Path of the adapter. After a kill during its replacement, the path of the complete one.
    pub fn adapter(&self) -> PathBuf {
        durable::intact_folder(&self.0.join("adapter"))
    }

    /// Reads `run.json`. `None` if it is missing or unreadable.
    pub fn read(&self) -> Option<RunFile> {
        let text = read_regular(&self.0.join(RUN), MAX_RUN_BYTES).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Reads the run to resume with this base model. `None` if the folder has no run.
    ///
    /// # Errors
    /// `run.json` is unreadable, from a newer version, or missing although there is a checkpoint;
    /// or the run has another base model.
    pub(super) fn run_to_resume(&self, base: &BaseId) -> Result<Option<RunFile>, Problem> {
        let (path, folder) = (self.0.join(RUN), self.0.display().to_string());
        let refused = |reason: TrainingReason| Err(Problem::new(ProblemCode::BadRequest, reason));
        let unreadable = |error: &dyn std::fmt::Display| {
            refused(TrainingReason::RunUnreadable {
                folder: folder.clone(),
                detail: error.to_string(),
            })
        };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return match hearth_train::latest_checkpoint(&self.0) {
                    None => Ok(None),
                    Some(_) => refused(TrainingReason::RunFileMissing { folder }),
                };
            }
            Err(error) => return unreadable(&error),
        };
        let run: RunFile = match serde_json::from_slice(&text) {
            Ok(run) => run,
            Err(error) => return unreadable(&error),
        };
        if run.settings.version > Settings::VERSION {
            return refused(TrainingReason::RunNewer {
                folder,
                version: run.settings.version,
                supported: Settings::VERSION,
            });
        }
        match run.base.as_ref().and_then(|run_base| run_base.mismatch(base)) {
            None => Ok(Some(run)),
            Some(detail) => refused(TrainingReason::RunOfOtherModel { folder, detail }),
        }
    }

    /// The loss of each step in the log. A step that is repeated after a resume replaces the former
    /// one and all steps after it.
    pub fn losses(&self) -> Vec<f64> {
        let text = fs::read_to_string(self.0.join(LOG)).unwrap_or_default();
        let steps = text
            .lines()
            .filter_map(|line| serde_json::from_str::<StepReport>(line).ok());
        let mut by_step = BTreeMap::new();
        for step in steps {
            by_step.split_off(&step.step);
            by_step.insert(step.step, step.loss);
        }
        by_step.into_values().collect()
    }

    /// Returns an error if the folder already has files with the names of a run's files.
    pub(super) fn check_unused(&self) -> Result<(), Problem> {
        let checkpoint = hearth_train::latest_checkpoint(&self.0);
        let files = [RUN, LOG].map(|name| self.0.join(name)).into_iter();
        match files
            .chain([self.adapter()])
            .chain(checkpoint)
            .find(|path| path.exists())
        {
            None => Ok(()),
            Some(path) => {
                let (folder, path) = (self.0.display().to_string(), path.display().to_string());
                let reason = TrainingReason::FolderInUse { folder, path };
                Err(Problem::new(ProblemCode::BadRequest, reason))
            }
        }
    }

    /// Returns an error if the folder `adapter` has files other than an adapter's, since the folder
    /// is replaced as a whole.
    pub(super) fn check_adapter(&self) -> Result<(), Problem> {
        let folder = self.adapter();
        let names = names(&folder).map_err(|error| disk(&folder, &error))?;
        match names.iter().find(|name| !is_adapter_file(name)) {
            None => Ok(()),
            Some(other) => {
                let reason = TrainingReason::FolderHasOtherFile {
                    folder: folder.display().to_string(),
                    name: other.to_string_lossy().into_owned(),
                };
                Err(Problem::new(ProblemCode::BadRequest, reason))
            }
        }
    }

    /// Locks this run against other processes as long as the returned file is open.
    pub(super) fn lock(&self) -> Result<File, Problem> {
        let failed = |error: io::Error| disk(&self.0, &error);
        durable::create_folder(&self.0).map_err(failed)?;
        let file = File::options()
            .append(true)
            .create(true)
            .open(self.0.join(LOCK))
            .map_err(failed)?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_TIMEOUT / 100),
                Err(TryLockError::WouldBlock) => {
                    let folder = self.0.display().to_string();
                    return Err(Problem::new(
                        ProblemCode::BadRequest,
                        TrainingReason::RunLocked { folder },
                    ));
                }
                Err(TryLockError::Error(error)) => {
                    // Some network file systems do not support locks. The run continues without
                    // one.
                    tracing::warn!(folder = %self.0.display(), %error, "the folder of a run cannot be locked");
                    return Ok(file);
                }
            }
        }
    }

    /// Creates a run in the folder. Removes the files of an earlier run except its adapter, which
    /// remains until it is replaced.
    pub(super) fn create(&self, run: &RunFile) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        durable::create_folder(&self.0).map_err(failed)?;
        // The checkpoint is removed first, so that a kill cannot leave it with another run's
        // settings.
        if let Some(checkpoint) = hearth_train::latest_checkpoint(&self.0) {
            durable::remove_file(&checkpoint).map_err(failed)?;
        }
        self.write(run)?;
        durable::write_file(&self.0.join(LOG), |_| Ok(())).map_err(failed)
    }

    /// Completes or undoes writes that a kill interrupted. Called before a resume.
    pub(super) fn recover(&self) -> Result<(), Problem> {
        ["adapter", RUN, LOG]
            .into_iter()
            .try_for_each(|name| durable::recover(&self.0.join(name)))
            .map_err(|error| disk(&self.0, &error))
    }

    /// Replaces `run.json` atomically.
    pub(super) fn write(&self, run: &RunFile) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        let text = serde_json::to_vec_pretty(run).map_err(|error| failed(error.into()))?;
        let path = self.0.join(RUN);
        durable::write_file(&path, |file| file.write_all(&text)).map_err(failed)
    }

    /// Appends a line to the log.
    pub(super) fn log(&self, step: &StepReport) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        let line = serde_json::to_vec(step).map_err(|error| failed(error.into()))?;
        durable::append_line(&self.0.join(LOG), &line).map_err(failed)
    }

    /// Replaces the adapter atomically.
    pub(super) fn save_adapter(
        &self,
        parts: &[LoraPart],
        run: &RunFile,
        manifest: AdapterManifest,
        base: &BaseShape,
    ) -> Result<(), Problem> {
        let mut tensors = BTreeMap::new();
        for part in parts {
            let target = TargetName {
                layer: part.layer,
                linear: part.linear,
            };
            let Some([outputs, inputs]) = base.linear(target) else {
                return Err(internal(&format!("the adapter has {target}, but the model does not")));
            };
            let lora = LoraTensors {
                a: part.a.clone(),
                b: part.b.clone(),
                rank: part.rank,
                inputs,
                outputs,
                alpha: run.settings.alpha,
            };
            tensors.insert(target, lora);
        }
        let adapter = AdapterFile {
            path: self.0.join("adapter"),
            architecture: base.architecture.clone(),
            base_name: Some(manifest.base.file.clone()),
            rslora: run.settings.rslora,
            tensors,
            manifest: Some(manifest),
            unmatched: Vec::new(),
        };
        write_peft(&adapter, &adapter.path, base)
    }
}

/// Writes an adapter to a folder, which is replaced atomically.
pub(super) fn write_peft(adapter: &AdapterFile, folder: &Path, base: &BaseShape) -> Result<(), Problem> {
    let result = durable::replace_folder(folder, |staged| Ok::<_, WriteError>(adapter.write_peft(staged, base)?));
    result.map_err(|error| error.at(folder))
}

/// The reason why an adapter could not be written.
pub(super) enum WriteError {
    Adapter(AdapterError),
    Disk(io::Error),
}

impl WriteError {
    /// Converts it to a problem with this path.
    pub fn at(self, path: &Path) -> Problem {
        match self {
            Self::Disk(error) => disk(path, &error),
            Self::Adapter(error) => from_adapter(AdapterError {
                path: path.to_owned(),
                ..error
            }),
        }
    }
}

impl From<AdapterError> for WriteError {
    fn from(error: AdapterError) -> Self {
        Self::Adapter(error)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// The path of an adapter. `path` is a run's folder, a PEFT folder or a GGUF adapter.
pub(crate) fn adapter_path(path: &Path) -> PathBuf {
    let run_adapter = RunFolder(path.to_owned()).adapter();
    if run_adapter.is_dir() {
        run_adapter
    } else {
        durable::intact_folder(path)
    }
}

/// Opens an adapter for a model. Also returns notices for the user.
pub(crate) fn open_adapter(
    path: &Path,
    gguf: &hearth_formats::gguf::Gguf,
) -> Result<(AdapterFile, Vec<Notice>), Problem> {
    let path = adapter_path(path);
    if !path.exists() {
        let path = path.display().to_string();
        return Err(Problem::new(
            ProblemCode::AdapterInvalid,
            LoadReason::AdapterMissing { path },
        ));
    }
    let base = BaseShape::from_gguf(gguf).map_err(from_adapter)?;
    let adapter = AdapterFile::open(&path, &base).map_err(from_adapter)?;
    let fit = match adapter.check_base(gguf).map_err(from_adapter)? {
        Fit::Exact | Fit::SizesOnly => None,
        Fit::OtherQuantization { file } => Some(Notice::AdapterOfOtherQuantization { file }),
    };
    let unmatched = adapter.unmatched.iter().map(unmatched_entries);
    let notices = fit.into_iter().chain(unmatched).collect();
    Ok((adapter, notices))
}

/// The notice on entries of an adapter that match no module.
fn unmatched_entries(unmatched: &UnmatchedEntries) -> Notice {
    let UnmatchedEntries { setting, entries, more } = unmatched.clone();
    match more {
        0 => Notice::EntriesUnmatched { setting, entries },
        more => Notice::MoreEntriesUnmatched {
            setting,
            entries,
            more: saturating_u32(more),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_after_a_resume_replace_former_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = RunFolder(folder.path().to_owned());
        assert!(run.losses().is_empty());
        // The run was resumed from step 1 and ended at step 3, so the former step 4 does not count.
        let steps = [(1, 0.5), (2, 0.4), (3, 0.3), (4, 0.2), (2, 0.45), (3, 0.35)];
        let line = |(step, loss)| {
            serde_json::json!({
                "step": step, "steps": 9, "epoch": 0.1, "loss": loss, "learning_rate": 0.001, "gradient_norm": 1.0,
                "tokens": 8, "tokens_per_second": 80.0, "memory": 0, "seconds_left": 1.0,
            })
        };
        let log: String = steps.into_iter().map(|step| line(step).to_string() + "\n").collect();
        fs::write(folder.path().join(LOG), log).expect("it is written");
        assert_eq!(run.losses(), [0.5, 0.45, 0.35]);
    }
}

//! A run's folder: what is in it, and under which names.
//!
//! `run.json` says what the run is made of, `log.jsonl` what happened, `checkpoint.safetensors` (of `hearth-train`) how to go on,
//! and `adapter/` is what came of it: a PEFT folder with a passport. All are written by [`hearth_formats::durable`], so that a run that was
//! killed at any moment goes on.

use crate::problem::{disk, from_adapter, problem};
use hearth_formats::adapter::{
    AdapterError, AdapterFile, BaseId, BaseShape, LinearName, LoraTensors, Passport, TargetName,
};
use hearth_formats::durable;
use hearth_llm::LoraPart;
use hearth_protocol::{DataSource, Problem, ProblemCode, StepReport};
use hearth_train::Settings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// What a run is made of. A new field has a `#[serde(default)]`, as [`Settings`] have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// The model.
    pub model: PathBuf,
    /// Which model that was; none in runs from before this was written down.
    #[serde(default)]
    pub base: Option<BaseId>,
    /// What it learns from.
    pub data: DataSource,
    /// The adapter that it begins with; not in runs from before this was written down.
    #[serde(default)]
    pub init: Option<PathBuf>,
    /// How, with everything chosen.
    pub settings: Settings,
    /// Tokens an example may have.
    pub sequence: u32,
    /// Share of the examples that is held out.
    pub eval_split: f32,
    /// Whether prompts are learnt too.
    pub train_on_prompts: bool,
    /// Beginnings of held-out examples (or of the others, where none is held out), for checking exports.
    pub prompts: Vec<Vec<u32>>,
}

impl RunFile {
    /// Of the run that made an adapter, where that lies in its run's folder or is named by it.
    pub fn of_adapter(adapter: &Path) -> Option<Self> {
        let folders = [Some(adapter), adapter.parent()];
        folders
            .into_iter()
            .flatten()
            .find_map(|folder| RunFolder(folder.to_owned()).read())
    }
}

const RUN: &str = "run.json";
const LOG: &str = "log.jsonl";
const LOCK: &str = ".lock";

/// How long the worker that was at work on a run before may take to end.
const LOCK_WITHIN: Duration = Duration::from_secs(5);

/// What an adapter's folder has, and nothing else.
const OF_ADAPTER: [&str; 3] = ["adapter_config.json", "adapter_model.safetensors", "hearth.json"];

pub(super) fn is_of_adapter(name: &OsStr) -> bool {
    OF_ADAPTER.iter().any(|own| *own == name)
}

/// Whether a file is one that a file manager or a network file system puts into any folder.
fn is_of_system(name: &OsStr) -> bool {
    let names = [".DS_Store", ".directory", "desktop.ini", "Thumbs.db"];
    names.iter().any(|own| *own == name) || name.to_string_lossy().starts_with(".nfs")
}

/// The names in a folder that people and programs gave, not file managers; none where there is no folder.
pub(super) fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    let names = |entries: fs::ReadDir| entries.map(|entry| entry.map(|entry| entry.file_name()));
    match fs::read_dir(folder) {
        Ok(entries) => names(entries)
            .filter(|name| name.as_ref().is_ok_and(|name| !is_of_system(name)) || name.is_err())
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A run's folder.
#[derive(Debug, Clone)]
pub struct RunFolder(pub PathBuf);

impl RunFolder {
    /// Where the adapter is; after a kill while it was replaced, where a whole one is.
    pub fn adapter(&self) -> PathBuf {
        durable::standing_in(&self.0.join("adapter"))
    }

    /// What the run is made of, if this is a run's folder.
    pub fn read(&self) -> Option<RunFile> {
        let text = fs::read_to_string(self.0.join(RUN)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// What the run is made of that is to go on here with this model; none where none was begun.
    ///
    /// # Errors
    /// One was begun, and it cannot be told how, or it was begun on another model.
    pub(super) fn resumed(&self, base: &BaseId) -> Result<Option<RunFile>, Problem> {
        let path = self.0.join(RUN);
        let cannot = |why: String| {
            let message = format!(
                "The run in {} cannot go on: {why}. Nothing was changed there.",
                self.0.display()
            );
            problem(ProblemCode::BadRequest, message)
        };
        let unreadable = |error: &dyn std::fmt::Display| {
            cannot(format!(
                "its run.json cannot be read ({error}); go on with the Hearth that wrote it, or start a new run in another folder"
            ))
        };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return match hearth_train::latest_checkpoint(&self.0) {
                    None => Ok(None),
                    Some(_) => Err(cannot(
                        "there is a checkpoint, and its run.json is gone; put that back, or start a new run in another folder"
                            .to_owned(),
                    )),
                };
            }
            Err(error) => return Err(unreadable(&error)),
        };
        let run: RunFile = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        if run.settings.version > Settings::VERSION {
            return Err(cannot(format!(
                "its settings have version {}, and this Hearth reads up to {}; go on with the Hearth that wrote it, or start \
                 a new run in another folder",
                run.settings.version,
                Settings::VERSION
            )));
        }
        match run.base.as_ref().and_then(|begun_on| begun_on.difference(base)) {
            None => Ok(Some(run)),
            Some(difference) => Err(cannot(format!(
                "{difference}; choose the model that it was begun on, or start a new run in another folder"
            ))),
        }
    }

    /// The loss of each step in the log. A step that was made again after a resume counts once, as it was last.
    pub fn losses(&self) -> Vec<f64> {
        let text = fs::read_to_string(self.0.join(LOG)).unwrap_or_default();
        let steps = text
            .lines()
            .filter_map(|line| serde_json::from_str::<StepReport>(line).ok());
        let by_step: BTreeMap<u32, f64> = steps.map(|step| (step.step, step.loss)).collect();
        by_step.into_values().collect()
    }

    /// Refuses a folder that holds a run already, or files by the names that a run's have.
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
                let message = format!(
                    "The folder {} may hold a run of fine-tuning already: there is {}. Resume that run, or choose another folder.",
                    self.0.display(),
                    path.display()
                );
                Err(problem(ProblemCode::BadRequest, message))
            }
        }
    }

    /// Refuses a folder whose `adapter` has other files than an adapter's: it is replaced as a whole.
    pub(super) fn check_adapter(&self) -> Result<(), Problem> {
        let folder = self.adapter();
        let names = names(&folder).map_err(|error| disk(&folder, &error))?;
        match names.iter().find(|name| !is_of_adapter(name)) {
            None => Ok(()),
            Some(other) => {
                let message = format!(
                    "The folder {} is replaced with the adapter of the run, and has another file in it: {}. Move that, or choose another \
                     folder.",
                    folder.display(),
                    other.display()
                );
                Err(problem(ProblemCode::BadRequest, message))
            }
        }
    }

    /// Keeps other processes out of this run, for as long as the file is open.
    pub(super) fn lock(&self) -> Result<File, Problem> {
        let failed = |error: io::Error| disk(&self.0, &error);
        durable::create_folder(&self.0).map_err(failed)?;
        let file = File::options()
            .append(true)
            .create(true)
            .open(self.0.join(LOCK))
            .map_err(failed)?;
        let until = Instant::now() + LOCK_WITHIN;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_WITHIN / 100),
                Err(TryLockError::WouldBlock) => {
                    let message = format!(
                        "Another Hearth is at work on the run in {}. Wait until it has ended, or choose another folder.",
                        self.0.display()
                    );
                    return Err(problem(ProblemCode::BadRequest, message));
                }
                Err(TryLockError::Error(error)) => {
                    // Some network file systems have no locks; a run there is as safe as it was without.
                    tracing::warn!(folder = %self.0.display(), %error, "the folder of a run cannot be locked");
                    return Ok(file);
                }
            }
        }
    }

    /// Begins a run here; what an earlier one left is cleared away, but for its adapter, which stays until there is a new one.
    pub(super) fn begin(&self, run: &RunFile) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        durable::create_folder(&self.0).map_err(failed)?;
        // The checkpoint first: the other way round a kill would leave one beside the settings of another run.
        if let Some(old) = hearth_train::latest_checkpoint(&self.0) {
            durable::remove_file(&old).map_err(failed)?;
        }
        self.write(run)?;
        durable::write_file(&self.0.join(LOG), |_| Ok(())).map_err(failed)
    }

    /// Finishes or takes back what a kill left half done, before a run goes on here.
    pub(super) fn recover(&self) -> Result<(), Problem> {
        ["adapter", RUN, LOG]
            .into_iter()
            .try_for_each(|name| durable::recover(&self.0.join(name)))
            .map_err(|error| disk(&self.0, &error))
    }

    /// Replaces `run.json` as a whole.
    pub(super) fn write(&self, run: &RunFile) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        let text = serde_json::to_vec_pretty(run).map_err(|error| failed(error.into()))?;
        let path = self.0.join(RUN);
        durable::write_file(&path, |file| file.write_all(&text)).map_err(failed)
    }

    /// Adds a line to the log.
    pub(super) fn log(&self, step: &StepReport) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        let line = serde_json::to_vec(step).map_err(|error| failed(error.into()))?;
        durable::append_line(&self.0.join(LOG), &line).map_err(failed)
    }

    /// Replaces the adapter as a whole.
    pub(super) fn keep(
        &self,
        parts: &[LoraPart],
        run: &RunFile,
        passport: Passport,
        base: &BaseShape,
    ) -> Result<(), Problem> {
        let mut tensors = BTreeMap::new();
        for part in parts {
            let Some(linear) = LinearName::ALL
                .iter()
                .copied()
                .find(|linear| linear.gguf() == part.linear)
            else {
                continue;
            };
            let (outputs, inputs) = base.linear(linear);
            let target = TargetName {
                layer: part.layer,
                linear,
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
            base_name: Some(passport.base.file.clone()),
            rslora: run.settings.rslora,
            tensors,
            passport: Some(passport),
        };
        write_peft(&adapter, &adapter.path, base)
    }
}

/// Replaces a folder as a whole with an adapter's.
pub(super) fn write_peft(adapter: &AdapterFile, folder: &Path, base: &BaseShape) -> Result<(), Problem> {
    let written = durable::replace_folder(folder, |staged| Ok::<_, Unwritten>(adapter.write_peft(staged, base)?));
    written.map_err(|error| error.at(folder))
}

/// Why an adapter could not be written.
pub(super) enum Unwritten {
    Adapter(AdapterError),
    Disk(io::Error),
}

impl Unwritten {
    /// What to tell a person who wants it at this path.
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

impl From<AdapterError> for Unwritten {
    fn from(error: AdapterError) -> Self {
        Self::Adapter(error)
    }
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// The adapter that a person means by a path: a run's folder, a PEFT folder or a GGUF adapter.
pub(crate) fn adapter_path(path: &Path) -> PathBuf {
    let of_run = RunFolder(path.to_owned()).adapter();
    if of_run.is_dir() {
        of_run
    } else {
        durable::standing_in(path)
    }
}

/// Opens an adapter for a model, and says what a person should know about the two.
pub(crate) fn open_adapter(
    path: &Path,
    gguf: &hearth_formats::gguf::Gguf,
) -> Result<(AdapterFile, Option<String>), Problem> {
    use hearth_formats::adapter::Fit;
    let path = adapter_path(path);
    if !path.exists() {
        let message = format!(
            "There is no adapter at {}. It was moved or deleted: choose another.",
            path.display()
        );
        return Err(problem(ProblemCode::AdapterInvalid, message));
    }
    let base = BaseShape::from_gguf(gguf).map_err(from_adapter)?;
    let adapter = AdapterFile::open(&path, &base).map_err(from_adapter)?;
    let notice = match adapter.check_base(gguf).map_err(from_adapter)? {
        Fit::Exact | Fit::SizesOnly => None,
        Fit::OtherQuantization(notice) => Some(notice),
    };
    Ok((adapter, notice))
}

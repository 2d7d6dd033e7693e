//! A run's folder: what is in it, and under which names.
//!
//! `run.json` says what the run is made of, `log.jsonl` what happened, `checkpoint.safetensors` (of `hearth-train`) how to go on,
//! and `adapter/` is what came of it: a PEFT folder with a passport.

use crate::problem::{disk, from_adapter, problem};
use hearth_formats::adapter::{AdapterFile, BaseId, BaseShape, LinearName, LoraTensors, Passport, TargetName};
use hearth_llm::LoraPart;
use hearth_protocol::{DataSource, Problem, ProblemCode, StepReport};
use hearth_train::Settings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a run is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// The model.
    pub model: PathBuf,
    /// Which model that was; none in runs from before this was written down.
    #[serde(default)]
    pub base: Option<BaseId>,
    /// What it learns from.
    pub data: DataSource,
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

/// A run's folder.
#[derive(Debug, Clone)]
pub struct RunFolder(pub PathBuf);

impl RunFolder {
    /// Where the adapter is.
    pub fn adapter(&self) -> PathBuf {
        self.0.join("adapter")
    }

    /// What the run is made of, if this is a run's folder.
    pub fn read(&self) -> Option<RunFile> {
        let text = fs::read_to_string(self.0.join("run.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// What the run is made of that is to go on here with this model; none where none was begun.
    ///
    /// # Errors
    /// One was begun, and it cannot be told how, or it was begun on another model.
    pub(super) fn resumed(&self, base: &BaseId) -> Result<Option<RunFile>, Problem> {
        let path = self.0.join("run.json");
        let cannot = |why: String| {
            let message = format!(
                "The run in {} cannot go on: {why}. Nothing was changed there.",
                self.0.display()
            );
            problem(ProblemCode::BadRequest, message)
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return match hearth_train::latest_checkpoint(&self.0) {
                    None => Ok(None),
                    Some(_) => Err(cannot(
                        "there is a checkpoint, and its run.json is gone; put that back, or begin anew elsewhere"
                            .to_owned(),
                    )),
                };
            }
            Err(error) => return Err(disk(&path, &error)),
        };
        let run: RunFile = serde_json::from_str(&text).map_err(|error| {
            cannot(format!(
                "its run.json cannot be read ({error}); go on with the Hearth that wrote it, or begin anew elsewhere"
            ))
        })?;
        match run.base.as_ref().and_then(|begun_on| begun_on.difference(base)) {
            None => Ok(Some(run)),
            Some(difference) => Err(cannot(format!(
                "{difference}; choose the model that it was begun on, or begin anew elsewhere"
            ))),
        }
    }

    /// The loss of each step in the log. A step that was made again after a resume counts once, as it was last.
    pub fn losses(&self) -> Vec<f64> {
        let text = fs::read_to_string(self.0.join("log.jsonl")).unwrap_or_default();
        let steps = text
            .lines()
            .filter_map(|line| serde_json::from_str::<StepReport>(line).ok());
        let by_step: BTreeMap<u32, f64> = steps.map(|step| (step.step, step.loss)).collect();
        by_step.into_values().collect()
    }

    /// Begins a run here; what an earlier one left is cleared away.
    pub(super) fn begin(&self, run: &RunFile) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        fs::create_dir_all(&self.0).map_err(failed)?;
        if let Some(old) = hearth_train::latest_checkpoint(&self.0) {
            fs::remove_file(old).map_err(failed)?;
        }
        self.write(run)?;
        File::create(self.0.join("log.jsonl")).map_err(failed)?;
        Ok(())
    }

    /// Replaces `run.json` as a whole.
    pub(super) fn write(&self, run: &RunFile) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        let text = serde_json::to_vec_pretty(run).map_err(|error| failed(error.into()))?;
        let path = self.0.join("run.json");
        hearth_formats::adapter::write_whole(&path, |file| file.write_all(&text)).map_err(failed)
    }

    /// Adds a line to the log.
    pub(super) fn log(&self, step: &StepReport) -> Result<(), Problem> {
        let failed = |error| disk(&self.0, &error);
        let mut line = serde_json::to_vec(step).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.0.join("log.jsonl"));
        file.and_then(|mut file| file.write_all(&line)).map_err(failed)
    }

    /// Writes the adapter anew; the one before stays until this one is whole.
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
            path: self.adapter(),
            architecture: base.architecture.clone(),
            base_name: Some(passport.base.file.clone()),
            rslora: run.settings.rslora,
            tensors,
            passport: Some(passport),
        };
        adapter.write_peft(&self.adapter(), base).map_err(from_adapter)
    }
}

/// The adapter that a person means by a path: a run's folder, a PEFT folder or a GGUF adapter.
pub(crate) fn adapter_path(path: &Path) -> PathBuf {
    let of_run = RunFolder(path.to_owned()).adapter();
    if of_run.is_dir() { of_run } else { path.to_owned() }
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

//! The adapters of answers. Each answer has its own adapters, over one copy of the weights.

use crate::problem::{from_gguf, interrupted};
use crate::training::{adapter_path, open_adapter};
use hearth_formats::adapter::{PEFT_CONFIG, PEFT_TENSORS};
use hearth_formats::gguf::Gguf;
use hearth_formats::interrupt;
use hearth_llm::{LoraPart, Model};
use hearth_protocol::{AdapterChoice, LoadReason, Notice, Problem, ProblemCode};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Number of sets of adapters that are kept for later answers.
const MAX_RECENT: usize = 4;

/// A set of adapters, in the order in which they are applied.
pub(crate) type ActiveAdapters = Vec<ActiveAdapter>;

/// An adapter of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ActiveAdapter {
    pub choice: AdapterChoice,
    /// Modification time of the weights when they were read. A retrained adapter has another one.
    pub modified: Option<SystemTime>,
}

/// A model with adapters.
#[derive(Clone)]
pub(crate) struct AdaptedModel {
    pub adapters: ActiveAdapters,
    pub model: Arc<Model>,
    /// Notices on the adapters for the user.
    pub notices: Vec<Notice>,
}

/// A model with the sets of adapters that answers used recently.
pub(crate) struct AdaptedModels {
    /// The model's file.
    path: PathBuf,
    base: Arc<Model>,
    /// The most recently used is the last.
    recent: Mutex<Vec<AdaptedModel>>,
}

/// Adapters for [`AdaptedModels::attach`].
pub(crate) enum ChosenAdapters {
    /// The adapters were used recently, or there are none.
    Attached(AdaptedModel),
    /// The adapters' files were read.
    Read {
        adapters: ActiveAdapters,
        parts: Vec<LoraPart>,
        notices: Vec<Notice>,
    },
}

impl AdaptedModels {
    /// A model that no adapters were attached to yet. `path` is its file.
    pub fn new(path: &Path, base: Arc<Model>) -> Self {
        Self {
            path: path.to_owned(),
            base,
            recent: Mutex::default(),
        }
    }

    /// Reads adapters, which will be applied in this order. May be called on any thread. If an
    /// [`interrupt::Interrupt`] runs it, that can stop it.
    ///
    /// # Errors
    /// An adapter cannot be read or belongs to another model, or the call was interrupted.
    pub fn read(&self, choices: &[AdapterChoice]) -> Result<ChosenAdapters, Problem> {
        if choices.is_empty() {
            return Ok(ChosenAdapters::Attached(AdaptedModel {
                adapters: ActiveAdapters::new(),
                model: Arc::clone(&self.base),
                notices: Vec::new(),
            }));
        }
        let adapters: ActiveAdapters = choices
            .iter()
            .map(|choice| ActiveAdapter {
                choice: choice.clone(),
                modified: modified(&choice.path),
            })
            .collect();
        if let Some(adapted) = self.recently_used(&adapters) {
            return Ok(ChosenAdapters::Attached(adapted));
        }
        let gguf = Gguf::open(&self.path).map_err(from_gguf)?;
        let (mut parts, mut notices) = (Vec::new(), Vec::new());
        for choice in choices {
            interrupt::check().map_err(|_| interrupted())?;
            if !choice.scale.is_finite() {
                let scale = choice.scale.to_string();
                return Err(Problem::new(
                    ProblemCode::BadRequest,
                    LoadReason::AdapterScale { scale },
                ));
            }
            let (adapter, adapter_notices) = open_adapter(&choice.path, &gguf)?;
            notices.extend(adapter_notices);
            parts.extend(LoraPart::from_file(&adapter, choice.scale));
        }
        Ok(ChosenAdapters::Read {
            adapters,
            parts,
            notices,
        })
    }

    /// Returns the model with these adapters, or the base model if there are none. Called on the
    /// thread that steps the model, since it allocates memory on the model's GPUs.
    ///
    /// # Errors
    /// An adapter belongs to another model.
    pub fn attach(&self, chosen: ChosenAdapters) -> Result<AdaptedModel, Problem> {
        let (adapters, parts, notices) = match chosen {
            ChosenAdapters::Attached(adapted) => return Ok(adapted),
            ChosenAdapters::Read {
                adapters,
                parts,
                notices,
            } => (adapters, parts, notices),
        };
        // Another answer with the same adapters may have attached them meanwhile.
        if let Some(adapted) = self.recently_used(&adapters) {
            return Ok(adapted);
        }
        let model = self.base.adapted(&parts);
        let model = Arc::new(model.map_err(|error| Problem::detail(ProblemCode::AdapterInvalid, error))?);
        let adapted = AdaptedModel {
            adapters,
            model,
            notices,
        };
        let mut recent = self.recent();
        if recent.len() >= MAX_RECENT {
            recent.remove(0);
        }
        recent.push(adapted.clone());
        Ok(adapted)
    }

    fn recently_used(&self, adapters: &ActiveAdapters) -> Option<AdaptedModel> {
        let mut recent = self.recent();
        let index = recent.iter().position(|adapted| adapted.adapters == *adapters)?;
        let adapted = recent.remove(index);
        recent.push(adapted.clone());
        Some(adapted)
    }

    fn recent(&self) -> MutexGuard<'_, Vec<AdaptedModel>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Modification time of an adapter's weights.
pub(crate) fn modified(path: &Path) -> Option<SystemTime> {
    let files = files(path);
    files.last()?.metadata().and_then(|metadata| metadata.modified()).ok()
}

/// The files of an adapter. The last one has the weights.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let path = adapter_path(path);
    if path.is_dir() {
        [PEFT_CONFIG, PEFT_TENSORS].map(|name| path.join(name)).into()
    } else {
        vec![path]
    }
}

//! The adapters of answers: each answer has its own, over one copy of the weights.

use crate::Engine;
use crate::problem::{from_gguf, from_session, interrupted, problem};
use crate::training::{adapter_path, open_adapter};
use hearth_formats::adapter::{PEFT_CONFIG, PEFT_TENSORS};
use hearth_formats::gguf::Gguf;
use hearth_formats::interrupt;
use hearth_llm::{LoraPart, Model};
use hearth_protocol::{AdapterChoice, Problem, ProblemCode};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Sets of adapters that are kept besides those in use.
const RECENT: usize = 4;

/// Adapters with the modification times of their files, so that a retrained one counts as another.
pub(crate) type ActiveAdapters = Vec<(AdapterChoice, Option<SystemTime>)>;

/// A model with adapters.
#[derive(Clone)]
pub(crate) struct Adapted {
    pub adapters: ActiveAdapters,
    pub model: Arc<Model>,
}

/// A model with the sets of adapters that answers used lately.
pub(crate) struct AdaptedModels {
    /// The model's file.
    path: PathBuf,
    base: Arc<Model>,
    /// With notices for the user in whole sentences. The last used is the last.
    recent: Mutex<Vec<(Adapted, Vec<String>)>>,
}

/// Adapters for [`AdaptedModels::attach`].
pub(crate) enum ChosenAdapters {
    /// They were used lately, or there are none.
    Attached(Adapted, Vec<String>),
    /// Their files were read.
    Read {
        adapters: ActiveAdapters,
        parts: Vec<LoraPart>,
        notices: Vec<String>,
    },
}

impl AdaptedModels {
    /// The model without adapters.
    pub fn new(path: &Path, base: Arc<Model>) -> Self {
        Self {
            path: path.to_owned(),
            base,
            recent: Mutex::default(),
        }
    }

    /// Reads these adapters, in this order, on any thread, until an [`interrupt::Interrupt`] that
    /// is running it stops it.
    ///
    /// # Errors
    /// An adapter cannot be read or belongs to another model, or it was interrupted.
    pub fn read(&self, choices: &[AdapterChoice]) -> Result<ChosenAdapters, Problem> {
        if choices.is_empty() {
            let (adapters, model) = (ActiveAdapters::new(), Arc::clone(&self.base));
            return Ok(ChosenAdapters::Attached(Adapted { adapters, model }, Vec::new()));
        }
        let adapters: ActiveAdapters = choices
            .iter()
            .map(|choice| (choice.clone(), written(&choice.path)))
            .collect();
        if let Some((adapted, notices)) = self.used_lately(&adapters) {
            return Ok(ChosenAdapters::Attached(adapted, notices));
        }
        let gguf = Gguf::open(&self.path).map_err(from_gguf)?;
        let (mut parts, mut notices) = (Vec::new(), Vec::new());
        for choice in choices {
            interrupt::check().map_err(|_| interrupted())?;
            if !choice.scale.is_finite() {
                let message = format!("Adapter scale must be finite, got {}.", choice.scale);
                return Err(problem(ProblemCode::BadRequest, message));
            }
            let (adapter, of_adapter) = open_adapter(&choice.path, &gguf)?;
            notices.extend(of_adapter);
            parts.extend(LoraPart::from_file(&adapter, choice.scale));
        }
        Ok(ChosenAdapters::Read {
            adapters,
            parts,
            notices,
        })
    }

    /// The model with these adapters; without any, the base model. Also returns notices for the
    /// user in whole sentences. On the thread that steps the model, since it fills memory of its
    /// GPUs.
    ///
    /// # Errors
    /// An adapter belongs to another model.
    pub fn attach(&self, chosen: ChosenAdapters) -> Result<(Adapted, Vec<String>), Problem> {
        let (adapters, parts, notices) = match chosen {
            ChosenAdapters::Attached(adapted, notices) => return Ok((adapted, notices)),
            ChosenAdapters::Read {
                adapters,
                parts,
                notices,
            } => (adapters, parts, notices),
        };
        // Another answer's may have been attached since they were read.
        if let Some(found) = self.used_lately(&adapters) {
            return Ok(found);
        }
        let model = self.base.adapted(&parts);
        let model = Arc::new(model.map_err(|error| problem(ProblemCode::AdapterInvalid, error.to_string()))?);
        let found = (Adapted { adapters, model }, notices);
        let mut recent = self.recent();
        if recent.len() >= RECENT {
            recent.remove(0);
        }
        recent.push(found.clone());
        Ok(found)
    }

    fn used_lately(&self, adapters: &ActiveAdapters) -> Option<(Adapted, Vec<String>)> {
        let mut recent = self.recent();
        let at = recent.iter().position(|(adapted, _)| adapted.adapters == *adapters)?;
        let found = recent.remove(at);
        recent.push(found.clone());
        Some(found)
    }

    fn recent(&self) -> MutexGuard<'_, Vec<(Adapted, Vec<String>)>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Sets the adapters of the engine's own session and of new sessions. An answer uses the
    /// adapters of its request. Returns notices for the user in whole sentences.
    ///
    /// # Errors
    /// An adapter cannot be read or belongs to another model; the adapters are then unchanged.
    pub fn set_adapters(&mut self, choices: &[AdapterChoice]) -> Result<Vec<String>, Problem> {
        let (adapted, notices) = self.adapted.attach(self.adapted.read(choices)?)?;
        self.session = self.session.sharing_cache(adapted.model).map_err(from_session)?;
        Ok(notices)
    }
}

/// Modification time of an adapter's weights.
pub(crate) fn written(path: &Path) -> Option<SystemTime> {
    let files = files(path);
    files.last()?.metadata().and_then(|about| about.modified()).ok()
}

/// The files of an adapter; the last has its weights.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let path = adapter_path(path);
    if path.is_dir() {
        [PEFT_CONFIG, PEFT_TENSORS].map(|name| path.join(name)).into()
    } else {
        vec![path]
    }
}

//! The adapters of answers: each answer has its own, over one copy of the weights.

use crate::Engine;
use crate::problem::{from_gguf, from_session, problem};
use crate::training::{adapter_path, open_adapter};
use hearth_formats::adapter::{PEFT_CONFIG, PEFT_TENSORS};
use hearth_formats::gguf::Gguf;
use hearth_llm::{LoraPart, Model};
use hearth_protocol::{AdapterChoice, Problem, ProblemCode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    /// The last used is the last.
    recent: Vec<(Adapted, Vec<String>)>,
}

impl AdaptedModels {
    /// The model without adapters.
    pub fn new(path: &Path, base: Arc<Model>) -> Self {
        Self {
            path: path.to_owned(),
            base,
            recent: Vec::new(),
        }
    }

    /// The model with these adapters, in this order; without any, the base model.
    ///
    /// # Errors
    /// An adapter cannot be read or belongs to another model.
    pub fn get(&mut self, choices: &[AdapterChoice]) -> Result<Adapted, Problem> {
        Ok(self.with_notices(choices)?.0)
    }

    /// As [`AdaptedModels::get`], and notices for the user in whole sentences.
    fn with_notices(&mut self, choices: &[AdapterChoice]) -> Result<(Adapted, Vec<String>), Problem> {
        if choices.is_empty() {
            let (adapters, model) = (ActiveAdapters::new(), Arc::clone(&self.base));
            return Ok((Adapted { adapters, model }, Vec::new()));
        }
        let adapters: ActiveAdapters = choices
            .iter()
            .map(|choice| (choice.clone(), written(&choice.path)))
            .collect();
        let known = self.recent.iter().position(|(adapted, _)| adapted.adapters == adapters);
        let found = match known {
            Some(at) => self.recent.remove(at),
            None => {
                let (model, notices) = self.load(choices)?;
                (Adapted { adapters, model }, notices)
            }
        };
        if self.recent.len() >= RECENT {
            self.recent.remove(0);
        }
        self.recent.push(found.clone());
        Ok(found)
    }

    fn load(&self, choices: &[AdapterChoice]) -> Result<(Arc<Model>, Vec<String>), Problem> {
        let gguf = Gguf::open(&self.path).map_err(from_gguf)?;
        let (mut all, mut notices) = (Vec::new(), Vec::new());
        for choice in choices {
            if !choice.scale.is_finite() {
                let message = format!("Adapter scale must be finite, got {}.", choice.scale);
                return Err(problem(ProblemCode::BadRequest, message));
            }
            let (adapter, notice) = open_adapter(&choice.path, &gguf)?;
            notices.extend(notice);
            all.extend(LoraPart::of(&adapter, choice.scale));
        }
        match self.base.adapted(&all) {
            Ok(model) => Ok((Arc::new(model), notices)),
            Err(error) => Err(problem(ProblemCode::AdapterInvalid, error.to_string())),
        }
    }
}

impl Engine {
    /// Set the adapters of the engine's own session and of new ones; an answer has those of its
    /// request. Returns notices for the user in whole sentences.
    ///
    /// # Errors
    /// An adapter cannot be read or belongs to another model; the adapters are then unchanged.
    pub fn set_adapters(&mut self, choices: &[AdapterChoice]) -> Result<Vec<String>, Problem> {
        let (adapted, notices) = self.adapted.with_notices(choices)?;
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
    match path.is_dir() {
        true => [PEFT_CONFIG, PEFT_TENSORS].map(|name| path.join(name)).into(),
        false => vec![path],
    }
}

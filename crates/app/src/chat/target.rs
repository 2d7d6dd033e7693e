//! Which model to load, and how.

use crate::{
    library::Model,
    models,
    shared::Shared,
    wire::{Code, Problem},
};
use hearth_protocol::Sampling;
use std::path::PathBuf;

/// A model and how to load it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) context: Option<u32>,
    pub(super) threads: Option<u32>,
    pub(super) system_prompt: Option<String>,
    pub(super) sampling: Sampling,
}

impl Target {
    /// A model, with what a person chose; a model that cannot be read is refused.
    pub(crate) fn new(model: &Model, shared: &Shared) -> Result<Self, Problem> {
        models::check(model)?;
        let settings = shared.settings();
        Ok(Self {
            id: model.id.clone(),
            name: model.name.clone(),
            path: model.path.clone(),
            context: settings.context,
            threads: settings.threads,
            system_prompt: model.system_prompt().map(str::to_owned),
            sampling: model.sampling(),
        })
    }

    /// The model that was used last, or else the default one.
    pub(super) fn choose(shared: &Shared) -> Result<Self, Problem> {
        let models = shared.models()?;
        let last = shared.settings().last_model;
        let chosen = models.iter().find(|model| Some(&model.id) == last.as_ref());
        match chosen.or_else(|| shared.library.default(&models)) {
            Some(model) => Self::new(model, shared),
            None => Err(Problem {
                code: Code::NoModel,
                message: "There is no model on this machine yet. Add a GGUF file under Models, then try again."
                    .to_owned(),
            }),
        }
    }
}

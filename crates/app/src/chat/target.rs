//! Which model to load, and how.

use crate::{
    library::Model,
    models,
    shared::Shared,
    wire::{Code, Problem, WhatIf},
};
use hearth_protocol::Sampling;
use std::path::PathBuf;

/// A model and how to load it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) how: WhatIf,
    pub(super) system_prompt: Option<String>,
    pub(super) sampling: Sampling,
}

impl Target {
    /// A model, with what a person chose; a model that cannot be read is refused.
    pub(crate) fn new(model: &Model, shared: &Shared) -> Result<Self, Problem> {
        models::check(model)?;
        Ok(Self {
            id: model.id.clone(),
            name: model.name.clone(),
            path: model.path.clone(),
            how: (&shared.settings()).into(),
            system_prompt: model.system_prompt().map(str::to_owned),
            sampling: model.sampling(),
        })
    }

    /// The model that was used last, or else the default one.
    pub(super) fn choose(shared: &Shared) -> Result<Self, Problem> {
        match models::next(shared)? {
            Some(model) => Self::new(&model, shared),
            None => Err(Problem {
                code: Code::NoModel,
                message: "There is no model on this machine yet. Add a GGUF file under Models, then try again."
                    .to_owned(),
            }),
        }
    }
}

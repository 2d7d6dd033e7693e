//! A model to load, and its load settings.

use super::request;
use crate::{
    library::Model,
    model_lookup,
    shared::Shared,
    store::{conversation, folder},
    wire::{DraftProblem, LoadSettings, Problem, ProblemCode},
};
use hearth_protocol::{DraftChoice, SamplingParams};
use std::path::PathBuf;

/// A model and its load settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) settings: LoadSettings,
    pub(super) draft: DraftChoice,
    /// Why the chosen draft model is not used.
    pub(super) draft_problem: Option<DraftProblem>,
    pub(super) system_prompt: Option<String>,
    pub(super) sampling: SamplingParams,
}

impl Target {
    /// A model with the current settings.
    ///
    /// # Errors
    /// The model's file cannot be read.
    pub(crate) fn new(model: &Model, shared: &Shared) -> Result<Self, Problem> {
        model_lookup::check(model)?;
        let settings = LoadSettings::from_settings(&shared.settings(), &model.id);
        let (draft, draft_problem) = model_lookup::draft(shared, &settings.draft, model)?;
        Ok(Self {
            id: model.id.clone(),
            name: model.name.clone(),
            path: model.path.clone(),
            settings,
            draft,
            draft_problem,
            system_prompt: model.system_prompt().map(str::to_owned),
            sampling: model.sampling(),
        })
    }

    /// Id of the model that the conversation's settings name. `None` means that they name none.
    /// Reads no file.
    pub(super) fn id_of_conversation(shared: &Shared, id: i64) -> Result<Option<String>, Problem> {
        let (row, folder) = shared
            .store
            .read(|t| Ok((conversation::get(t, id)?, folder::of_conversation(t, id)?)))?;
        Ok(request::settings(row.as_ref(), folder.as_ref()).model)
    }

    /// The model that the conversation's settings name.
    ///
    /// # Errors
    /// The model is no longer in the library, or its file cannot be read.
    pub(super) fn of_conversation(shared: &Shared, model: &str) -> Result<Self, Problem> {
        let gone = "The model of this conversation is no longer in the library. Choose another one in the \
                    conversation's settings.";
        Self::of_library(shared, model, gone)
    }

    /// The model that this answer names.
    ///
    /// # Errors
    /// The model is no longer in the library, or its file cannot be read.
    pub(super) fn of_answer(shared: &Shared, model: &str) -> Result<Self, Problem> {
        let gone = "The model of this answer is no longer in the library. Choose another one to compare with.";
        Self::of_library(shared, model, gone)
    }

    fn of_library(shared: &Shared, id: &str, gone: &str) -> Result<Self, Problem> {
        let model = shared.model(id)?.ok_or_else(|| Problem {
            code: ProblemCode::NotFound,
            message: gone.to_owned(),
        })?;
        Self::new(&model, shared)
    }

    /// The last loaded model, or else the default model.
    pub(super) fn choose(shared: &Shared) -> Result<Self, Problem> {
        match model_lookup::next(shared)? {
            Some(model) => Self::new(&model, shared),
            None => Err(Problem {
                code: ProblemCode::NoModel,
                message: "There is no model on this machine yet. Add a GGUF file under Models, then try again."
                    .to_owned(),
            }),
        }
    }
}

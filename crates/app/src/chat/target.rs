//! A model to load, and its load settings.

use super::request;
use crate::{
    library::Model,
    model_lookup,
    shared::Shared,
    store::{conversation, folder},
    wire::{ChatReason, DraftProblem, LoadSettings, Problem, ProblemCode},
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
    /// The problem of the chosen draft model, if it is not used.
    pub(super) draft_problem: Option<DraftProblem>,
    pub(super) system_prompt: Option<String>,
    pub(super) sampling: SamplingParams,
    /// Whether the model writes titles of conversations.
    pub(super) writes_titles: bool,
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
            writes_titles: model.writes_titles(),
        })
    }

    /// Id of the model in the conversation's settings. `None` means that none is set. Reads no
    /// file.
    pub(super) fn id_of_conversation(shared: &Shared, id: i64) -> Result<Option<String>, Problem> {
        let (row, folder) = shared
            .store
            .read(|t| Ok((conversation::get(t, id)?, folder::of_conversation(t, id)?)))?;
        Ok(request::settings(row.as_ref(), folder.as_ref()).model)
    }

    /// The model in a conversation's settings.
    ///
    /// # Errors
    /// The model is no longer in the library, or its file cannot be read.
    pub(super) fn of_conversation(shared: &Shared, model: &str) -> Result<Self, Problem> {
        Self::of_library(shared, model, ChatReason::ConversationModelGone)
    }

    /// The model in an answer's overrides.
    ///
    /// # Errors
    /// The model is no longer in the library, or its file cannot be read.
    pub(super) fn of_answer(shared: &Shared, model: &str) -> Result<Self, Problem> {
        Self::of_library(shared, model, ChatReason::AnswerModelGone)
    }

    fn of_library(shared: &Shared, id: &str, gone: ChatReason) -> Result<Self, Problem> {
        let model = shared
            .model(id)?
            .ok_or_else(|| Problem::new(ProblemCode::NotFound, gone))?;
        Self::new(&model, shared)
    }

    /// The last loaded model, or else the default model.
    pub(super) fn choose(shared: &Shared) -> Result<Self, Problem> {
        match model_lookup::next(shared)? {
            Some(model) => Self::new(&model, shared),
            None => Err(Problem::new(ProblemCode::NoModel, ChatReason::NoModelYet)),
        }
    }
}

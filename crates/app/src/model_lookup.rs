//! Finds models: by id, for a new answer, and as a draft of another one.

use crate::{
    library::{Model, drafts::drafts_of},
    shared::Shared,
    store::StoreError,
    wire::{DraftProblem, DraftSetting, Problem, ProblemCode},
};
use hearth_protocol::DraftChoice;

/// The last loaded model, or else the default model. `None` means that there are no models.
pub(crate) fn next(shared: &Shared) -> Result<Option<Model>, StoreError> {
    if let Some(last) = shared.settings().last_model
        && let Some(model) = shared.model(&last)?
    {
        return Ok(Some(model));
    }
    shared.default_model()
}

/// A model whose file can be read.
pub(crate) fn readable(shared: &Shared, id: &str) -> Result<Model, Problem> {
    let model = find(shared, id)?;
    check(&model)?;
    Ok(model)
}

/// Refuses a model whose file cannot be read.
pub(crate) fn check(model: &Model) -> Result<(), Problem> {
    match &model.metadata {
        Ok(_) => Ok(()),
        Err(message) => Err(Problem {
            code: ProblemCode::FileUnreadable,
            message: message.clone(),
        }),
    }
}

/// The model with this id.
pub(crate) fn find(shared: &Shared, id: &str) -> Result<Model, Problem> {
    shared.model(id)?.ok_or_else(|| Problem {
        code: ProblemCode::NotFound,
        message: "This model no longer exists. Choose another one.".to_owned(),
    })
}

/// The worker's choice for a setting of this model, and why the chosen draft model is not used:
/// then the model is loaded all the same, with a draft that needs no file.
pub(crate) fn draft(
    shared: &Shared,
    setting: &DraftSetting,
    target: &Model,
) -> Result<(DraftChoice, Option<DraftProblem>), Problem> {
    let id = match setting {
        DraftSetting::Auto => return Ok((DraftChoice::Auto, None)),
        DraftSetting::None => return Ok((DraftChoice::None, None)),
        DraftSetting::Own => return Ok((DraftChoice::Own { layers: None }, None)),
        DraftSetting::Model { model } => model,
    };
    let draft = shared.model(id)?;
    if let Some(draft) = drafts_of(target, draft.as_slice()).next() {
        let path = draft.path.clone();
        return Ok((DraftChoice::Model { path }, None));
    }
    let problem = match draft {
        None => DraftProblem::Missing,
        Some(Model { name, metadata, .. }) => match metadata {
            Err(_) => DraftProblem::Unreadable { name },
            Ok(_) => DraftProblem::CannotDraft { name },
        },
    };
    Ok((DraftChoice::Auto, Some(problem)))
}

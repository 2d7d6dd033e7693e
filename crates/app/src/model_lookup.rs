//! Lookups of models: by id, for a new answer, and as a draft of another model.

use crate::{
    library::{Model, drafts::drafts_of},
    shared::Shared,
    store::StoreError,
    wire::{DraftProblem, DraftSetting, Problem, ProblemCode},
};
use hearth_protocol::{DraftChoice, ModelsReason};

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
        Err(problem) => Err(Problem {
            code: ProblemCode::FileUnreadable,
            ..problem.clone()
        }),
    }
}

/// The model with this id.
pub(crate) fn find(shared: &Shared, id: &str) -> Result<Model, Problem> {
    let model = shared.model(id)?;
    model.ok_or_else(|| Problem::new(ProblemCode::NotFound, ModelsReason::ModelGone))
}

/// The draft for a setting of the target model, and the problem of the chosen draft model if it
/// cannot be used. Then the draft is [`DraftChoice::Auto`].
pub(crate) fn draft(
    shared: &Shared,
    setting: &DraftSetting,
    target: &Model,
) -> Result<(DraftChoice, Option<DraftProblem>), Problem> {
    let id = match setting {
        DraftSetting::Auto => return Ok((DraftChoice::Auto, None)),
        DraftSetting::None => return Ok((DraftChoice::None, None)),
        DraftSetting::FirstLayers => return Ok((DraftChoice::FirstLayers { layers: None }, None)),
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

//! Finds models: by id, and for a new answer.

use crate::{
    library::Model,
    shared::Shared,
    wire::{Problem, ProblemCode},
};

/// The last loaded model, or else the default model. `None` means that there are no models.
pub(crate) fn next(shared: &Shared) -> Result<Option<Model>, Problem> {
    let models = shared.models()?;
    let last = shared.settings().last_model;
    let chosen = models.iter().find(|model| Some(&model.id) == last.as_ref());
    Ok(chosen.or_else(|| shared.library.default(&models)).cloned())
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
    let models = shared.models()?;
    models.into_iter().find(|model| model.id == id).ok_or_else(|| Problem {
        code: ProblemCode::NotFound,
        message: "This model no longer exists. Choose another one.".to_owned(),
    })
}

//! Newer versions of downloaded models. No server is asked before a person does.

use crate::{
    App,
    library::{Hub, LibraryError, Model, Update, hub::without_query},
    shared::Shared,
    store::download::{self, State},
    wire::{ModelUpdate, Problem, UpdateState},
};
use std::{collections::HashMap, path::PathBuf};

impl App {
    /// Asks the servers of all downloaded models whether these have changed there since.
    ///
    /// # Errors
    /// The network is switched off, or a server cannot be reached.
    pub async fn check_updates(&self) -> Result<Vec<ModelUpdate>, Problem> {
        self.shared
            .asking(|shared| {
                let hub = shared.hub()?;
                let sources = sources(shared)?;
                let models = shared.models()?.into_iter();
                let check = |model: Model| {
                    let recorded = &model.origin.as_ref()?.source;
                    // A list has the query of an address, and a record does not. Other sources are
                    // more exact in a record.
                    let whole = sources
                        .get(&model.path)
                        .filter(|source| without_query(source) == recorded);
                    let source = whole.unwrap_or(recorded);
                    Some(check(shared, &hub, &model, source).map_err(Problem::from))
                };
                models.filter_map(check).collect()
            })
            .await
    }
}

/// What the downloads in the list were asked for, by the file of their model.
fn sources(shared: &Shared) -> Result<HashMap<PathBuf, String>, Problem> {
    let rows = shared.store.read(|t| download::list(t))?;
    let done = rows.into_iter().filter_map(|row| match row.state {
        State::Done(path) => Some((path.into(), row.source)),
        _ => None,
    });
    Ok(done.collect())
}

/// Asks the server of a model.
///
/// # Errors
/// It cannot be reached now: the others probably neither.
fn check(shared: &Shared, hub: &Hub, model: &Model, source: &str) -> Result<ModelUpdate, LibraryError> {
    let state = match shared.library.update(hub, model, source) {
        Ok(Update::Current) => UpdateState::Current,
        Ok(Update::Available) => UpdateState::Available,
        Ok(Update::Unknown(why)) => UpdateState::Unknown { why: why.to_string() },
        Err(error) if error.is_temporary() => return Err(error),
        Err(error) => UpdateState::Unknown { why: error.to_string() },
    };
    Ok(ModelUpdate {
        model: model.id.clone(),
        source: source.to_owned(),
        state,
    })
}

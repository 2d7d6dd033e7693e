//! Methods of [`App`] for models.

use crate::{
    App, adapters,
    announce::Topic,
    chat::{Command, Target},
    convert, downloads, library,
    model_lookup::{self, find},
    shared::Shared,
    store::{model, now},
    wire::{Event, Model, Problem, ProblemCode, Settings, Source},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

impl App {
    /// Loads a model and selects it for new answers. If the memory does not suffice, unused models
    /// are unloaded. Answers in progress are completed by their own models. Progress arrives as
    /// events.
    pub async fn load_model(&self, id: String) -> Result<(), Problem> {
        let target = self
            .shared
            .blocking(move |shared| {
                let target = Target::new(&find(shared, &id)?, shared)?;
                shared.change_settings(|settings| Settings {
                    last_model: Some(id),
                    ..settings
                })?;
                Ok(target)
            })
            .await?;
        self.send_chat(Command::Load(Box::new(target)))
    }

    /// Unloads the selected model, which stops its answers, and all unused models.
    pub async fn unload_model(&self) -> Result<(), Problem> {
        self.send_chat(Command::Unload)
    }

    /// Adds a model by its path; the file is not copied.
    pub async fn add_model(&self, path: PathBuf) -> Result<Model, Problem> {
        self.shared.blocking(move |shared| add(shared, &path, None)).await
    }

    /// Adds the merged export of an adapter to the models. The model has the adapter's name.
    pub async fn add_merged_model(&self, path: PathBuf, adapter: i64) -> Result<Model, Problem> {
        self.shared
            .blocking(move |shared| {
                adapters::get(shared, adapter)?;
                add(shared, &path, Some(adapter))
            })
            .await
    }

    /// The source of a model's chat template. `None` means that its file has none.
    ///
    /// # Errors
    /// The file cannot be read, or its template is longer than the window shows.
    pub async fn chat_template(&self, model: String) -> Result<Option<String>, Problem> {
        self.shared
            .blocking(move |shared| {
                let model = model_lookup::readable(shared, &model)?;
                shared.library.chat_template(&model.path).map_err(|problem| Problem {
                    code: ProblemCode::FileInvalid,
                    ..problem
                })
            })
            .await
    }

    /// Lists the models on this machine again.
    pub async fn rescan_models(&self) -> Result<Vec<Model>, Problem> {
        self.shared
            .blocking(|shared| {
                shared.library.rescan();
                adapters::adopt(shared, None);
                let models = announce(shared)?;
                Ok(convert::models(&models))
            })
            .await
    }

    /// Removes a model from the list. The file of a downloaded model is deleted; a model added by
    /// its path keeps its file.
    pub async fn remove_model(&self, id: String) -> Result<(), Problem> {
        let model = self.shared.blocking(move |shared| find(shared, &id)).await?;
        match model.source {
            Source::Bundled => return Err(library::LibraryError::Bundled { name: model.name }.into()),
            Source::Catalog | Source::File => {}
            _ => return Err(library::LibraryError::Foreign(model.path).into()),
        }
        self.check_idle(&model).await?;
        // Windows does not delete a file that is in use.
        let path = model.path.clone();
        self.request_chat(|done| Command::Remove { path, done }).await?;
        self.shared
            .blocking(move |shared| {
                shared.library.delete(&model)?;
                if let Some(path) = model.path.to_str() {
                    shared.store.write(|t| model::remove(t, path))?;
                }
                announce(shared).map(drop)
            })
            .await
    }

    /// Refuses a model whose files a download is going to replace.
    async fn check_idle(&self, model: &library::Model) -> Result<(), Problem> {
        let (path, name) = (model.path.clone(), model.name.clone());
        self.shared
            .blocking(move |shared| {
                if downloads::writes(shared, &path)? {
                    Err(library::LibraryError::Loading(name).into())
                } else {
                    Ok(())
                }
            })
            .await
    }
}

/// Adds a model by its path, and announces the models.
fn add(shared: &Shared, path: &Path, adapter: Option<i64>) -> Result<Model, Problem> {
    let (added, path_text) = shared.library.check(path)?;
    shared.store.write(|t| {
        model::add(t, &path_text, now())?;
        adapter
            .map(|adapter| model::set_adapter(t, &path_text, adapter))
            .transpose()
    })?;
    let models = announce(shared)?;
    // A file in one of the app's folders is already listed.
    let is_same = |model: &&library::Model| model.id == added.id || model.path == added.path;
    Ok(convert::model(models.iter().find(is_same).unwrap_or(&added), &models))
}

/// Announces the models and the adapters in the background, because their drives may be slow. An
/// error is only logged.
pub(crate) fn announce_later(shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    tokio::task::spawn_blocking(move || {
        if let Err(problem) = announce(&shared) {
            tracing::warn!(%problem, "the models could not be listed");
        }
    });
}

/// Lists the models on this machine, and announces them.
pub(crate) fn announce(shared: &Shared) -> Result<Vec<library::Model>, Problem> {
    let mut models = Vec::new();
    shared.announcer.announce_latest(Topic::Models, || {
        models = shared.models()?;
        Ok::<_, Problem>(Event::ModelsChanged {
            models: convert::models(&models),
        })
    })?;
    // The matches of adapters depend on the models.
    adapters::announce_or_log(shared);
    Ok(models)
}

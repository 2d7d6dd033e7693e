//! Use cases of adapters.

use crate::{
    App,
    convert::{from_json, to_json_unless_empty},
    library, model_lookup,
    shared::Shared,
    store::{StoreError, adapter, conversation, message, now},
    title,
    wire::{Adapter, AdapterChoice, Event, ExportOptions, Exported, Problem, ProblemCode, UsedAdapter, Votes},
};
use hearth_formats::durable::recovery_candidates;
use hearth_protocol::{self as protocol, ExportRequest};
use rusqlite::Transaction;
use std::{fs, path::PathBuf};

impl App {
    /// All adapters, newest first.
    pub async fn adapters(&self) -> Result<Vec<Adapter>, Problem> {
        self.shared.blocking(|shared| Ok(list(shared)?)).await
    }

    /// Imports an adapter, a PEFT folder or a GGUF file, by its path; the file is not copied.
    ///
    /// # Errors
    /// The adapter cannot be read or does not fit the model.
    pub async fn import_adapter(&self, path: PathBuf, model: String) -> Result<Adapter, Problem> {
        self.shared
            .blocking(move |shared| {
                let model = model_lookup::readable(shared, &model)?;
                let full = fs::canonicalize(&path).map_err(|error| Problem {
                    code: ProblemCode::FileUnreadable,
                    message: format!("{} cannot be read: {error}. Check the path.", path.display()),
                })?;
                let full = library::plain(&full);
                let checked = shared.library.check_adapter(&full, &model.path);
                checked.map_err(|message| Problem {
                    code: ProblemCode::AdapterInvalid,
                    message,
                })?;
                let text = full
                    .to_str()
                    .ok_or_else(|| library::LibraryError::NonUtf8Path(full.clone()))?;
                let stem = full.file_stem().unwrap_or_default().to_string_lossy();
                let new = adapter::New {
                    name: &stem,
                    run: None,
                    model: &model.id,
                    model_name: &model.name,
                    path: text,
                    created_at: now(),
                };
                let id = shared.store.write(|t| adapter::add(t, &new))?;
                shared.emit_adapters()?;
                let added = list(shared)?.into_iter().find(|adapter| adapter.id == id);
                added.ok_or_else(no_adapter)
            })
            .await
    }

    /// Renames an adapter.
    pub async fn rename_adapter(&self, id: i64, name: String) -> Result<(), Problem> {
        let name = title::normalised(&name).ok_or_else(title::empty_name)?;
        self.change_adapter(id, move |t| adapter::rename(t, id, &name)).await
    }

    /// Deletes an adapter, which can be restored for a while. The files of an imported one stay.
    pub async fn delete_adapter(&self, id: i64) -> Result<(), Problem> {
        self.change_adapter(id, move |t| adapter::delete(t, id, now())).await?;
        self.purge_later();
        Ok(())
    }

    /// Undoes a deletion.
    pub async fn restore_adapter(&self, id: i64) -> Result<(), Problem> {
        self.change_adapter(id, move |t| adapter::restore(t, id)).await
    }

    /// Exports an adapter in a one-shot worker; may take minutes.
    pub async fn export_adapter(&self, options: ExportOptions) -> Result<Exported, Problem> {
        let request = self
            .shared
            .blocking(move |shared| {
                let row = get(shared, options.adapter)?;
                Ok(ExportRequest {
                    model: model_lookup::readable(shared, &row.model)?.path,
                    adapter: path(shared, &row.model, row.id)?,
                    format: options.format,
                    out: options.out.into(),
                    verify: options.verify,
                })
            })
            .await?;
        self.shared.host.export(request).await
    }

    /// Sets the adapters for new answers of a conversation. Empty means the base model.
    pub async fn set_conversation_adapters(
        &self,
        conversation: i64,
        choices: Vec<AdapterChoice>,
    ) -> Result<(), Problem> {
        self.change(conversation, move |t| {
            conversation::set_adapters(t, conversation, to_json_unless_empty(&choices).as_deref())
        })
        .await
    }

    /// Changes an adapter and emits the list.
    async fn change_adapter(
        &self,
        id: i64,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<bool> + Send + 'static,
    ) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                let (changed, row) = shared.store.write(|t| Ok((write(t)?, adapter::get(t, id)?)))?;
                if !changed {
                    return Err(no_adapter());
                }
                if let Some(run) = row.and_then(|row| row.run) {
                    shared.emit_run(run)?;
                }
                Ok(shared.emit_adapters()?)
            })
            .await
    }
}

impl Shared {
    /// Emits [`Event::AdaptersChanged`].
    pub(crate) fn emit_adapters(&self) -> Result<(), StoreError> {
        let adapters = list(self)?;
        self.emit(Event::AdaptersChanged { adapters });
        Ok(())
    }
}

/// The chosen adapters with their names, for an answer's row. A deleted adapter stays in the list;
/// the answer then fails.
pub(crate) fn with_names(t: &Transaction<'_>, choices: &[AdapterChoice]) -> rusqlite::Result<Vec<UsedAdapter>> {
    choices
        .iter()
        .map(|choice| {
            let row = adapter::get(t, choice.adapter)?;
            Ok(UsedAdapter {
                adapter: choice.adapter,
                name: row.map_or_else(|| "a deleted adapter".to_owned(), |row| row.name),
                scale: choice.scale,
            })
        })
        .collect()
}

/// The adapters of an answer, for a generation request.
pub(crate) fn for_worker(
    shared: &Shared,
    model: &str,
    used: &[UsedAdapter],
) -> Result<Vec<protocol::AdapterChoice>, Problem> {
    used.iter()
        .map(|used| {
            Ok(protocol::AdapterChoice {
                path: path(shared, model, used.adapter)?,
                scale: used.scale,
            })
        })
        .collect()
}

/// The path of an adapter for a model.
///
/// # Errors
/// The adapter is for another model or its files are missing.
pub(crate) fn path(shared: &Shared, model: &str, id: i64) -> Result<PathBuf, Problem> {
    let row = get(shared, id)?;
    if row.model != model {
        return Err(Problem {
            code: ProblemCode::AdapterInvalid,
            message: format!(
                "The adapter \u{201c}{}\u{201d} was trained for {} and fits no other model. Load that model, or \
                 continue without the adapter.",
                row.name, row.model_name
            ),
        });
    }
    match missing(&row) {
        None => Ok(row.path),
        Some(message) => Err(Problem {
            code: ProblemCode::FileUnreadable,
            message,
        }),
    }
}

fn get(shared: &Shared, id: i64) -> Result<adapter::Adapter, Problem> {
    shared.store.read(|t| adapter::get(t, id))?.ok_or_else(no_adapter)
}

fn missing(row: &adapter::Adapter) -> Option<String> {
    let exists =
        row.path.exists() || row.run.is_some() && recovery_candidates(&row.path).iter().any(|path| path.exists());
    (!exists).then(|| {
        format!(
            "The adapter \u{201c}{}\u{201d} is no longer at {}. Put it back, or import it from where it is now.",
            row.name,
            row.path.display()
        )
    })
}

fn list(shared: &Shared) -> Result<Vec<Adapter>, StoreError> {
    let (rows, votes) = shared.store.read(|t| Ok((adapter::list(t)?, message::votes(t)?)))?;
    let ids = |adapters: Option<String>| -> Vec<i64> {
        let used: Vec<UsedAdapter> = from_json(adapters.as_deref()).unwrap_or_default();
        used.iter().map(|used| used.adapter).collect()
    };
    let votes: Vec<_> = votes
        .into_iter()
        .map(|(better, other)| (ids(better), ids(other)))
        .collect();
    let models = shared.models()?;
    let adapters = rows.into_iter().map(|row| {
        let no_model = || {
            let exists = models
                .iter()
                .any(|model| model.id == row.model && model.metadata.is_ok());
            (!exists).then(|| {
                format!(
                    "Its model, {}, is not on this machine. Add it under Models.",
                    row.model_name
                )
            })
        };
        let count = |tuned: bool| {
            let counts = |(better, other): &&(Vec<i64>, Vec<i64>)| if tuned { better } else { other }.contains(&row.id);
            u32::try_from(votes.iter().filter(counts).count()).unwrap_or(u32::MAX)
        };
        Adapter {
            id: row.id,
            run: row.run,
            problem: missing(&row).or_else(no_model),
            votes: Votes {
                tuned: count(true),
                base: count(false),
            },
            outcome: from_json(row.outcome.as_deref()),
            path: row.path.to_string_lossy().into_owned(),
            name: row.name,
            model: row.model,
            model_name: row.model_name,
            created_at: row.created_at,
        }
    });
    Ok(adapters.collect())
}

fn no_adapter() -> Problem {
    Problem {
        code: ProblemCode::NotFound,
        message: "This adapter no longer exists. Choose another one, or continue without.".to_owned(),
    }
}

//! What a person can do with adapters.

use crate::{
    App,
    convert::{from_json, to_json_unless_empty},
    library, models,
    shared::Shared,
    store::{StoreError, adapter, conversation, message, now},
    title,
    tune::{ERRAND, export, no_answer},
    wire::{Adapter, AdapterChoice, Code, Event, ExportOrder, Exported, Problem, UsedAdapter, Votes},
};
use hearth_formats::durable::stand_ins;
use hearth_protocol::{self as protocol, ExportRequest, TrainingEvent};
use rusqlite::Transaction;
use std::{fs, path::PathBuf};

impl App {
    /// All adapters, newest first.
    pub async fn adapters(&self) -> Result<Vec<Adapter>, Problem> {
        self.shared.blocking(|shared| Ok(list(shared)?)).await
    }

    /// Adds an adapter made elsewhere, a PEFT folder or a GGUF file, by its path. It stays where it is. One that
    /// does not fit the model is refused.
    pub async fn import_adapter(&self, path: PathBuf, model: String) -> Result<Adapter, Problem> {
        self.shared
            .blocking(move |shared| {
                let model = models::readable(shared, &model)?;
                let full = fs::canonicalize(&path).map_err(|error| Problem {
                    code: Code::FileUnreadable,
                    message: format!("{} cannot be read: {error}. Check the path.", path.display()),
                })?;
                let full = library::plain(&full);
                let checked = shared.library.check_adapter(&full, &model.path);
                checked.map_err(|message| Problem {
                    code: Code::AdapterInvalid,
                    message,
                })?;
                let kept = full
                    .to_str()
                    .ok_or_else(|| library::LibraryError::StrangePath(full.clone()))?;
                let stem = full.file_stem().unwrap_or_default().to_string_lossy();
                let new = adapter::New {
                    name: &stem,
                    run: None,
                    model: &model.id,
                    model_name: &model.name,
                    path: kept,
                    created_at: now(),
                };
                let id = shared.store.write(|t| adapter::add(t, &new))?;
                shared.emit_adapters()?;
                let added = list(shared)?.into_iter().find(|adapter| adapter.id == id);
                added.ok_or_else(no_adapter)
            })
            .await
    }

    /// Gives an adapter another name.
    pub async fn rename_adapter(&self, id: i64, name: String) -> Result<(), Problem> {
        let name = title::typed(&name).ok_or_else(title::no_name)?;
        self.change_adapter(id, move |t| adapter::rename(t, id, &name)).await
    }

    /// Deletes an adapter, so that it can still be restored for a while. An imported one stays where it is.
    pub async fn delete_adapter(&self, id: i64) -> Result<(), Problem> {
        self.change_adapter(id, move |t| adapter::delete(t, id, now())).await?;
        self.purge_later();
        Ok(())
    }

    /// Takes a deletion back.
    pub async fn restore_adapter(&self, id: i64) -> Result<(), Problem> {
        self.change_adapter(id, move |t| adapter::restore(t, id)).await
    }

    /// Writes an adapter for other programs. Starts a worker for it, and may take minutes.
    pub async fn export_adapter(&self, order: ExportOrder) -> Result<Exported, Problem> {
        let request = self
            .shared
            .blocking(move |shared| {
                let row = get(shared, order.adapter)?;
                Ok(ExportRequest {
                    id: ERRAND,
                    model: models::readable(shared, &row.model)?.path,
                    adapter: path(shared, &row.model, row.id)?,
                    format: order.format.into(),
                    out: order.out.into(),
                    verify: order.verify,
                })
            })
            .await?;
        match export(&self.shared, request).await? {
            TrainingEvent::Exported {
                path,
                bytes,
                verification,
            } => Ok(Exported {
                path: path.to_string_lossy().into_owned(),
                bytes,
                verification: verification.map(Into::into),
            }),
            _ => Err(no_answer()),
        }
    }

    /// Has new answers of a conversation made with adapters; with none, the model answers as it is.
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

    /// Changes one adapter and tells everybody.
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
    /// Tells everybody which adapters there are.
    pub(crate) fn emit_adapters(&self) -> Result<(), StoreError> {
        let adapters = list(self)?;
        self.emit(Event::AdaptersChanged { adapters });
        Ok(())
    }
}

/// The names of adapters that are chosen, for the answers that are made with them. One that is gone keeps its place: the
/// answer then says so.
pub(crate) fn named(t: &Transaction<'_>, choices: &[AdapterChoice]) -> rusqlite::Result<Vec<UsedAdapter>> {
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

/// The adapters of an answer, for a worker that has a model loaded.
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

/// Where an adapter is that is to be put over a model.
pub(crate) fn path(shared: &Shared, model: &str, id: i64) -> Result<PathBuf, Problem> {
    let row = get(shared, id)?;
    if row.model != model {
        return Err(Problem {
            code: Code::AdapterInvalid,
            message: format!(
                "The adapter \u{201c}{}\u{201d} was made for {}, and fits no other model. Load that one, or go on without the \
                 adapter.",
                row.name, row.model_name
            ),
        });
    }
    match missing(&row) {
        None => Ok(row.path),
        Some(message) => Err(Problem {
            code: Code::FileUnreadable,
            message,
        }),
    }
}

fn get(shared: &Shared, id: i64) -> Result<adapter::Adapter, Problem> {
    shared.store.read(|t| adapter::get(t, id))?.ok_or_else(no_adapter)
}

fn missing(row: &adapter::Adapter) -> Option<String> {
    let is_there = row.path.exists() || row.run.is_some() && stand_ins(&row.path).iter().any(|path| path.exists());
    (!is_there).then(|| {
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
            let there = models.iter().any(|model| model.id == row.model && model.facts.is_ok());
            (!there).then(|| {
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
        code: Code::NotFound,
        message: "This adapter is no longer there. Choose another one, or go on without.".to_owned(),
    }
}

//! Methods of [`App`] for adapters.

use crate::{
    App,
    adapter_match::{self, Matched},
    announce::Topic,
    convert::{from_json, to_json_unless_empty},
    library, model_lookup, models, runs,
    shared::Shared,
    store::{StoreError, adapter, conversation, message, model, now, run_name},
    title,
    wire::{
        Adapter, AdapterChoice, AdapterFit, AdapterMatch, Event, ExportFormat, ExportOptions, Exported, Problem,
        ProblemCode, UnmatchedEntries, UsedAdapter, Votes,
    },
};
use hearth_formats::{
    adapter::{self as adapter_file, AdapterHeader},
    durable::recovery_candidates,
};
use hearth_protocol::{self as protocol, ExportRequest, ModelsReason};
use rusqlite::Transaction;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

impl App {
    /// All adapters, newest first.
    pub async fn adapters(&self) -> Result<Vec<Adapter>, Problem> {
        self.shared.blocking(|shared| Ok(list(shared)?)).await
    }

    /// Imports an adapter, a PEFT folder or a GGUF file, by its path; the file is not copied.
    /// Without a model, it is imported for every model that it fits, perhaps none on this machine.
    ///
    /// # Errors
    /// The adapter cannot be read or does not fit the model.
    pub async fn import_adapter(&self, path: PathBuf, model: Option<String>) -> Result<Adapter, Problem> {
        self.shared
            .blocking(move |shared| {
                let model = model.map(|id| model_lookup::readable(shared, &id)).transpose()?;
                let path = fs::canonicalize(&path).map_err(|error| library::no_access(&path, &error))?;
                let path = library::plain(&path);
                check_import(shared, &path, model.as_ref())?;
                if let Some(existing) = list(shared)?
                    .into_iter()
                    .find(|existing| is_same(existing, &path, model.as_ref()))
                {
                    return Ok(existing);
                }
                let path_text = path
                    .to_str()
                    .ok_or_else(|| library::LibraryError::NonUtf8Path(path.clone()))?;
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                let name = title::normalized(&stem).unwrap_or_else(|| "LoRA".to_owned());
                let new = adapter::New {
                    name: &name,
                    run: None,
                    model: model.as_ref().map_or("", |model| &model.id),
                    model_name: model.as_ref().map_or("", |model| &model.name),
                    path: path_text,
                    created_at: now(),
                };
                let id = shared.store.write(|t| add(t, &new))?;
                shared.announce_adapters()?;
                let added = list(shared)?.into_iter().find(|adapter| adapter.id == id);
                added.ok_or_else(no_adapter)
            })
            .await
    }

    /// Renames an adapter, and its run if it has one. A name that is taken gets a number.
    pub async fn rename_adapter(&self, id: i64, name: String) -> Result<(), Problem> {
        let name = title::normalized(&name).ok_or_else(title::empty_name)?;
        self.shared
            .blocking(move |shared| match get(shared, id)?.run {
                Some(run) => runs::rename(shared, run, &name),
                None => Ok(shared
                    .store
                    .write(|t| run_name::rename_imported(t, id, &name).map(drop))?),
            })
            .await?;
        // A merged model has the adapter's name.
        models::announce_later(&self.shared);
        Ok(())
    }

    /// Deletes an adapter, which can be restored for a while. The files of a downloaded or trained
    /// adapter are deleted with it, the files of an imported one are not.
    pub async fn delete_adapter(&self, id: i64) -> Result<(), Problem> {
        self.change_adapter(id, move |t| adapter::delete(t, id, now())).await?;
        self.purge_later();
        Ok(())
    }

    /// Undoes a deletion.
    pub async fn restore_adapter(&self, id: i64) -> Result<(), Problem> {
        self.change_adapter(id, move |t| {
            let is_restored = adapter::restore(t, id)?;
            if is_restored
                && let Some(row) = adapter::get(t, id)?
                && row.run.is_none()
            {
                // Another run or adapter may have got this name meanwhile.
                run_name::rename_imported(t, id, &row.name)?;
            }
            Ok(is_restored)
        })
        .await?;
        // A merged model has the adapter's name.
        models::announce_later(&self.shared);
        Ok(())
    }

    /// Exports an adapter in a one-shot worker; may take minutes. Progress arrives as events.
    pub async fn export_adapter(&self, options: ExportOptions) -> Result<Exported, Problem> {
        let adapter = options.adapter;
        // First, so that no cancellation is missed.
        let mut cancellations = self.shared.export_cancellations.subscribe();
        let (request, previous) = self
            .shared
            .blocking(move |shared| {
                let request = export_request(shared, options)?;
                let written_at = written_at(&request.out);
                Ok((request, written_at))
            })
            .await?;
        let merged = matches!(request.format, ExportFormat::Gguf { .. }).then(|| request.out.clone());
        let progress = |fraction, stage| {
            self.shared.emit(Event::ExportProgress {
                adapter,
                fraction,
                stage,
            });
        };
        let cancelled = async {
            // `shared` owns the sender.
            let _ = cancellations.changed().await;
        };
        let exported = self.shared.host.export(request, progress, cancelled).await;
        if let Some(out) = merged {
            let has_failed = exported.is_err();
            let relinked = self.shared.blocking(move |shared| {
                // A failed verification keeps the file.
                if has_failed && written_at(&out) == previous {
                    return Ok(());
                }
                relink(shared, &out, adapter)
            });
            if let Err(problem) = relinked.await {
                tracing::warn!(%problem, "a replaced model keeps its name");
            }
        }
        exported
    }

    /// Cancels the exports in progress. Of an export that is being verified only the verification
    /// is cancelled.
    pub async fn cancel_export(&self) -> Result<(), Problem> {
        self.shared.export_cancellations.send_modify(|count| *count += 1);
        Ok(())
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
                match row.and_then(|row| row.run) {
                    Some(run) => Ok(shared.announce_run(run)?),
                    None => Ok(()),
                }
            })
            .await?;
        announce_later(&self.shared);
        Ok(())
    }
}

/// The request of an export.
fn export_request(shared: &Shared, options: ExportOptions) -> Result<ExportRequest, Problem> {
    let row = get(shared, options.adapter)?;
    // A backup may have brought any name.
    let name = title::normalized(&row.name);
    let model = base(shared, row)?;
    Ok(ExportRequest {
        name,
        adapter: path(shared, &model.id, options.adapter)?,
        model: model.path,
        format: options.format,
        out: options.out.into(),
        verify: options.verify,
    })
}

/// Adds an imported adapter. A name that is taken gets a number.
fn add(t: &Transaction<'_>, new: &adapter::New<'_>) -> rusqlite::Result<i64> {
    let name = &run_name::unique(t, run_name::Owner::New, new.name)?;
    adapter::add(t, &adapter::New { name, ..new.clone() })
}

/// Modification time of a file. `None` means that there is no such file.
fn written_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Sets the adapter of a listed model whose file a merged export has replaced.
fn relink(shared: &Shared, out: &Path, adapter: i64) -> Result<(), Problem> {
    let path = fs::canonicalize(out).map_err(|error| library::no_access(out, &error))?;
    let path = library::plain(&path);
    let Some(path) = path.to_str() else { return Ok(()) };
    if shared.store.write(|t| model::set_adapter(t, path, adapter))? {
        models::announce(shared)?;
    }
    Ok(())
}

/// Announces the adapters in the background: this lists the models, and their drives may be slow.
pub(crate) fn announce_later(shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    tokio::task::spawn_blocking(move || announce_or_log(&shared));
}

/// Announces the adapters. An error is only logged.
pub(crate) fn announce_or_log(shared: &Shared) {
    if let Err(error) = shared.announce_adapters() {
        tracing::warn!(%error, "the adapters could not be listed");
    }
}

impl Shared {
    /// Announces the adapters.
    pub(crate) fn announce_adapters(&self) -> Result<(), StoreError> {
        let event = || Ok(Event::AdaptersChanged { adapters: list(self)? });
        self.announcer.announce_latest(Topic::Adapters, event)
    }
}

/// The chosen adapters with their names, for an answer's row. A deleted adapter stays in the list,
/// without a name; the answer then fails.
pub(crate) fn with_names(t: &Transaction<'_>, choices: &[AdapterChoice]) -> rusqlite::Result<Vec<UsedAdapter>> {
    choices
        .iter()
        .map(|choice| {
            let row = adapter::get(t, choice.adapter)?;
            Ok(UsedAdapter {
                adapter: choice.adapter,
                name: row.map_or_else(String::new, |row| row.name),
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
/// The adapter does not fit the model or its files are missing.
pub(crate) fn path(shared: &Shared, model: &str, id: i64) -> Result<PathBuf, Problem> {
    let row = get(shared, id)?;
    if let Some(problem) = missing(&row) {
        return Err(problem);
    }
    let path = row.path.clone();
    // The worker compares the adapter with the weights again.
    if row.model == model || fits(shared, row.clone(), model)? {
        return Ok(path);
    }
    let (name, base) = (row.name, row.model_name);
    let reason = if base.is_empty() {
        ModelsReason::AdapterMismatch { name }
    } else {
        ModelsReason::AdapterOfOtherModel { name, base }
    };
    Err(Problem::new(ProblemCode::AdapterInvalid, reason))
}

/// Whether an adapter fits a model by their headers.
fn fits(shared: &Shared, row: adapter::Adapter, model: &str) -> Result<bool, Problem> {
    let model = model_lookup::find(shared, model)?;
    let matched = adapter_match::with_headers(shared, vec![row]);
    let fits = |matched: &Matched| !matches!(matched.fit(shared, &model), None | Some(AdapterFit::Mismatch { .. }));
    Ok(matched.first().is_some_and(fits))
}

/// The model that an adapter is exported for: the base of its run or import, or else the model that
/// it fits best.
fn base(shared: &Shared, row: adapter::Adapter) -> Result<library::Model, Problem> {
    if !row.model.is_empty() {
        return model_lookup::readable(shared, &row.model);
    }
    let (name, models) = (row.name.clone(), shared.models()?);
    let matched = adapter_match::with_headers(shared, vec![row]);
    let matches: Vec<_> = matched
        .iter()
        .flat_map(|matched| matched.matches(shared, &models))
        .collect();
    match adapter_match::best_first(&matches).first() {
        Some(best) => model_lookup::readable(shared, &best.model),
        None => Err(Problem::new(
            ProblemCode::AdapterInvalid,
            ModelsReason::AdapterWithoutModel { name },
        )),
    }
}

/// Checks an adapter before its import: all of its values, for the model or for the model that it
/// fits best. If it fits none, only its headers are checked: its base may be added later.
fn check_import(shared: &Shared, path: &Path, model: Option<&library::Model>) -> Result<(), Problem> {
    if let Some(model) = model {
        return shared.library.check_adapter(path, &model.path).map_err(invalid);
    }
    let row = adapter::Adapter {
        path: path.to_owned(),
        ..adapter::Adapter::default()
    };
    let models = shared.models()?;
    for matched in adapter_match::with_headers(shared, vec![row]) {
        if let Err(problem) = &matched.header {
            return Err(invalid(problem.clone()));
        }
        let matches = matched.matches(shared, &models);
        let best = adapter_match::best_first(&matches)
            .first()
            .map(|best| best.model.clone());
        if let Some(model) = models.iter().find(|model| best.as_ref() == Some(&model.id)) {
            shared.library.check_adapter(path, &model.path).map_err(invalid)?;
        }
    }
    Ok(())
}

/// Whether an adapter of the list is the one of an import: it has this path, and neither has a
/// model.
fn is_same(existing: &Adapter, path: &Path, model: Option<&library::Model>) -> bool {
    Path::new(&existing.path) == path && model.is_none() && existing.model.is_none()
}

/// Adds downloaded adapters that are not in the list yet, such as the downloads of `hearth pull`.
/// A deleted adapter is restored only if it was downloaded again, to `downloaded`.
pub(crate) fn adopt(shared: &Shared, downloaded: Option<&Path>) {
    let own_adapters = shared.library.own_adapters();
    let adopted = shared.store.write(|t| {
        let listed = adapter::paths(t)?;
        let restored = match downloaded.and_then(|path| path.to_str()) {
            Some(path) => adapter::restore_path(t, path)?,
            None => Vec::new(),
        };
        let mut is_changed = !restored.is_empty();
        for (id, name) in restored {
            run_name::rename_imported(t, id, &name)?;
        }
        for own in own_adapters {
            let Some(path) = own.path.to_str().filter(|_| !listed.contains(&own.path)) else {
                continue;
            };
            let name = title::normalized(&own.name).unwrap_or_else(|| "LoRA".to_owned());
            let new = adapter::New {
                name: &name,
                run: None,
                model: "",
                model_name: "",
                path,
                created_at: now(),
            };
            add(t, &new)?;
            is_changed = true;
        }
        Ok(is_changed)
    });
    let announced = adopted.and_then(|is_changed| if is_changed { shared.announce_adapters() } else { Ok(()) });
    if let Err(error) = announced {
        tracing::warn!(%error, "downloaded adapters could not be listed");
    }
}

/// The problem of an adapter that cannot be imported.
fn invalid(problem: Problem) -> Problem {
    Problem {
        code: ProblemCode::AdapterInvalid,
        ..problem
    }
}

pub(crate) fn get(shared: &Shared, id: i64) -> Result<adapter::Adapter, Problem> {
    shared.store.read(|t| adapter::get(t, id))?.ok_or_else(no_adapter)
}

/// The problem of an adapter whose files are missing. `None` means that they exist.
fn missing(row: &adapter::Adapter) -> Option<Problem> {
    let exists =
        row.path.exists() || row.run.is_some() && recovery_candidates(&row.path).iter().any(|path| path.exists());
    (!exists).then(|| {
        let reason = ModelsReason::AdapterMoved {
            name: row.name.clone(),
            path: row.path.display().to_string(),
        };
        Problem::new(ProblemCode::FileUnreadable, reason)
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
    // Votes between an answer with the adapter and one by the base model.
    let count = |id: i64, tuned: bool| {
        let counts = |(better, other): &&(Vec<i64>, Vec<i64>)| {
            let (adapted, base) = if tuned { (better, other) } else { (other, better) };
            adapted.contains(&id) && base.is_empty()
        };
        u32::try_from(votes.iter().filter(counts).count()).unwrap_or(u32::MAX)
    };
    let to_wire = |matched: Matched| Adapter {
        votes: Votes {
            tuned: count(matched.row.id, true),
            base: count(matched.row.id, false),
        },
        ..to_wire(shared, matched, &models)
    };
    Ok(adapter_match::with_headers(shared, rows)
        .into_iter()
        .map(to_wire)
        .collect())
}

/// An adapter without its votes.
fn to_wire(shared: &Shared, matched: Matched, models: &[library::Model]) -> Adapter {
    let matches = matched.matches(shared, models);
    let Matched { row, header } = matched;
    let origin = shared.library.adapter_origin(&row.path).filter(|_| row.run.is_none());
    let problem = missing(&row)
        .or_else(|| unreadable(&row, &header))
        .or_else(|| no_model(&row, &matches));
    let header = header.ok();
    let base = header.as_ref().and_then(|header| header.base_name.clone());
    let recorded_name = header
        .as_ref()
        .and_then(|header| Some(header.base.as_ref()?.file.clone()));
    Adapter {
        id: row.id,
        run: row.run,
        problem,
        votes: Votes::default(),
        outcome: from_json(row.outcome.as_deref()),
        size: library::adapter_size(&row.path),
        base_repository: base
            .clone()
            .filter(|_| header.as_ref().is_some_and(|header| header.is_repository)),
        base_name: base.or(recorded_name).filter(|name| !name.is_empty()),
        unmatched: header.as_ref().map(unmatched).unwrap_or_default(),
        architecture: header.and_then(|header| header.architecture),
        matches,
        is_deletable: row.run.is_some() || origin.is_some(),
        downloaded_from: origin.as_ref().map(|origin| origin.source.clone()),
        license: origin.and_then(|origin| origin.license),
        path: row.path.to_string_lossy().into_owned(),
        name: row.name,
        model: Some(row.model).filter(|model| !model.is_empty()),
        model_name: Some(row.model_name).filter(|name| !name.is_empty()),
        created_at: row.created_at,
    }
}

fn unmatched(header: &AdapterHeader) -> Vec<UnmatchedEntries> {
    let to_wire = |unmatched: &adapter_file::UnmatchedEntries| UnmatchedEntries {
        setting: unmatched.setting.clone(),
        entries: unmatched.entries.clone(),
        more: u32::try_from(unmatched.more).unwrap_or(u32::MAX),
    };
    header.unmatched.iter().map(to_wire).collect()
}

/// The problem of an adapter without a base model here whose headers cannot be read. Other adapters
/// were checked on import or written by a run.
fn unreadable(row: &adapter::Adapter, header: &Result<AdapterHeader, Problem>) -> Option<Problem> {
    header.as_ref().err().filter(|_| row.model.is_empty()).cloned()
}

/// The problem of an adapter whose base model is gone and that fits no other model.
fn no_model(row: &adapter::Adapter, matches: &[AdapterMatch]) -> Option<Problem> {
    let is_lost = !row.model.is_empty() && adapter_match::best_first(matches).is_empty();
    is_lost.then(|| {
        let model = row.model_name.clone();
        Problem::new(ProblemCode::NotFound, ModelsReason::AdapterModelGone { model })
    })
}

fn no_adapter() -> Problem {
    Problem::new(ProblemCode::NotFound, ModelsReason::AdapterGone)
}

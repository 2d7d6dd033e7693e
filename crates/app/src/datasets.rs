//! Methods of [`App`] for datasets.

use crate::{
    App,
    announce::Topic,
    library, model_lookup,
    shared::Shared,
    store::{StoreError, dataset, now},
    title,
    wire::{ColumnMapping, Dataset, Event, Inspection, Problem, ProblemCode, SampleDataset, TuneReason},
};
use hearth_protocol::{DataSource, InspectRequest};
use rusqlite::Transaction;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// File extensions of datasets.
pub const DATASET_EXTENSIONS: [&str; 6] = ["jsonl", "json", "csv", "parquet", "txt", "md"];

/// Number of examples that an inspection shows token by token.
const PREVIEWS: u32 = 8;

impl App {
    /// All datasets, newest first.
    pub async fn datasets(&self) -> Result<Vec<Dataset>, Problem> {
        self.shared.blocking(|shared| Ok(list(shared)?)).await
    }

    /// The sample datasets.
    pub async fn sample_datasets(&self) -> Result<Vec<SampleDataset>, Problem> {
        self.shared.blocking(|shared| Ok(samples(&shared.samples))).await
    }

    /// Adds a dataset by its path; the file is not copied.
    pub async fn add_dataset(&self, path: PathBuf) -> Result<Dataset, Problem> {
        self.shared.blocking(move |shared| add(shared, &path, None)).await
    }

    /// Renames a dataset.
    pub async fn rename_dataset(&self, id: i64, name: String) -> Result<(), Problem> {
        let name = title::normalized(&name).ok_or_else(title::empty_name)?;
        self.change_dataset(move |t| dataset::rename(t, id, &name)).await
    }

    /// Removes a dataset from the list; its file and its runs stay.
    pub async fn remove_dataset(&self, id: i64) -> Result<(), Problem> {
        let deleted_at = self.shared.store.time();
        self.change_dataset(move |t| dataset::delete(t, id, deleted_at)).await
    }

    /// Undoes a removal.
    pub async fn restore_dataset(&self, id: i64) -> Result<(), Problem> {
        self.change_dataset(move |t| dataset::restore(t, id)).await
    }

    /// Inspects a dataset in a one-shot worker, as a run with this model would read it. `mapping`:
    /// `None` means recognized; `sequence`: max sequence length in tokens, `None` means chosen from
    /// the data; `system_prompt`: see `TrainSettings`. A newer inspection cancels it.
    pub async fn inspect_dataset(
        &self,
        id: i64,
        model: String,
        mapping: Option<ColumnMapping>,
        skip_broken: bool,
        sequence: Option<u32>,
        system_prompt: Option<String>,
    ) -> Result<Inspection, Problem> {
        let number = self.shared.host.new_inspection();
        let request = self
            .shared
            .blocking(move |shared| {
                let path = find(shared, id)?.path;
                check_readable(&path)?;
                Ok(InspectRequest {
                    model: model_lookup::readable(shared, &model)?.path,
                    data: DataSource {
                        path,
                        mapping,
                        skip_broken,
                    },
                    sequence,
                    system_prompt,
                    previews: PREVIEWS,
                })
            })
            .await?;
        let inspection = self.shared.host.inspect(number, request).await?;
        let examples = inspection.examples;
        // This fails if the dataset was removed meanwhile.
        let _ = self
            .change_dataset(move |t| dataset::set_examples(t, id, examples))
            .await;
        Ok(inspection)
    }

    /// Changes a dataset and announces the list.
    async fn change_dataset(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<bool> + Send + 'static,
    ) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                if !shared.store.write(write)? {
                    return Err(no_dataset());
                }
                announce(shared)
            })
            .await
    }
}

/// Adds a file as a dataset. `name`: `None` means the file's name without its extension.
pub(crate) fn add(shared: &Shared, path: &Path, name: Option<&str>) -> Result<Dataset, Problem> {
    let canonical = fs::canonicalize(path).map_err(|error| {
        unreadable(TuneReason::FileUnreadable {
            path: path.display().to_string(),
            detail: error.to_string(),
        })
    })?;
    if !canonical.is_file() {
        return Err(unreadable(TuneReason::FileIsFolder {
            path: path.display().to_string(),
        }));
    }
    let canonical = library::plain(&canonical);
    let path_text = canonical
        .to_str()
        .ok_or_else(|| library::LibraryError::NonUtf8Path(canonical.clone()))?;
    let stem = canonical.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.map_or(stem.as_ref(), |name| name);
    let id = shared.store.write(|t| dataset::add(t, path_text, name, now()))?;
    let row = find(shared, id)?;
    announce(shared)?;
    Ok(to_wire(row))
}

/// A dataset that is not removed.
pub(crate) fn find(shared: &Shared, id: i64) -> Result<dataset::Dataset, Problem> {
    shared.store.read(|t| dataset::get(t, id))?.ok_or_else(no_dataset)
}

/// Checks that a dataset's file can be opened. Returns its path as text.
pub(crate) fn check_readable(path: &Path) -> Result<&str, Problem> {
    match problem(path) {
        None => Ok(path.to_str().unwrap_or_default()),
        Some(problem) => Err(problem),
    }
}

/// The problem of a file that cannot be opened.
fn problem(path: &Path) -> Option<Problem> {
    let error = fs::File::open(path).err()?;
    Some(unreadable(TuneReason::DatasetUnreadable {
        path: path.display().to_string(),
        detail: error.to_string(),
    }))
}

fn unreadable(reason: TuneReason) -> Problem {
    Problem::new(ProblemCode::FileUnreadable, reason)
}

fn list(shared: &Shared) -> Result<Vec<Dataset>, StoreError> {
    let rows = shared.store.read(|t| dataset::list(t))?;
    Ok(rows.into_iter().map(to_wire).collect())
}

fn to_wire(row: dataset::Dataset) -> Dataset {
    Dataset {
        id: row.id,
        problem: problem(&row.path),
        path: row.path.to_string_lossy().into_owned(),
        name: row.name,
        added_at: row.added_at,
        examples: row.examples,
    }
}

fn announce(shared: &Shared) -> Result<(), Problem> {
    let event = || list(shared).map(|datasets| Event::DatasetsChanged { datasets });
    Ok(shared.announcer.announce_latest(Topic::Datasets, event)?)
}

/// The datasets in folders, sorted and deduplicated by name. Missing folders are skipped.
fn samples(folders: &[PathBuf]) -> Vec<SampleDataset> {
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let mut samples: Vec<SampleDataset> = files
        .filter_map(|file| {
            let (path, metadata) = file.and_then(|file| Ok((file.path(), file.metadata()?))).ok()?;
            let extension = path.extension()?.to_str()?.to_lowercase();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_dataset = metadata.is_file() && DATASET_EXTENSIONS.contains(&extension.as_str()) && name != "README";
            is_dataset.then(|| SampleDataset {
                name,
                path: path.to_string_lossy().into_owned(),
                size: metadata.len(),
            })
        })
        .collect();
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    samples.dedup_by(|a, b| a.name == b.name);
    samples
}

fn no_dataset() -> Problem {
    Problem::new(ProblemCode::NotFound, TuneReason::NoDataset)
}

//! The page's commands for fine-tuning, one line each.

use super::Response;
use hearth_app::App;
use hearth_app::wire::{
    Adapter, ColumnMapping, Dataset, ExportOptions, Exported, Inspection, NewRun, Run, RunCurves, SampleDataset,
    TrainSettings,
};
use std::path::PathBuf;
use tauri::{State, command};

#[command]
pub async fn datasets(app: State<'_, App>) -> Response<Vec<Dataset>> {
    app.datasets().await
}

#[command]
pub async fn sample_datasets(app: State<'_, App>) -> Response<Vec<SampleDataset>> {
    app.sample_datasets().await
}

#[command]
pub async fn add_dataset(app: State<'_, App>, path: PathBuf) -> Response<Dataset> {
    app.add_dataset(path).await
}

#[command]
pub async fn rename_dataset(app: State<'_, App>, id: i64, name: String) -> Response<()> {
    app.rename_dataset(id, name).await
}

#[command]
pub async fn remove_dataset(app: State<'_, App>, id: i64) -> Response<()> {
    app.remove_dataset(id).await
}

#[command]
pub async fn restore_dataset(app: State<'_, App>, id: i64) -> Response<()> {
    app.restore_dataset(id).await
}

#[command]
pub async fn inspect_dataset(
    app: State<'_, App>,
    id: i64,
    model: String,
    mapping: Option<ColumnMapping>,
    skip_broken: bool,
    sequence: Option<u32>,
) -> Response<Inspection> {
    app.inspect_dataset(id, model, mapping, skip_broken, sequence).await
}

#[command]
pub async fn rated_examples(app: State<'_, App>) -> Response<usize> {
    app.rated_examples().await
}

#[command]
pub async fn dataset_from_ratings(app: State<'_, App>, name: String) -> Response<Dataset> {
    app.dataset_from_ratings(name).await
}

#[command]
pub async fn runs(app: State<'_, App>) -> Response<Vec<Run>> {
    app.runs().await
}

#[command]
pub async fn run_points(app: State<'_, App>, id: i64) -> Response<RunCurves> {
    app.run_points(id).await
}

#[command]
pub fn train_defaults(app: State<'_, App>) -> TrainSettings {
    app.train_defaults()
}

#[command]
pub async fn start_run(app: State<'_, App>, run: NewRun) -> Response<Run> {
    app.start_run(run).await
}

#[command]
pub async fn pause_run(app: State<'_, App>, id: i64) -> Response<()> {
    app.pause_run(id).await
}

#[command]
pub async fn resume_run(app: State<'_, App>, id: i64) -> Response<()> {
    app.resume_run(id).await
}

#[command]
pub async fn stop_run(app: State<'_, App>, id: i64) -> Response<()> {
    app.stop_run(id).await
}

#[command]
pub async fn rename_run(app: State<'_, App>, id: i64, name: String) -> Response<()> {
    app.rename_run(id, name).await
}

#[command]
pub async fn delete_run(app: State<'_, App>, id: i64) -> Response<()> {
    app.delete_run(id).await
}

#[command]
pub async fn restore_run(app: State<'_, App>, id: i64) -> Response<()> {
    app.restore_run(id).await
}

#[command]
pub async fn adapters(app: State<'_, App>) -> Response<Vec<Adapter>> {
    app.adapters().await
}

#[command]
pub async fn import_adapter(app: State<'_, App>, path: PathBuf, model: String) -> Response<Adapter> {
    app.import_adapter(path, model).await
}

#[command]
pub async fn rename_adapter(app: State<'_, App>, id: i64, name: String) -> Response<()> {
    app.rename_adapter(id, name).await
}

#[command]
pub async fn delete_adapter(app: State<'_, App>, id: i64) -> Response<()> {
    app.delete_adapter(id).await
}

#[command]
pub async fn restore_adapter(app: State<'_, App>, id: i64) -> Response<()> {
    app.restore_adapter(id).await
}

#[command]
pub async fn export_adapter(app: State<'_, App>, options: ExportOptions) -> Response<Exported> {
    app.export_adapter(options).await
}

//! The page's commands, one line each.

mod dialogs;
mod hardware;
mod tune;

use crate::window;
use hearth_app::App;
use hearth_app::wire::{
    AdapterChoice, Compared, Conversation, Model, Problem, SearchHit, Sent, Settings, Snapshot, Thumb,
};
use std::path::PathBuf;
use tauri::ipc::Invoke;
use tauri::{AppHandle, State, Wry, command};

type Response<T> = Result<T, Problem>;

/// Tauri's handler of all commands.
pub fn handler() -> impl Fn(Invoke<Wry>) -> bool + Send + Sync + 'static {
    tauri::generate_handler![
        snapshot,
        open_conversation,
        send,
        regenerate,
        edit,
        stop,
        select_leaf,
        rename_conversation,
        delete_conversation,
        restore_conversation,
        set_system_prompt,
        search,
        load_model,
        unload_model,
        add_model,
        remove_model,
        set_settings,
        compare,
        vote_answer,
        rate_answer,
        set_conversation_adapters,
        hardware::devices,
        hardware::check_device,
        hardware::plan,
        hardware::measure,
        hardware::stop_measuring,
        hardware::measurements,
        hardware::report,
        hardware::caches,
        hardware::clear_cache,
        dialogs::choose_model_file,
        dialogs::choose_data_file,
        dialogs::choose_adapter,
        dialogs::choose_export_target,
        tune::datasets,
        tune::sample_datasets,
        tune::add_dataset,
        tune::rename_dataset,
        tune::remove_dataset,
        tune::restore_dataset,
        tune::inspect_dataset,
        tune::rated_examples,
        tune::dataset_from_ratings,
        tune::runs,
        tune::run_points,
        tune::train_defaults,
        tune::start_run,
        tune::pause_run,
        tune::resume_run,
        tune::stop_run,
        tune::rename_run,
        tune::delete_run,
        tune::restore_run,
        tune::adapters,
        tune::import_adapter,
        tune::rename_adapter,
        tune::delete_adapter,
        tune::restore_adapter,
        tune::export_adapter,
    ]
}

#[command]
async fn snapshot(app: State<'_, App>) -> Response<Snapshot> {
    app.snapshot().await
}

#[command]
async fn open_conversation(app: State<'_, App>, id: i64) -> Response<Conversation> {
    app.open_conversation(id).await
}

#[command]
async fn send(app: State<'_, App>, conversation: Option<i64>, parent: Option<i64>, text: String) -> Response<Sent> {
    app.send(conversation, parent, text).await
}

#[command]
async fn regenerate(app: State<'_, App>, message: i64) -> Response<Sent> {
    app.regenerate(message).await
}

#[command]
async fn edit(app: State<'_, App>, message: i64, text: String) -> Response<Sent> {
    app.edit(message, text).await
}

#[command]
async fn stop(app: State<'_, App>, conversation: i64) -> Response<()> {
    app.stop(conversation).await
}

#[command]
async fn select_leaf(app: State<'_, App>, conversation: i64, message: i64) -> Response<Conversation> {
    app.select_leaf(conversation, message).await
}

#[command]
async fn rename_conversation(app: State<'_, App>, id: i64, title: String) -> Response<()> {
    app.rename_conversation(id, title).await
}

#[command]
async fn delete_conversation(app: State<'_, App>, id: i64) -> Response<()> {
    app.delete_conversation(id).await
}

#[command]
async fn restore_conversation(app: State<'_, App>, id: i64) -> Response<()> {
    app.restore_conversation(id).await
}

#[command]
async fn set_system_prompt(app: State<'_, App>, conversation: i64, text: Option<String>) -> Response<()> {
    app.set_system_prompt(conversation, text).await
}

#[command]
async fn search(app: State<'_, App>, query: String) -> Response<Vec<SearchHit>> {
    app.search(query).await
}

#[command]
async fn compare(
    app: State<'_, App>,
    conversation: Option<i64>,
    parent: Option<i64>,
    text: String,
    adapters: Vec<AdapterChoice>,
) -> Response<Compared> {
    app.compare(conversation, parent, text, adapters).await
}

#[command]
async fn vote_answer(app: State<'_, App>, message: i64, better: bool) -> Response<()> {
    app.vote_answer(message, better).await
}

#[command]
async fn rate_answer(
    app: State<'_, App>,
    message: i64,
    thumb: Option<Thumb>,
    correction: Option<String>,
) -> Response<()> {
    app.rate_answer(message, thumb, correction).await
}

#[command]
async fn set_conversation_adapters(
    app: State<'_, App>,
    conversation: i64,
    choices: Vec<AdapterChoice>,
) -> Response<()> {
    app.set_conversation_adapters(conversation, choices).await
}

#[command]
async fn load_model(app: State<'_, App>, id: String) -> Response<()> {
    app.load_model(id).await
}

#[command]
async fn unload_model(app: State<'_, App>) -> Response<()> {
    app.unload_model().await
}

#[command]
async fn add_model(app: State<'_, App>, path: PathBuf) -> Response<Model> {
    app.add_model(path).await
}

#[command]
async fn remove_model(app: State<'_, App>, id: String) -> Response<()> {
    app.remove_model(id).await
}

#[command]
async fn set_settings(window: AppHandle, app: State<'_, App>, settings: Settings) -> Response<()> {
    let theme = settings.theme;
    app.set_settings(settings).await?;
    // The page already shows the theme; only the frame may fail to follow.
    let _ = window::set_theme(&window, theme);
    Ok(())
}

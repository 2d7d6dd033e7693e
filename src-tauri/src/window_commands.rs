//! The commands that need the window: the system's file dialogs, and the settings, whose theme is
//! also the frame's.

use crate::{links, tray, window};
use hearth_app::wire::{ChatFormat, ExportFormat, Link, Problem, ProblemCode, Settings, TrayContent};
use hearth_app::{App, DATASET_EXTENSIONS, file_name, path_text, preset_file_stem};
use std::path::PathBuf;
use tauri::{AppHandle, Manager, Wry};
use tauri_plugin_dialog::{DialogExt, FileDialogBuilder, FilePath};
use tauri_plugin_opener::OpenerExt;
use tokio::sync::oneshot;

/// A file dialog of the window, which stays in front of it.
fn dialog(app: &AppHandle, title: &str) -> FileDialogBuilder<Wry> {
    let dialog = app.dialog().file().set_title(title);
    match window::main(app) {
        Some(window) => dialog.set_parent(&window),
        None => dialog,
    }
}

/// Called with what was chosen, or with `None` if the dialog was cancelled.
type Chosen<T> = Box<dyn FnOnce(Option<T>) + Send>;

/// Opens a dialog and waits for its answer without blocking a thread. Returns `None` if the dialog
/// was cancelled.
async fn answer(open: impl FnOnce(Chosen<FilePath>)) -> Result<Option<String>, Problem> {
    chosen(open).await?.map(path_of).transpose()
}

/// As [`answer`], of a dialog for several files. Returns none if it was cancelled.
async fn answers(open: impl FnOnce(Chosen<Vec<FilePath>>)) -> Result<Vec<String>, Problem> {
    chosen(open)
        .await?
        .unwrap_or_default()
        .into_iter()
        .map(path_of)
        .collect()
}

async fn chosen<T: Send + 'static>(open: impl FnOnce(Chosen<T>)) -> Result<Option<T>, Problem> {
    let (send, receive) = oneshot::channel();
    open(Box::new(move |chosen| {
        // The receiver is dropped if the page is gone.
        let _ = send.send(chosen);
    }));
    // The sender is dropped if the main thread has ended.
    receive
        .await
        .map_err(|_| internal("The file dialog could not be opened."))
}

fn path_of(chosen: FilePath) -> Result<String, Problem> {
    // A URL of something that is not a file.
    let path = chosen
        .into_path()
        .map_err(|_| internal("The chosen item is not a file on this computer. Choose another one."))?;
    path_text(path)
}

fn internal(message: &str) -> Problem {
    Problem {
        code: ProblemCode::Internal,
        message: message.to_owned(),
    }
}

pub async fn set_settings(window: AppHandle, settings: Settings) -> Result<(), Problem> {
    /// Orders calls: the settings that are saved last are applied last.
    static ORDER: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _turn = ORDER.lock().await;
    let (theme, tray) = (settings.theme, settings.tray);
    window.state::<App>().set_settings(settings).await?;
    tray::follow(&window, tray);
    // The page already shows the theme; only the frame may fail to follow.
    let _ = window::set_theme(&window, theme);
    Ok(())
}

pub async fn choose_model_file(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Add a model").add_filter("GGUF model", &["gguf"]);
    answer(|chosen| dialog.pick_file(chosen)).await
}

pub async fn choose_model_folder(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Add a folder of models");
    answer(|chosen| dialog.pick_folder(chosen)).await
}

pub async fn choose_data_file(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Add a dataset").add_filter("Examples", &DATASET_EXTENSIONS);
    answer(|chosen| dialog.pick_file(chosen)).await
}

pub async fn choose_text_files(window: AppHandle) -> Result<Vec<String>, Problem> {
    let dialog = dialog(&window, "Add files to the message");
    answers(|chosen| dialog.pick_files(chosen)).await
}

pub async fn choose_adapter(window: AppHandle, folder: bool) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Import an adapter");
    if folder {
        return answer(|chosen| dialog.pick_folder(chosen)).await;
    }
    let dialog = dialog.add_filter("GGUF adapter", &["gguf"]);
    answer(|chosen| dialog.pick_file(chosen)).await
}

pub async fn choose_import(window: AppHandle, folder: bool) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Import conversations");
    if folder {
        return answer(|chosen| dialog.pick_folder(chosen)).await;
    }
    let dialog = dialog.add_filter("Export of conversations", &["zip", "json", "jsonl"]);
    answer(|chosen| dialog.pick_file(chosen)).await
}

pub async fn choose_chat_export(
    window: AppHandle,
    format: ChatFormat,
    title: String,
) -> Result<Option<String>, Problem> {
    let (kind, extension) = match format {
        ChatFormat::Markdown => ("Markdown", "md"),
        ChatFormat::Html => ("HTML", "html"),
        ChatFormat::Json => ("JSON", "json"),
    };
    let dialog = dialog(&window, "Export conversations")
        .add_filter(kind, &[extension])
        .set_file_name(format!("{}.{extension}", file_name(&title)));
    answer(|chosen| dialog.save_file(chosen)).await
}

pub async fn choose_backup_target(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Back up everything")
        .add_filter("Backup of Hearth", &["hearthbackup"])
        .set_file_name("Hearth.hearthbackup");
    answer(|chosen| dialog.save_file(chosen)).await
}

pub async fn choose_backup(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Restore a backup").add_filter("Backup of Hearth", &["hearthbackup", "zip"]);
    answer(|chosen| dialog.pick_file(chosen)).await
}

pub async fn choose_preset(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Import a preset").add_filter("Preset of Hearth", &["json"]);
    answer(|chosen| dialog.pick_file(chosen)).await
}

pub async fn choose_preset_target(window: AppHandle, name: String) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Export a preset")
        .add_filter("Preset of Hearth", &["json"])
        .set_file_name(format!("{}.json", preset_file_stem(&name)));
    answer(|chosen| dialog.save_file(chosen)).await
}

pub async fn choose_data_folder(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Move the data folder");
    answer(|chosen| dialog.pick_folder(chosen)).await
}

pub async fn move_data(window: AppHandle, folder: PathBuf) -> Result<(), Problem> {
    let app: App = window.state::<App>().inner().clone();
    app.move_data(folder).await?;
    window.request_restart();
    Ok(())
}

pub async fn restart(window: AppHandle) -> Result<(), Problem> {
    window.request_restart();
    Ok(())
}

pub async fn notify(window: AppHandle, title: String, body: String) -> Result<(), Problem> {
    window::notify(&window, title, body);
    Ok(())
}

pub async fn set_tray(window: AppHandle, content: Option<TrayContent>) -> Result<bool, Problem> {
    let set = tauri::async_runtime::spawn_blocking(move || tray::set(&window, content.as_ref()));
    set.await.map_err(|_| internal("The tray's icon could not be set."))
}

pub async fn take_links(window: AppHandle) -> Result<Vec<Link>, Problem> {
    Ok(links::take(&window))
}

pub async fn open_data_folder(window: AppHandle) -> Result<(), Problem> {
    let folder = path_text(window.state::<App>().data_folder().to_owned())?;
    let opened = window.opener().open_path(folder, None::<&str>);
    opened.map_err(|error| internal(&format!("The folder could not be opened: {error}.")))
}

pub async fn choose_export_target(
    window: AppHandle,
    format: ExportFormat,
    name: String,
) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Export an adapter");
    let dialog = match format {
        // A new folder.
        ExportFormat::Peft => dialog.set_file_name(name),
        ExportFormat::GgufLora | ExportFormat::Gguf { .. } => dialog
            .add_filter("GGUF", &["gguf"])
            .set_file_name(format!("{name}.gguf")),
    };
    answer(|chosen| dialog.save_file(chosen)).await
}

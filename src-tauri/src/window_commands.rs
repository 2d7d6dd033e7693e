//! The commands that need the window: file dialogs of the system, notifications, the tray, and the
//! settings, whose theme applies to the window's frame.

use crate::{links, tray, window};
use hearth_app::wire::{ChatFormat, ChatReason, ExportFormat, Link, Problem, ProblemCode, Settings, TrayContent};
use hearth_app::{App, DATASET_EXTENSIONS, backup_file_name, check_local, file_name, path_text, preset_file_stem};
use std::path::PathBuf;
use tauri::{AppHandle, Manager, Wry};
use tauri_plugin_dialog::{DialogExt, FileDialogBuilder, FilePath};
use tauri_plugin_opener::OpenerExt;
use tokio::sync::oneshot;

/// A file dialog of the window, which stays in front of it.
fn dialog(app: &AppHandle, title: String) -> FileDialogBuilder<Wry> {
    let dialog = app.dialog().file().set_title(title);
    match window::main(app) {
        Some(window) => dialog.set_parent(&window),
        None => dialog,
    }
}

/// Callback of a dialog with the selection, or with `None` if the dialog was cancelled.
type Callback<T> = Box<dyn FnOnce(Option<T>) + Send>;

/// Opens a dialog for a path and waits for the selection without blocking a thread. Returns `None`
/// if the dialog was cancelled.
async fn pick_path(open: impl FnOnce(Callback<FilePath>)) -> Result<Option<String>, Problem> {
    selection(open).await?.map(path_of).transpose()
}

/// Like [`pick_path`], for several files. Returns an empty list if the dialog was cancelled.
async fn pick_paths(open: impl FnOnce(Callback<Vec<FilePath>>)) -> Result<Vec<String>, Problem> {
    selection(open)
        .await?
        .unwrap_or_default()
        .into_iter()
        .map(path_of)
        .collect()
}

/// Opens a dialog and waits for the argument of its callback.
async fn selection<T: Send + 'static>(open: impl FnOnce(Callback<T>)) -> Result<Option<T>, Problem> {
    let (sender, receiver) = oneshot::channel();
    open(Box::new(move |selection| {
        // The receiver is dropped if the page is gone.
        let _ = sender.send(selection);
    }));
    // The sender is dropped if the main thread has ended.
    receiver.await.map_err(|_| internal(ChatReason::DialogNotOpened))
}

/// The path of a selection as text.
fn path_of(selection: FilePath) -> Result<String, Problem> {
    // This fails for a URL of another scheme than `file`.
    let path = selection
        .into_path()
        .map_err(|_| internal(ChatReason::ChosenNotAFile))?;
    path_text(path)
}

fn internal(reason: ChatReason) -> Problem {
    Problem::new(ProblemCode::Internal, reason)
}

pub async fn set_settings(window: AppHandle, settings: Settings) -> Result<(), Problem> {
    /// Serializes calls, so that the settings that are saved last are also applied last.
    static APPLYING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _guard = APPLYING.lock().await;
    let (theme, tray) = (settings.theme, settings.tray);
    window.state::<App>().set_settings(settings).await?;
    tray::apply_setting(&window, tray);
    // The page shows the theme already, so a failure affects only the frame.
    let _ = window::set_theme(&window, theme);
    Ok(())
}

pub async fn choose_model_file(window: AppHandle, title: String, files: String) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title).add_filter(files, &["gguf"]);
    pick_path(|callback| dialog.pick_file(callback)).await
}

pub async fn choose_model_folder(window: AppHandle, title: String) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title);
    pick_path(|callback| dialog.pick_folder(callback)).await
}

pub async fn choose_data_file(window: AppHandle, title: String, files: String) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title).add_filter(files, &DATASET_EXTENSIONS);
    pick_path(|callback| dialog.pick_file(callback)).await
}

pub async fn choose_text_files(window: AppHandle, title: String) -> Result<Vec<String>, Problem> {
    let dialog = dialog(&window, title);
    pick_paths(|callback| dialog.pick_files(callback)).await
}

pub async fn choose_adapter(
    window: AppHandle,
    folder: bool,
    title: String,
    files: String,
) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title);
    if folder {
        return pick_path(|callback| dialog.pick_folder(callback)).await;
    }
    let dialog = dialog.add_filter(files, &["gguf"]);
    pick_path(|callback| dialog.pick_file(callback)).await
}

pub async fn choose_import(
    window: AppHandle,
    folder: bool,
    title: String,
    files: String,
) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title);
    if folder {
        return pick_path(|callback| dialog.pick_folder(callback)).await;
    }
    let dialog = dialog.add_filter(files, &["zip", "json", "jsonl"]);
    pick_path(|callback| dialog.pick_file(callback)).await
}

pub async fn choose_chat_export(
    window: AppHandle,
    format: ChatFormat,
    name: String,
    title: String,
) -> Result<Option<String>, Problem> {
    let (kind, extension) = match format {
        ChatFormat::Markdown => ("Markdown", "md"),
        ChatFormat::Html => ("HTML", "html"),
        ChatFormat::Json => ("JSON", "json"),
    };
    let dialog = dialog(&window, title)
        .add_filter(kind, &[extension])
        .set_file_name(format!("{}.{extension}", file_name(&name)));
    pick_path(|callback| dialog.save_file(callback)).await
}

pub async fn choose_backup_target(window: AppHandle, title: String, files: String) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title)
        .add_filter(files, &["hearthbackup"])
        .set_file_name(backup_file_name());
    pick_path(|callback| dialog.save_file(callback)).await
}

pub async fn choose_backup(window: AppHandle, title: String, files: String) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title).add_filter(files, &["hearthbackup", "zip"]);
    pick_path(|callback| dialog.pick_file(callback)).await
}

pub async fn choose_preset(window: AppHandle, title: String, files: String) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title).add_filter(files, &["json"]);
    pick_path(|callback| dialog.pick_file(callback)).await
}

pub async fn choose_preset_target(
    window: AppHandle,
    name: String,
    title: String,
    files: String,
) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title)
        .add_filter(files, &["json"])
        .set_file_name(format!("{}.json", preset_file_stem(&name)));
    pick_path(|callback| dialog.save_file(callback)).await
}

pub async fn choose_data_folder(window: AppHandle, title: String) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title);
    pick_path(|callback| dialog.pick_folder(callback)).await
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
    let result = tauri::async_runtime::spawn_blocking(move || tray::set(&window, content.as_ref()));
    result.await.map_err(|_| internal(ChatReason::TrayNotSet))
}

pub async fn take_links(window: AppHandle) -> Result<Vec<Link>, Problem> {
    Ok(links::take(&window))
}

pub async fn open_data_folder(window: AppHandle) -> Result<(), Problem> {
    let folder = path_text(window.state::<App>().data_folder().to_owned())?;
    let opened = window.opener().open_path(folder, None::<&str>);
    opened.map_err(|error| {
        internal(ChatReason::DataFolderNotOpened {
            detail: error.to_string(),
        })
    })
}

pub async fn show_in_folder(window: AppHandle, path: PathBuf) -> Result<(), Problem> {
    check_local(&path)?;
    let opener = window.opener();
    let shown = opener.reveal_item_in_dir(&path);
    let parent = path.parent().filter(|parent| parent.is_dir());
    let shown = shown.or_else(|error| match parent {
        // The desktop has no file manager that can select files.
        Some(parent) => opener.open_path(parent.to_string_lossy(), None::<&str>),
        None => Err(error),
    });
    shown.map_err(|error| {
        internal(ChatReason::DataFolderNotOpened {
            detail: error.to_string(),
        })
    })
}

pub async fn choose_export_target(
    window: AppHandle,
    format: ExportFormat,
    name: String,
    title: String,
) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, title);
    let dialog = match format {
        // A new folder.
        ExportFormat::Peft => dialog.set_file_name(name),
        ExportFormat::GgufLora | ExportFormat::Gguf { .. } => dialog
            .add_filter("GGUF", &["gguf"])
            .set_file_name(format!("{name}.gguf")),
    };
    pick_path(|callback| dialog.save_file(callback)).await
}

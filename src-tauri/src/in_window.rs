//! The commands that need the window: the system's file dialogs, which block, and the settings,
//! whose theme is also the frame's.

use crate::window;
use hearth_app::wire::{ExportFormat, Problem, Settings};
use hearth_app::{App, DATASET_EXTENSIONS};
use tauri::{AppHandle, Manager, Wry};
use tauri_plugin_dialog::{DialogExt, FileDialogBuilder, FilePath};

fn dialog(window: &AppHandle, title: &str) -> FileDialogBuilder<Wry> {
    window.dialog().file().set_title(title)
}

fn text(chosen: Option<FilePath>) -> Option<String> {
    let path = chosen?.into_path().ok()?;
    Some(path.to_string_lossy().into_owned())
}

pub async fn set_settings(window: AppHandle, settings: Settings) -> Result<(), Problem> {
    let theme = settings.theme;
    window.state::<App>().set_settings(settings).await?;
    // The page already shows the theme; only the frame may fail to follow.
    let _ = window::set_theme(&window, theme);
    Ok(())
}

pub async fn choose_model_file(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Add a model").add_filter("GGUF model", &["gguf"]);
    Ok(text(dialog.blocking_pick_file()))
}

pub async fn choose_data_file(window: AppHandle) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Add a dataset").add_filter("Examples", &DATASET_EXTENSIONS);
    Ok(text(dialog.blocking_pick_file()))
}

pub async fn choose_adapter(window: AppHandle, folder: bool) -> Result<Option<String>, Problem> {
    let dialog = dialog(&window, "Import an adapter");
    if folder {
        return Ok(text(dialog.blocking_pick_folder()));
    }
    Ok(text(dialog.add_filter("GGUF adapter", &["gguf"]).blocking_pick_file()))
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
    Ok(text(dialog.blocking_save_file()))
}

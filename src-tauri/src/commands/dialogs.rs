//! The system's file dialogs. Each blocks, so it runs in its own thread.

use hearth_app::DATASET_EXTENSIONS;
use hearth_app::wire::ExportFormat;
use tauri::{AppHandle, Wry, command};
use tauri_plugin_dialog::{DialogExt, FileDialogBuilder, FilePath};

fn dialog(window: &AppHandle, title: &str) -> FileDialogBuilder<Wry> {
    window.dialog().file().set_title(title)
}

fn text(chosen: Option<FilePath>) -> Option<String> {
    let path = chosen?.into_path().ok()?;
    Some(path.to_string_lossy().into_owned())
}

#[command(async)]
pub fn choose_model_file(window: AppHandle) -> Option<String> {
    let dialog = dialog(&window, "Add a model").add_filter("GGUF model", &["gguf"]);
    text(dialog.blocking_pick_file())
}

#[command(async)]
pub fn choose_data_file(window: AppHandle) -> Option<String> {
    let dialog = dialog(&window, "Add a dataset").add_filter("Examples", &DATASET_EXTENSIONS);
    text(dialog.blocking_pick_file())
}

#[command(async)]
pub fn choose_adapter(window: AppHandle, folder: bool) -> Option<String> {
    let dialog = dialog(&window, "Import an adapter");
    if folder {
        return text(dialog.blocking_pick_folder());
    }
    text(dialog.add_filter("GGUF adapter", &["gguf"]).blocking_pick_file())
}

#[command(async)]
pub fn choose_export_target(window: AppHandle, format: ExportFormat, name: String) -> Option<String> {
    let dialog = dialog(&window, "Export an adapter");
    match format {
        // A new folder.
        ExportFormat::Peft => text(dialog.set_file_name(name).blocking_save_file()),
        ExportFormat::GgufLora | ExportFormat::Gguf { .. } => {
            let dialog = dialog
                .add_filter("GGUF", &["gguf"])
                .set_file_name(format!("{name}.gguf"));
            text(dialog.blocking_save_file())
        }
    }
}

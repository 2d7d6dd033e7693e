//! Starting the app: plugins, options, the store, the window.

use crate::links;
use crate::{close, power::SystemPower, recovery, tray, window};
use hearth_app::library::data_folder;
use hearth_app::wire::{EVENT_NAME, Problem, ProblemCode, Theme};
use hearth_app::{App, Options};
use std::path::PathBuf;
use std::sync::Arc;
use tauri::{AppHandle, Builder, Emitter, Manager, Wry};
use tauri_plugin_window_state::StateFlags;

/// Environment variable of the data folder. Setting it allows another instance with its own data.
const DATA: &str = "HEARTH_DATA";

/// Adds the plugins.
pub fn plugins(builder: Builder<Wry>) -> Builder<Wry> {
    let mut state = tauri_plugin_window_state::Builder::default()
        .with_state_flags(StateFlags::SIZE | StateFlags::POSITION | StateFlags::MAXIMIZED);
    let data = std::env::var_os(DATA)
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    if let Some(data) = &data {
        state = state.with_filename(data.join("window.json").to_string_lossy());
    }
    let builder = builder
        .plugin(tauri_plugin_dialog::init())
        .plugin(tauri_plugin_notification::init())
        .plugin(tauri_plugin_opener::init())
        .plugin(state.build())
        .manage(links::from_arguments())
        .manage(tray::Tray::default())
        .on_menu_event(tray::on_menu_event);
    if data.is_some() {
        // Other instances may run. The lock of the store refuses a second one with the same data.
        return builder;
    }
    // The first argument is the executable.
    let builder = builder.plugin(tauri_plugin_single_instance::init(|app, arguments, _| {
        links::open(app, arguments.into_iter().skip(1));
        window::focus(app);
    }));
    links::register(builder)
}

/// Opens the store and then the window, or shows the problem in a dialog.
///
/// # Errors
/// The system's web view cannot be created.
pub fn start(app: &AppHandle) -> tauri::Result<()> {
    match tauri::async_runtime::block_on(open(app)) {
        Ok((hearth, theme)) => {
            app.manage(hearth);
            close::on_signals(app);
            window::open(app, theme)
        }
        Err(problem) => {
            match (problem.code, data_folder()) {
                (ProblemCode::StoreCorrupt, Some(folder)) => recovery::offer(app, &problem, folder, start),
                _ => window::refuse(app, &problem),
            }
            Ok(())
        }
    }
}

/// Opens the app. Returns it with the theme of the window.
async fn open(app: &AppHandle) -> Result<(App, Theme), Problem> {
    let resources = app.path().resource_dir().ok();
    let options = Options {
        power: Arc::new(SystemPower::new()),
        ..Options::from_environment(resources.as_deref())?
    };
    let handle = app.clone();
    let hearth = App::open(options, move |announced| {
        // A page that misses events requests a snapshot when it loads.
        let _ = handle.emit(EVENT_NAME, announced);
    })?;
    let settings = hearth.snapshot().await?.settings;
    tray::apply_setting(app, settings.tray);
    Ok((hearth, settings.theme))
}

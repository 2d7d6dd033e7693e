//! The desktop window: a thin shell over `hearth-app`.
//!
//! It opens the store and a window, forwards each command of the page to one use case, and forwards
//! each event to the page. Decisions that the CLI or a server would need, too, belong in
//! `hearth-app`.

// No console window on Windows.
#![cfg_attr(windows, windows_subsystem = "windows")]

mod close;
mod commands;
mod links;
mod panel;
mod power;
mod recovery;
mod start;
mod tray;
mod window;
mod window_commands;

use tauri::{RunEvent, WindowEvent};
use tracing_subscriber::EnvFilter;

/// Environment variable of the log filter, as for `hearth`.
const LOG: &str = "HEARTH_LOG";

fn main() {
    let filter = EnvFilter::try_from_env(LOG).unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let result = start::plugins(tauri::Builder::default())
        .invoke_handler(commands::handler())
        .setup(|app| Ok(start::start(app.handle())?))
        .build(tauri::generate_context!());
    match result {
        Ok(app) => app.run(|app, event| match event {
            RunEvent::WindowEvent {
                event: WindowEvent::CloseRequested { api, .. },
                ..
            } if window::hide_to_tray(app) || close::waits_for_run(app) => api.prevent_close(),
            // A click on the icon in the dock.
            #[cfg(target_os = "macos")]
            RunEvent::Reopen { .. } => window::focus(app),
            #[cfg(target_os = "macos")]
            RunEvent::Opened { urls } => {
                links::open(app, urls.into_iter().map(String::from));
                window::focus(app);
            }
            RunEvent::Exit => close::end(app),
            _ => {}
        }),
        Err(error) => {
            eprintln!("Hearth's window could not be opened: {error}");
            std::process::exit(1);
        }
    }
}

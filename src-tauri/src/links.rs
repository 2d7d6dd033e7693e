//! Links that were opened: from the command line, from a second start, and on macOS as an event of
//! the app. They wait here until the page takes them.

use hearth_app::link_queue::LinkQueue;
use hearth_app::wire::{Announced, EVENT_NAME, Event, Link};
use tauri::{AppHandle, Builder, Emitter, Manager, Wry};

/// The links on the command line.
pub fn from_arguments() -> LinkQueue {
    let links = LinkQueue::default();
    let arguments = std::env::args_os().skip(1);
    links.add(arguments.filter_map(|argument| argument.into_string().ok()));
    links
}

/// Hands links among arguments to the page.
pub fn open(app: &AppHandle, arguments: impl IntoIterator<Item = String>) {
    if app.state::<LinkQueue>().add(arguments) {
        // A page that is not loaded takes them when it is.
        let event = Event::LinksOpened;
        // About no state of the app.
        let _ = app.emit(EVENT_NAME, Announced { revision: 0, event });
    }
}

/// Takes the links that wait.
pub fn take(app: &AppHandle) -> Vec<Link> {
    app.state::<LinkQueue>().take()
}

/// Whether this program is in an AppImage. Programs that one starts inherit its variables, and
/// would register it in their place.
#[cfg(target_os = "linux")]
fn is_app_image() -> bool {
    let mounted = std::env::var_os("APPDIR").filter(|folder| !folder.is_empty());
    let is_in = |folder| std::env::current_exe().is_ok_and(|program| program.starts_with(folder));
    std::env::var_os("APPIMAGE").is_some() && mounted.is_some_and(is_in)
}

/// Registers the scheme for an AppImage, which has no installer that does.
#[cfg(target_os = "linux")]
pub fn register(builder: Builder<Wry>) -> Builder<Wry> {
    use tauri::plugin::TauriPlugin;
    use tauri_plugin_deep_link::DeepLinkExt;
    // The plugin panics on arguments that are not UTF-8.
    let is_readable = std::env::args_os().all(|argument| argument.to_str().is_some());
    if !is_app_image() || !is_readable {
        return builder;
    }
    let register: TauriPlugin<Wry> = tauri::plugin::Builder::new("register-links")
        .setup(|app, _| {
            let app = app.clone();
            // It runs programs of the system.
            tauri::async_runtime::spawn_blocking(move || {
                if let Err(error) = app.deep_link().register(hearth_app::link::SCHEME) {
                    tracing::warn!(%error, "links could not be registered");
                }
            });
            Ok(())
        })
        .build();
    builder.plugin(tauri_plugin_deep_link::init()).plugin(register)
}

/// Does nothing: installers register the scheme.
#[cfg(not(target_os = "linux"))]
pub fn register(builder: Builder<Wry>) -> Builder<Wry> {
    builder
}

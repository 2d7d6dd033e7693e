//! Opened links: from the command line, from a second start, and on macOS from an event of the app.
//! They are queued until the page takes them.

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

/// Queues the links among arguments and notifies the page.
pub fn open(app: &AppHandle, arguments: impl IntoIterator<Item = String>) {
    if app.state::<LinkQueue>().add(arguments) {
        let event = Event::LinksOpened;
        // Revision 0, because the event is not about the state of the app. A page that misses it
        // takes the links when it loads.
        let _ = app.emit(EVENT_NAME, Announced { revision: 0, event });
    }
}

/// Takes the queued links.
pub fn take(app: &AppHandle) -> Vec<Link> {
    app.state::<LinkQueue>().take()
}

/// Whether this program runs from an AppImage. The variables alone do not show this: programs that
/// an AppImage starts inherit them.
#[cfg(target_os = "linux")]
fn is_app_image() -> bool {
    let mount_point = std::env::var_os("APPDIR").filter(|folder| !folder.is_empty());
    let contains_program = |folder| std::env::current_exe().is_ok_and(|program| program.starts_with(folder));
    std::env::var_os("APPIMAGE").is_some() && mount_point.is_some_and(contains_program)
}

/// Registers the scheme if this program runs from an AppImage, which has no installer.
#[cfg(target_os = "linux")]
pub fn register(builder: Builder<Wry>) -> Builder<Wry> {
    use tauri::plugin::TauriPlugin;
    use tauri_plugin_deep_link::DeepLinkExt;
    // The plugin panics on arguments that are not UTF-8.
    let is_utf8 = std::env::args_os().all(|argument| argument.to_str().is_some());
    if !is_app_image() || !is_utf8 {
        return builder;
    }
    let register: TauriPlugin<Wry> = tauri::plugin::Builder::new("register-links")
        .setup(|app, _| {
            let app = app.clone();
            // Registration runs programs of the system, which may block.
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

//! Links that were opened: from the command line, from a second start, and on macOS as an event of
//! the app. They wait here until the page takes them.

use hearth_app::link::{self, is_link};
use hearth_app::wire::{EVENT_NAME, Event, Link};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tauri::{AppHandle, Builder, Emitter, Manager, Wry};

/// Most links that wait. A page may open any number of them; the first ones count.
const MAX_WAITING: usize = 8;

/// Links that wait for the page.
#[derive(Default)]
pub struct Links(Mutex<VecDeque<Link>>);

impl Links {
    /// The links on the command line.
    pub fn from_arguments() -> Self {
        let links = Self::default();
        let arguments = std::env::args_os().skip(1);
        links.add(arguments.filter_map(|argument| argument.into_string().ok()));
        links
    }

    /// Adds the arguments that are links, except those that wait already. Returns whether it added
    /// any.
    fn add(&self, arguments: impl Iterator<Item = String>) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        for link in arguments
            .filter(|argument| is_link(argument))
            .map(|text| link::parse(&text))
        {
            if waiting.len() < MAX_WAITING && !waiting.contains(&link) {
                waiting.push_back(link);
            }
        }
        waiting.len() > before
    }

    /// Takes all links.
    fn take(&self) -> Vec<Link> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.drain(..).collect()
    }
}

/// Hands links among arguments to the page.
pub fn open(app: &AppHandle, arguments: impl IntoIterator<Item = String>) {
    if app.state::<Links>().add(arguments.into_iter()) {
        // A page that is not loaded takes them when it is.
        let _ = app.emit(EVENT_NAME, Event::LinksOpened);
    }
}

/// Takes the links that wait.
pub fn take(app: &AppHandle) -> Vec<Link> {
    app.state::<Links>().take()
}

/// Registers the scheme for an AppImage, which has no installer that does.
#[cfg(target_os = "linux")]
pub fn register(builder: Builder<Wry>) -> Builder<Wry> {
    use tauri::plugin::TauriPlugin;
    use tauri_plugin_deep_link::DeepLinkExt;
    // The plugin panics on arguments that are not UTF-8.
    let is_readable = std::env::args_os().all(|argument| argument.to_str().is_some());
    if std::env::var_os("APPIMAGE").is_none() || !is_readable {
        return builder;
    }
    let register: TauriPlugin<Wry> = tauri::plugin::Builder::new("register-links")
        .setup(|app, _| {
            let app = app.clone();
            // It runs programs of the system.
            tauri::async_runtime::spawn_blocking(move || {
                if let Err(error) = app.deep_link().register(link::SCHEME) {
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

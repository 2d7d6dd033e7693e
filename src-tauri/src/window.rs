//! The window: how it opens, its theme, and what is shown when there can be none.

use hearth_app::wire::{Problem, Theme};
use tauri::webview::NewWindowResponse;
use tauri::window::Color;
use tauri::{AppHandle, Manager, WebviewUrl, WebviewWindow, WebviewWindowBuilder};
use tauri_plugin_dialog::{DialogExt, MessageDialogKind};
use tauri_plugin_notification::NotificationExt;

/// The one window's name, which `capabilities/window.json` speaks of.
const LABEL: &str = "main";

/// The page's own paper, light and dark: painted before the page is there, so that the window never flashes.
const PAPER_LIGHT: Color = Color(0xfa, 0xf8, 0xf4, 0xff);
const PAPER_DARK: Color = Color(0x19, 0x17, 0x14, 0xff);

/// Opens the window on the page, in the theme a person chose.
///
/// # Errors
/// What the system's web view says when it cannot be made.
pub fn open(app: &AppHandle, theme: Theme) -> tauri::Result<()> {
    let window = WebviewWindowBuilder::new(app, LABEL, WebviewUrl::default())
        .title("Hearth")
        .inner_size(1120.0, 760.0)
        .min_inner_size(720.0, 520.0)
        .center()
        .theme(native(theme))
        // Shown once its size, place and paper are set.
        .visible(false)
        // The page is all there is: a link never replaces it, and it opens no windows.
        .on_navigation(|url| url.scheme() == "tauri" || url.host_str() == Some("tauri.localhost"))
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .build()?;
    paint(&window)?;
    window.show()?;
    window.set_focus()
}

/// Changes the theme of the window's frame, and its paper.
///
/// # Errors
/// When the window is gone.
pub fn set_theme(app: &AppHandle, theme: Theme) -> tauri::Result<()> {
    let Some(window) = app.get_webview_window(LABEL) else {
        return Ok(());
    };
    window.set_theme(native(theme))?;
    paint(&window)
}

/// Brings the window to the front: a second Hearth was started.
pub fn focus(app: &AppHandle) {
    if let Some(window) = app.get_webview_window(LABEL) {
        // A window that cannot be raised is no reason to fail; the person sees it is still where it was.
        let _ = window.unminimize().and_then(|()| window.set_focus());
    }
}

/// Tells a person who looks elsewhere. Whoever asks does not wait for the system.
pub fn notify(app: &AppHandle, message: String) {
    let app = app.clone();
    tauri::async_runtime::spawn_blocking(move || {
        let window = app.get_webview_window(LABEL);
        if window.is_some_and(|window| window.is_focused().unwrap_or(false)) {
            return;
        }
        let shown = app.notification().builder().title("Hearth").body(message).show();
        if let Err(error) = shown {
            // The window says it too.
            tracing::warn!(%error, "a notification could not be shown");
        }
    });
}

/// Says in a dialog why Hearth cannot start, then ends it.
pub fn refuse(app: &AppHandle, problem: &Problem) {
    eprintln!("Hearth cannot start: {problem}");
    let ended = app.clone();
    app.dialog()
        .message(problem.message.as_str())
        .title("Hearth cannot start")
        .kind(MessageDialogKind::Error)
        .show(move |_| ended.exit(1));
}

fn native(theme: Theme) -> Option<tauri::Theme> {
    match theme {
        Theme::System => None,
        Theme::Light => Some(tauri::Theme::Light),
        Theme::Dark => Some(tauri::Theme::Dark),
    }
}

fn paint(window: &WebviewWindow) -> tauri::Result<()> {
    let paper = match window.theme()? {
        tauri::Theme::Dark => PAPER_DARK,
        _ => PAPER_LIGHT,
    };
    window.set_background_color(Some(paper))
}

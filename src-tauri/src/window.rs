//! The window: opening, theme, notifications, and the dialog for a failed start.

use crate::tray;
use hearth_app::wire::{Problem, Theme};
use tauri::utils::config::BackgroundThrottlingPolicy;
use tauri::webview::NewWindowResponse;
use tauri::window::Color;
use tauri::{AppHandle, Manager, WebviewUrl, WebviewWindow, WebviewWindowBuilder};
use tauri_plugin_dialog::{DialogExt, MessageDialogKind};
use tauri_plugin_notification::NotificationExt;

/// The window's label, as in `capabilities/window.json`.
const LABEL: &str = "main";

/// The page's background colors, painted before the page loads so that the window does not flash.
const BACKGROUND_LIGHT: Color = Color(0xfa, 0xf8, 0xf4, 0xff);
const BACKGROUND_DARK: Color = Color(0x19, 0x17, 0x14, 0xff);

/// Opens the window.
///
/// # Errors
/// The system's web view cannot be created.
pub fn open(app: &AppHandle, theme: Theme) -> tauri::Result<()> {
    let window = WebviewWindowBuilder::new(app, LABEL, WebviewUrl::default())
        .title("Hearth")
        .inner_size(1120.0, 760.0)
        .min_inner_size(720.0, 520.0)
        .center()
        .theme(native(theme))
        // Shown once size, position and background are set.
        .visible(false)
        // Links neither navigate away from the page nor open windows.
        .on_navigation(|url| url.scheme() == "tauri" || url.host_str() == Some("tauri.localhost"))
        .on_new_window(|_, _| NewWindowResponse::Deny)
        // A hidden page updates the menu of the tray, too.
        .background_throttling(BackgroundThrottlingPolicy::Disabled)
        .build()?;
    set_background(&window)?;
    window.show()?;
    window.set_focus()
}

/// The window. `None` if it is closed.
pub fn main(app: &AppHandle) -> Option<WebviewWindow> {
    app.get_webview_window(LABEL)
}

/// Sets the theme of the window's frame and background.
///
/// # Errors
/// The window is closed.
pub fn set_theme(app: &AppHandle, theme: Theme) -> tauri::Result<()> {
    let Some(window) = main(app) else {
        return Ok(());
    };
    window.set_theme(native(theme))?;
    set_background(&window)
}

/// Shows and focuses the window.
pub fn focus(app: &AppHandle) {
    if let Some(window) = main(app) {
        // A window that is not raised can still be opened by the user.
        let _ = window
            .show()
            .and_then(|()| window.unminimize())
            .and_then(|()| window.set_focus());
    }
}

/// Hides the window instead of closing it, if Hearth is to keep running in the tray. Returns
/// whether it did.
pub fn hide_to_tray(app: &AppHandle) -> bool {
    tray::keeps_running(app) && main(app).is_some_and(|window| window.hide().is_ok())
}

/// Shows a notification unless the window has the focus. Does not block.
pub fn notify(app: &AppHandle, title: String, body: String) {
    let app = app.clone();
    tauri::async_runtime::spawn_blocking(move || {
        let window = main(&app);
        if window.is_some_and(|window| window.is_focused().unwrap_or(false)) {
            return;
        }
        let result = app.notification().builder().title(title).body(body).show();
        if let Err(error) = result {
            // The window shows the message, too.
            tracing::warn!(%error, "a notification could not be shown");
        }
    });
}

/// Shows the problem that prevents the start in a dialog, then exits.
pub fn refuse(app: &AppHandle, problem: &Problem) {
    eprintln!("Hearth cannot start: {problem}");
    let handle = app.clone();
    app.dialog()
        .message(problem.to_string())
        .title("Hearth cannot start")
        .kind(MessageDialogKind::Error)
        .show(move |_| handle.exit(1));
}

/// Tauri's form of a theme.
fn native(theme: Theme) -> Option<tauri::Theme> {
    match theme {
        Theme::System => None,
        Theme::Light => Some(tauri::Theme::Light),
        Theme::Dark => Some(tauri::Theme::Dark),
    }
}

fn set_background(window: &WebviewWindow) -> tauri::Result<()> {
    let background = match window.theme()? {
        tauri::Theme::Dark => BACKGROUND_DARK,
        _ => BACKGROUND_LIGHT,
    };
    window.set_background_color(Some(background))
}

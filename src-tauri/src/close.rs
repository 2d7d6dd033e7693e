//! Closing the app: the active run completes its step and writes a checkpoint, and the text of
//! unfinished answers is saved.
//!
//! Meanwhile the window stays open and shows this. The end of the session arrives as a signal on
//! Unix and as the app's exit event on macOS; Windows sends nothing.

use crate::window;
use hearth_app::App;
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{AppHandle, Manager};

/// Whether the app is closing.
static CLOSING: AtomicBool = AtomicBool::new(false);

/// Whether everything is saved.
static SAVED: AtomicBool = AtomicBool::new(false);

/// Returns whether a run is active, so that the window must stay open. If so, saves the run and
/// then exits the app.
pub fn waits_for_run(app: &AppHandle) -> bool {
    let is_training = app.try_state::<App>().is_some_and(|hearth| hearth.is_training());
    if is_training {
        save_and_exit(app);
    }
    is_training
}

/// Exits the app, after the active run is saved. Meanwhile the window is shown, even if it was
/// hidden.
pub fn quit(app: &AppHandle) {
    if waits_for_run(app) {
        window::focus(app)
    } else {
        app.exit(0)
    }
}

/// Saves everything within a time limit, then exits the app. Further calls do nothing.
fn save_and_exit(app: &AppHandle) {
    if CLOSING.swap(true, Ordering::SeqCst) {
        return;
    }
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        if let Some(hearth) = app.try_state::<App>() {
            // No window is left to show an error, and the next start recovers from it.
            let _ = hearth.shut_down().await;
        }
        SAVED.store(true, Ordering::SeqCst);
        app.exit(0);
    });
}

/// Shuts everything down, unless [`save_and_exit`] has done so.
pub fn end(app: &AppHandle) {
    if SAVED.load(Ordering::SeqCst) {
        return;
    }
    if let Some(hearth) = app.try_state::<App>() {
        // As in `save_and_exit`.
        let _ = tauri::async_runtime::block_on(hearth.shut_down());
    }
}

/// Closes the app on SIGTERM, SIGINT and SIGHUP.
#[cfg(unix)]
pub fn on_signals(app: &AppHandle) {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let app = app.clone();
        tauri::async_runtime::spawn(async move {
            match signal(kind) {
                // Further signals do not kill the process: closing has a time limit.
                Ok(mut signals) => {
                    while signals.recv().await.is_some() {
                        save_and_exit(&app);
                    }
                }
                Err(error) => tracing::warn!(%error, "a signal handler could not be installed"),
            }
        });
    }
}

/// Does nothing: there are no signals.
#[cfg(not(unix))]
pub fn on_signals(_: &AppHandle) {}

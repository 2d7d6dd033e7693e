//! How the app ends: a run that is under way ends its step and makes a checkpoint, an answer is kept as far as it came.
//!
//! A window that is closed stays open for that, and says so. What ends the session is heard as a signal, where there are signals; on
//! macOS as the end of the app. Windows does not tell.

use hearth_app::App;
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{AppHandle, Manager};

/// Whether the app is about to end.
static CLOSING: AtomicBool = AtomicBool::new(false);

/// Whether everything is saved, as far as it could be.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the window has to stay open until a run is saved; then the app ends.
pub fn waits_for_run(app: &AppHandle) -> bool {
    let is_training = app.try_state::<App>().is_some_and(|hearth| hearth.is_training());
    if is_training {
        leave(app);
    }
    is_training
}

/// Ends the app once everything is saved, which has its limit in time. Asked again, it is under way already.
fn leave(app: &AppHandle) {
    if CLOSING.swap(true, Ordering::SeqCst) {
        return;
    }
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        if let Some(hearth) = app.try_state::<App>() {
            // There is no window left to tell what could not be saved; the next start mends it.
            let _ = hearth.shut_down().await;
        }
        CLOSED.store(true, Ordering::SeqCst);
        app.exit(0);
    });
}

/// Ends what still runs, unless [`leave`] has.
pub fn end(app: &AppHandle) {
    if CLOSED.load(Ordering::SeqCst) {
        return;
    }
    if let Some(hearth) = app.try_state::<App>() {
        // As in `leave`.
        let _ = tauri::async_runtime::block_on(hearth.shut_down());
    }
}

/// Ends the app in good order when the system, or a terminal, asks it to end.
#[cfg(unix)]
pub fn on_signals(app: &AppHandle) {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let app = app.clone();
        tauri::async_runtime::spawn(async move {
            match signal(kind) {
                // After the first, none ends the process at once any more: closing has a limit in time.
                Ok(mut signals) => {
                    while signals.recv().await.is_some() {
                        leave(&app);
                    }
                }
                Err(error) => tracing::warn!(%error, "a signal to end is not heard"),
            }
        });
    }
}

/// There are none.
#[cfg(not(unix))]
pub fn on_signals(_: &AppHandle) {}

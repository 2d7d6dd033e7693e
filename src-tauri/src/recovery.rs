//! Recovery of a corrupt store, after a dialog before the window opens.

use crate::window;
use hearth_app::store::{self, Backup, Store, StoreError};
use hearth_app::wire::Problem;
use std::path::{Path, PathBuf};
use tauri::AppHandle;
use tauri_plugin_dialog::{DialogExt, MessageDialogButtons, MessageDialogKind, MessageDialogResult};

const RECOVER: &str = "Recover what can be read";
const QUIT: &str = "Quit";

/// Starts the app once its store is intact.
type Start = fn(&AppHandle) -> tauri::Result<()>;

/// Shows in a dialog that the store in a folder is corrupt, restores or recovers it as the user
/// chooses, and starts the app.
pub fn offer(app: &AppHandle, problem: &Problem, folder: PathBuf, start: Start) {
    eprintln!("Hearth cannot start: {problem}");
    let mut backups = store::backups(&folder).into_iter();
    let backup = backups.find(|backup| backup.check().is_ok());
    let restore_label = backup
        .as_ref()
        .map(|backup| format!("Restore the backup from {}", ago(store::now() - backup.made_at)));
    let buttons = match &restore_label {
        Some(label) => MessageDialogButtons::YesNoCancelCustom(label.clone(), RECOVER.to_owned(), QUIT.to_owned()),
        None => MessageDialogButtons::OkCancelCustom(RECOVER.to_owned(), QUIT.to_owned()),
    };
    let handle = app.clone();
    app.dialog()
        .message(format!("{problem} {}", choices(backup.is_some())))
        .title("Hearth's conversation file is corrupt")
        .kind(MessageDialogKind::Warning)
        .buttons(buttons)
        .show_with_result(move |choice| {
            let restored = match choice {
                MessageDialogResult::Custom(label) if Some(&label) == restore_label.as_ref() => {
                    restore(&folder, backup)
                }
                MessageDialogResult::Custom(label) if label == RECOVER => recover(&folder),
                _ => return handle.exit(1),
            };
            start_app(&handle, restored, start);
        });
}

fn restore(folder: &Path, backup: Option<Backup>) -> Result<PathBuf, StoreError> {
    match backup {
        Some(backup) => Store::restore(folder, &backup),
        None => recover(folder),
    }
}

fn recover(folder: &Path) -> Result<PathBuf, StoreError> {
    Store::salvage(folder)
}

/// Starts the app on the main thread, or shows the error of the recovery.
fn start_app(app: &AppHandle, restored: Result<PathBuf, StoreError>, start: Start) {
    let handle = app.clone();
    let scheduled = app.run_on_main_thread(move || match restored {
        Ok(aside) => {
            eprintln!("The corrupt file is at {}.", aside.display());
            if let Err(error) = start(&handle) {
                eprintln!("Hearth's window could not be opened: {error}");
                handle.exit(1);
            }
        }
        Err(error) => window::refuse(&handle, &error.into()),
    });
    if let Err(error) = scheduled {
        eprintln!("Hearth could not continue: {error}");
        app.exit(1);
    }
}

/// The sentence that offers the choices.
fn choices(has_backup: bool) -> &'static str {
    if has_backup {
        "Hearth can restore its last backup, or recover what can still be read. Either way the corrupt file is \
             kept."
    } else {
        "Hearth has no backup yet. It can recover what can still be read, and keeps the corrupt file."
    }
}

/// An elapsed time as text, in its largest unit.
fn ago(milliseconds: i64) -> String {
    let minutes = milliseconds.max(0) / 60_000;
    let (number, unit) = match minutes {
        0 => return "a moment ago".to_owned(),
        1..60 => (minutes, "minute"),
        60..2880 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural} ago")
}

#[cfg(test)]
mod tests {
    use super::ago;

    #[test]
    fn an_elapsed_time_is_in_its_largest_unit() {
        const MINUTE: i64 = 60_000;
        for (elapsed, expected) in [
            (-5, "a moment ago"),
            (MINUTE, "1 minute ago"),
            (90 * MINUTE, "1 hour ago"),
            (47 * 60 * MINUTE, "47 hours ago"),
            (72 * 60 * MINUTE, "3 days ago"),
        ] {
            assert_eq!(ago(elapsed), expected);
        }
    }
}

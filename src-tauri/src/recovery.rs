//! The way back from a damaged store, chosen in a dialog before there is a window.

use crate::{start, window};
use hearth_app::store::{self, Backup, Store, StoreError};
use hearth_app::wire::Problem;
use std::path::{Path, PathBuf};
use tauri::AppHandle;
use tauri_plugin_dialog::{DialogExt, MessageDialogButtons, MessageDialogKind, MessageDialogResult};

const BEGIN_AGAIN: &str = "Begin again with what can be read";
const QUIT: &str = "Quit";

/// Says that the store in a folder is damaged, does what a person chooses, and starts the window.
pub fn offer(app: &AppHandle, problem: &Problem, folder: PathBuf) {
    eprintln!("Hearth cannot start: {problem}");
    let mut backups = store::backups(&folder).into_iter();
    let backup = backups.find(|backup| backup.check().is_ok());
    let restore = backup
        .as_ref()
        .map(|backup| format!("Go back to the copy from {}", ago(store::now() - backup.made_at)));
    let buttons = match &restore {
        Some(restore) => {
            MessageDialogButtons::YesNoCancelCustom(restore.clone(), BEGIN_AGAIN.to_owned(), QUIT.to_owned())
        }
        None => MessageDialogButtons::OkCancelCustom(BEGIN_AGAIN.to_owned(), QUIT.to_owned()),
    };
    let then = app.clone();
    app.dialog()
        .message(format!("{} {}", problem.message, choices(backup.is_some())))
        .title("Hearth's conversations are damaged")
        .kind(MessageDialogKind::Warning)
        .buttons(buttons)
        .show_with_result(move |choice| {
            let restored = match choice {
                MessageDialogResult::Custom(label) if Some(&label) == restore.as_ref() => go_back(&folder, backup),
                MessageDialogResult::Custom(label) if label == BEGIN_AGAIN => begin_again(&folder),
                _ => return then.exit(1),
            };
            begin(&then, restored);
        });
}

fn go_back(folder: &Path, backup: Option<Backup>) -> Result<PathBuf, StoreError> {
    match backup {
        Some(backup) => Store::restore(folder, &backup),
        None => begin_again(folder),
    }
}

fn begin_again(folder: &Path) -> Result<PathBuf, StoreError> {
    Store::salvage(folder)
}

/// Starts the window, or says why there is none; a window is made on the main thread.
fn begin(app: &AppHandle, restored: Result<PathBuf, StoreError>) {
    let then = app.clone();
    let begun = app.run_on_main_thread(move || match restored {
        Ok(aside) => {
            eprintln!("The damaged file is at {}.", aside.display());
            if let Err(error) = start::start(&then) {
                eprintln!("Hearth's window could not be opened: {error}");
                then.exit(1);
            }
        }
        Err(error) => window::refuse(&then, &error.into()),
    });
    if let Err(error) = begun {
        eprintln!("Hearth could not go on: {error}");
        app.exit(1);
    }
}

fn choices(has_copy: bool) -> &'static str {
    match has_copy {
        true => {
            "Hearth can go back to its last copy, or begin again with what can still be read. Either way the damaged file is kept."
        }
        false => "Hearth has no copy yet. It can begin again with what can still be read, and keeps the damaged file.",
    }
}

/// A time that has passed, in a few words.
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
    fn a_time_is_told_in_its_largest_unit() {
        const MINUTE: i64 = 60_000;
        for (passed, expected) in [
            (-5, "a moment ago"),
            (MINUTE, "1 minute ago"),
            (90 * MINUTE, "1 hour ago"),
            (47 * 60 * MINUTE, "47 hours ago"),
            (72 * 60 * MINUTE, "3 days ago"),
        ] {
            assert_eq!(ago(passed), expected);
        }
    }
}

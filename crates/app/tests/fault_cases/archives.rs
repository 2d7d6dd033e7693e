//! A backup of everything, and its restoration.

use crate::support;
use hearth_app::App;
use std::{fs, path::Path};

/// A file of a run.
const FILE: &str = "runs/1/run.json";

fn with_app<T>(folder: &Path, act: impl AsyncFnOnce(&App) -> Result<T, String>) -> Result<T, String> {
    super::with_app(support::options(&folder.join("work/data")), act)
}

fn import(folder: &Path, text: &str) {
    let export = folder.join("export.json");
    fs::write(&export, format!("[{{\"role\":\"user\",\"content\":\"{text}\"}}]")).expect("a file");
    with_app(folder, async |app| {
        let imported = app.import_conversations(export).await;
        imported.map(drop).map_err(|problem| problem.to_string())
    })
    .expect("an import");
}

fn titles(folder: &Path) -> Vec<String> {
    let listed = with_app(folder, async |app| {
        let snapshot = app.snapshot().await.map_err(|problem| problem.to_string())?;
        Ok(snapshot.conversations.into_iter().map(|row| row.title).collect())
    });
    listed.expect("the app opens")
}

fn put_run(folder: &Path, text: &str) {
    let file = folder.join("work/data").join(FILE);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    fs::write(file, text).expect("a file");
}

fn run(folder: &Path) -> String {
    fs::read_to_string(folder.join("work/data").join(FILE)).expect("a file")
}

/// Data of before, and a backup of it.
pub fn put_data(folder: &Path) {
    fs::create_dir_all(folder.join("work/out")).expect("a folder");
    put_run(folder, "old");
    import(folder, "old");
    back_up(folder).expect("a backup");
}

pub fn back_up(folder: &Path) -> Result<(), String> {
    let path = folder.join("work/out/all.hearthbackup");
    with_app(folder, async |app| {
        app.back_up(path).await.map(drop).map_err(|problem| problem.to_string())
    })
}

/// The backup that was there, or the new one, is complete.
pub fn check_backup(folder: &Path, _: bool) {
    assert_eq!((titles(folder), run(folder).as_str()), (vec!["old".to_owned()], "old"));
    restore(folder).expect("a valid backup");
    assert_eq!((titles(folder), run(folder).as_str()), (vec!["old".to_owned()], "old"));
}

/// Newer data than the backup.
pub fn put_newer(folder: &Path) {
    put_data(folder);
    import(folder, "new");
    put_run(folder, "new");
}

/// Extracts the backup, and completes the restoration by a start.
pub fn restore(folder: &Path) -> Result<(), String> {
    let path = folder.join("work/out/all.hearthbackup");
    with_app(folder, async |app| {
        app.restore_backup(path)
            .await
            .map(drop)
            .map_err(|problem| problem.to_string())
    })?;
    with_app(folder, async |_| Ok(()))
}

/// The next start has all of the old data or all of the new; the latter exists in any case.
pub fn check_restored(folder: &Path, done: bool) {
    let (titles, run) = (titles(folder), run(folder));
    let is_new = titles.len() == 2;
    assert_eq!(run, if is_new { "new" } else { "old" });
    assert!(!(done && is_new));
    if !is_new {
        assert_eq!(titles, ["old"]);
        let entries = fs::read_dir(folder.join("work/data")).expect("a folder").flatten();
        let mut aside = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("hearth-set-aside-"));
        assert!(aside.any(|entry| {
            let file = fs::read_to_string(entry.path().join(FILE));
            file.is_ok_and(|text| text == "new") && entry.path().join("hearth.db").exists()
        }));
    }
}

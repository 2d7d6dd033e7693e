//! Backups of everything as one file, and their restoration.

use crate::data_bench::Bench;
use hearth_app::{
    store::{Store, adapter, download::State},
    wire::ProblemCode,
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
};
use zip::{ZipArchive, ZipWriter, write::SimpleFileOptions};

fn chat(id: &str, text: &str) -> Value {
    json!({"conv": {"id": id, "name": text}, "messages": [{"id": "1", "role": "user", "content": text}]})
}

/// Files of a run and a dataset.
const FILES: [(&str, &[u8]); 5] = [
    ("runs/1/run.json", b"{}"),
    ("runs/1/adapter/adapter_model.safetensors", &[7; 300_000]),
    ("datasets/from-chats.jsonl", b"{\"messages\":[]}\n"),
    ("presets/mine.json", b"{\"hearthPreset\":1,\"name\":\"Mine\"}"),
    ("presets/deleted/old.json", b"{\"hearthPreset\":1,\"name\":\"Old\"}"),
];

/// An app with a conversation and files, and a backup of them.
async fn backed_up() -> (Bench, PathBuf) {
    let bench = Bench::new();
    bench.import_json(&chat("1", "backed up")).await;
    for (name, bytes) in FILES {
        put(&bench.path("data").join(name), bytes);
    }
    put(&bench.path("data/runs/1/.run.json.1-1.part/run.json"), b"half");
    put(&bench.path("data/models/model.gguf"), b"large");
    // A backup with it would be refused.
    put(&bench.path("data/presets/notes.txt"), b"no preset");
    #[cfg(unix)]
    put(&bench.path("data/presets/con.json"), b"a device on Windows");
    let path = bench.path("all.hearthbackup");
    let written = bench.app.back_up(path.clone()).await.expect("a backup");
    assert_eq!(written.files as usize, 1 + FILES.len());
    (bench, path)
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, bytes).expect("a file");
}

/// Titles of the conversations.
async fn titles(bench: &Bench) -> Vec<String> {
    bench
        .all()
        .await
        .into_iter()
        .map(|conversation| conversation.title)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_restored_at_the_next_start_and_the_present_data_moves_aside() {
    let (origin, backup) = backed_up().await;
    let other = Bench::new();
    other.import_json(&chat("2", "of now")).await;
    put(&other.path("data/runs/9/run.json"), b"of now");
    let pending = other.app.restore_backup(backup.clone()).await.expect("a valid backup");
    assert_eq!((pending.conversations, pending.files as usize), (1, 1 + FILES.len()));
    assert_eq!(
        titles(&other).await,
        ["of now"],
        "nothing changes before the next start"
    );
    assert_eq!(other.app.data_place().await.unwrap().pending.as_ref(), Some(&pending));
    other.import_json(&chat("3", "written meanwhile")).await;

    let other = Bench::open(other.close().await);
    assert_eq!(titles(&other).await, ["backed up"]);
    let presets = other.app.presets().await.expect("presets").presets;
    assert_eq!(presets.last().expect("one").name, "Mine");
    for (name, bytes) in FILES {
        assert!(fs::read(other.path("data").join(name)).expect(name) == bytes, "{name}");
    }
    assert!(!other.path("data/runs/9").exists() && !other.path("data/runs/1/.run.json.1-1.part").exists());
    let aside = PathBuf::from(&pending.aside);
    assert_eq!(fs::read(aside.join("runs/9/run.json")).expect("a file"), b"of now");
    let old = Store::open(&aside).expect("the old store");
    assert_eq!(old.read(|t| hearth_app::store::conversation::list(t)).unwrap().len(), 2);
    drop(old);
    let place = other.app.data_place().await.unwrap();
    assert!(place.pending.is_none() && !other.path("data/hearth-restore").exists());
    // Starting again changes nothing.
    let other = Bench::open(other.close().await);
    assert_eq!(titles(&other).await, ["backed up"]);
    drop(origin);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restoration_can_be_cancelled() {
    let (bench, backup) = backed_up().await;
    bench.import_json(&chat("2", "later")).await;
    bench.app.restore_backup(backup).await.expect("a valid backup");
    bench.app.cancel_restore().await.expect("cancelled");
    let bench = Bench::open(bench.close().await);
    assert_eq!(titles(&bench).await.len(), 2);
    assert!(!bench.path("data/hearth-restore").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_backup_changes_nothing() {
    let (bench, backup) = backed_up().await;
    let whole = fs::read(&backup).expect("a file");
    let damaged = bench.path("damaged.hearthbackup");
    let mut refused = 0;
    for part in 0..80 {
        let mut bytes = whole.clone();
        let at = part * bytes.len() / 80;
        bytes[at] ^= 0x20;
        fs::write(&damaged, &bytes).expect("a file");
        match bench.app.restore_backup(damaged.clone()).await {
            Err(problem) => {
                assert!(problem.code == ProblemCode::DataInvalid, "byte {at}: {problem}");
                refused += 1;
            }
            // A byte that means nothing, such as one of a time.
            Ok(_) => bench.app.cancel_restore().await.expect("cancelled"),
        }
        fs::write(&damaged, &whole[..at]).expect("a file");
        bench
            .app
            .restore_backup(damaged.clone())
            .await
            .expect_err("a cut backup");
    }
    assert!(refused > 60, "{refused}");
    assert!(bench.app.data_place().await.unwrap().pending.is_none());
    assert!(!bench.path("data/hearth-restore").exists());
    let bench = Bench::open(bench.close().await);
    assert_eq!(titles(&bench).await, ["backed up"]);
}

/// A backup with a changed manifest.
fn with_manifest(backup: &Path, to: &Path, change: impl FnOnce(&mut Value)) {
    let mut old = ZipArchive::new(File::open(backup).expect("a file")).expect("an archive");
    let mut new = ZipWriter::new(File::create(to).expect("a file"));
    let mut change = Some(change);
    for at in 0..old.len() {
        let mut entry = old.by_index(at).expect("an entry");
        let (name, mut bytes) = (entry.name().expect("a name").into_owned(), Vec::new());
        entry.read_to_end(&mut bytes).expect("bytes");
        if name == "manifest.json" {
            let mut manifest: Value = serde_json::from_slice(&bytes).expect("a manifest");
            if let Some(change) = change.take() {
                change(&mut manifest);
            }
            bytes = manifest.to_string().into_bytes();
        }
        new.start_file(name, SimpleFileOptions::default()).expect("an entry");
        new.write_all(&bytes).expect("written");
    }
    new.finish().expect("an archive");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_and_newer_backups_are_refused() {
    let (bench, backup) = backed_up().await;
    let other = bench.path("other.hearthbackup");
    let check = async |words: &str| {
        let problem = bench.app.restore_backup(other.clone()).await.expect_err(words);
        assert!(problem.message.contains(words), "{problem}");
    };
    with_manifest(&backup, &other, |manifest| manifest["hearthBackup"] = json!(2));
    check("written by a newer Hearth").await;
    with_manifest(&backup, &other, |manifest| {
        manifest["files"][1]["path"] = json!("runs/../../x")
    });
    check("is not that of a backup").await;
    for name in [
        "presets/CON.json",
        "presets/../x.json",
        "presets/a/b.json",
        "presets/x.exe",
    ] {
        with_manifest(&backup, &other, |manifest| manifest["files"][1]["path"] = json!(name));
        check("is not that of a backup").await;
    }
    with_manifest(&backup, &other, |manifest| manifest["files"][1]["bytes"] = json!(1));
    check("is larger than its list of files says").await;
    with_manifest(&backup, &other, |manifest| manifest["files"] = json!([]));
    check("is not that of a backup").await;
    fs::write(&other, "hello").expect("a file");
    check("is damaged").await;
    let inside = bench
        .app
        .back_up(bench.path("data/x.hearthbackup"))
        .await
        .expect_err("inside");
    assert!(inside.message.contains("inside Hearth's data folder"), "{inside}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_in_the_data_folder_follow_it() {
    let (bench, backup) = backed_up().await;
    let inside = bench.path("data/runs/1/adapter");
    let outside = bench.path("elsewhere");
    for path in [&inside, &outside] {
        bench.add_adapter(path);
    }
    bench.app.back_up(backup.clone()).await.expect("a backup");
    let other = Bench::new();
    other.app.restore_backup(backup).await.expect("a valid backup");
    let other = Bench::open(other.close().await);
    let rows = other.app.store().read(|t| adapter::list(t)).expect("rows");
    let mut paths: Vec<PathBuf> = rows.into_iter().map(|row| row.path).collect();
    paths.sort();
    let mut expected = vec![other.path("data/runs/1/adapter"), outside];
    expected.sort();
    assert_eq!(paths, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_of_each_state_are_restored() {
    let (bench, backup) = backed_up().await;
    bench.add_downloads(&bench.path("data/models/o/m3/model.gguf")).await;
    bench.app.back_up(backup.clone()).await.expect("a backup");
    let other = Bench::new();
    other.app.restore_backup(backup).await.expect("a valid backup");
    let other = Bench::open(other.close().await);
    let failed = State::Failed(r#"{"code":"download","message":"No."}"#.to_owned());
    let done = other.path("data/models/o/m3/model.gguf").display().to_string();
    assert_eq!(
        other.download_states(),
        [State::Queued, State::Paused, failed, State::Done(done)]
    );
}

//! Backups of everything as one file, and their restoration.

use crate::{
    data_harness::{Harness, open_acting},
    support,
};
use hearth_app::{
    App,
    store::{Store, adapter, download::State},
    wire::{Announced, Event, Problem, ProblemCode, SkippedFileReason, WrittenBackup},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;
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
async fn backed_up() -> (Harness, PathBuf) {
    let harness = Harness::new();
    harness.import_json(&chat("1", "backed up")).await;
    for (name, bytes) in FILES {
        put(&harness.path("data").join(name), bytes);
    }
    put(&harness.path("data/runs/1/.run.json.1-1.part/run.json"), b"half");
    put(&harness.path("data/models/model.gguf"), b"large");
    // A backup with it would be refused.
    put(&harness.path("data/presets/notes.txt"), b"no preset");
    #[cfg(unix)]
    std::os::unix::fs::symlink("run.json", harness.path("data/runs/1/link.json")).expect("a link");
    let path = harness.path("all.hearthbackup");
    let written = harness.app.back_up(path.clone()).await.expect("a backup");
    assert_eq!(written.files as usize, 1 + FILES.len());
    let skipped: Vec<_> = written
        .skipped
        .iter()
        .map(|skipped| (skipped.reason, skipped.count, skipped.example.as_str()))
        .collect();
    let link = (SkippedFileReason::NotAFile, 1, "runs/1/link.json");
    let note = (SkippedFileReason::NotAPreset, 1, "presets/notes.txt");
    assert_eq!(skipped, if cfg!(unix) { vec![link, note] } else { vec![note] });
    (harness, path)
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, bytes).expect("a file");
}

/// Titles of the conversations.
async fn titles(harness: &Harness) -> Vec<String> {
    harness
        .all()
        .await
        .into_iter()
        .map(|conversation| conversation.title)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_restored_at_the_next_start_and_the_present_data_moves_aside() {
    let (origin, backup) = backed_up().await;
    let other = Harness::new();
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
    // The name of an earlier Hearth.
    let file = other.path("data/hearth-restore.json");
    let mut old: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
    let about = old["about"].as_object_mut().expect("an object");
    about.remove("skipped").expect("a list");
    let count = 7;
    about.insert(
        "leftOut".to_owned(),
        json!([{"reason": "name", "count": count, "example": "runs/con"}]),
    );
    fs::write(&file, old.to_string()).expect("a file");
    let actual = other.app.data_place().await.unwrap().pending.expect("a restoration");
    assert_eq!(actual.skipped[0].count, count);
    other.import_json(&chat("3", "written meanwhile")).await;

    let other = Harness::open(other.close().await);
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
    let other = Harness::open(other.close().await);
    assert_eq!(titles(&other).await, ["backed up"]);
    drop(origin);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restoration_can_be_cancelled() {
    let (harness, backup) = backed_up().await;
    harness.import_json(&chat("2", "later")).await;
    harness.app.restore_backup(backup).await.expect("a valid backup");
    harness.app.cancel_restore().await.expect("cancelled");
    let harness = Harness::open(harness.close().await);
    assert_eq!(titles(&harness).await.len(), 2);
    assert!(!harness.path("data/hearth-restore").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_backup_changes_nothing() {
    let (harness, backup) = backed_up().await;
    let whole = fs::read(&backup).expect("a file");
    let damaged = harness.path("damaged.hearthbackup");
    let mut refused = 0;
    for part in 0..80 {
        let mut bytes = whole.clone();
        let at = part * bytes.len() / 80;
        bytes[at] ^= 0x20;
        fs::write(&damaged, &bytes).expect("a file");
        match harness.app.restore_backup(damaged.clone()).await {
            Err(problem) => {
                assert!(problem.code == ProblemCode::DataInvalid, "byte {at}: {problem}");
                refused += 1;
            }
            // A byte that means nothing, such as one of a time.
            Ok(_) => harness.app.cancel_restore().await.expect("cancelled"),
        }
        fs::write(&damaged, &whole[..at]).expect("a file");
        harness
            .app
            .restore_backup(damaged.clone())
            .await
            .expect_err("a cut backup");
    }
    assert!(refused > 60, "{refused}");
    assert!(harness.app.data_place().await.unwrap().pending.is_none());
    assert!(!harness.path("data/hearth-restore").exists());
    let harness = Harness::open(harness.close().await);
    assert_eq!(titles(&harness).await, ["backed up"]);
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
    let (harness, backup) = backed_up().await;
    let other = harness.path("other.hearthbackup");
    let check = async |words: &str| {
        let problem = harness.app.restore_backup(other.clone()).await.expect_err(words);
        assert!(problem.to_string().contains(words), "{problem}");
    };
    with_manifest(&backup, &other, |manifest| manifest["hearthBackup"] = json!(2));
    check("written by a newer Hearth").await;
    with_manifest(&backup, &other, |manifest| {
        manifest["files"][1]["path"] = json!("runs/../../x")
    });
    check("does not belong to a backup").await;
    for name in ["presets/../x.json", "presets/a/b.json", "presets/x.exe"] {
        with_manifest(&backup, &other, |manifest| manifest["files"][1]["path"] = json!(name));
        check("does not belong to a backup").await;
    }
    with_manifest(&backup, &other, |manifest| manifest["files"][1]["bytes"] = json!(1));
    check("is larger than its list of files says").await;
    with_manifest(&backup, &other, |manifest| manifest["files"] = json!([]));
    check("does not belong to a backup").await;
    fs::write(&other, "hello").expect("a file");
    check("is damaged").await;
    let inside = harness
        .app
        .back_up(harness.path("data/x.hearthbackup"))
        .await
        .expect_err("inside");
    assert!(inside.to_string().contains("inside Hearth's data folder"), "{inside}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_in_the_data_folder_follow_it() {
    let (harness, backup) = backed_up().await;
    let inside = harness.path("data/runs/1/adapter");
    let outside = harness.path("elsewhere");
    for path in [&inside, &outside] {
        harness.add_adapter(path);
    }
    harness.app.back_up(backup.clone()).await.expect("a backup");
    let other = Harness::new();
    other.app.restore_backup(backup).await.expect("a valid backup");
    let other = Harness::open(other.close().await);
    let rows = other.app.store().read(|t| adapter::list(t)).expect("rows");
    let mut paths: Vec<PathBuf> = rows.into_iter().map(|row| row.path).collect();
    paths.sort();
    let mut expected = vec![other.path("data/runs/1/adapter"), outside];
    expected.sort();
    assert_eq!(paths, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_of_each_state_are_restored_and_none_begins_by_itself() {
    let (harness, backup) = backed_up().await;
    harness
        .add_downloads(&harness.path("data/models/o/m3/model.gguf"))
        .await;
    harness.app.back_up(backup.clone()).await.expect("a backup");
    let other = Harness::new();
    other.app.restore_backup(backup).await.expect("a valid backup");
    let other = Harness::open(other.close().await);
    let failed = State::Failed(r#"{"code":"download","message":"No."}"#.to_owned());
    let done = other.path("data/models/o/m3/model.gguf").display().to_string();
    assert_eq!(
        other.download_states(),
        [State::Paused, State::Paused, failed, State::Done(done)]
    );
}

/// A backup that Hearth wrote at e93f440e, which could not restore it. It has a conversation, the
/// files of [`EARLY`], each with its own path as its content, and a download of each state.
const EARLY_BACKUP: &str = "tests/fixtures/archive/e93f440e.hearthbackup";

const EARLY: [&str; 7] = [
    "runs/1/run.json",
    "runs/1/A.txt",
    "runs/1/a.txt",
    "runs/1/ends in a dot.",
    "runs/1/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/deep.txt",
    "datasets/con.jsonl",
    "datasets/notes: v2.jsonl",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_an_earlier_hearth_with_odd_names_and_downloads_is_restored() {
    let harness = Harness::new();
    let backup = Path::new(env!("CARGO_MANIFEST_DIR")).join(EARLY_BACKUP);
    let pending = harness.app.restore_backup(backup).await.expect("a backup");
    let skipped: u32 = pending.skipped.iter().map(|skipped| skipped.count).sum();
    assert_eq!(pending.files + skipped, 1 + EARLY.len() as u32);
    let harness = Harness::open(harness.close().await);
    assert_eq!(titles(&harness).await, ["backed up"]);
    let read = |name: &str| fs::read(harness.path("data").join(name)).ok();
    let restored = EARLY
        .iter()
        .filter(|name| read(name).as_deref() == Some(name.as_bytes()));
    assert_eq!(restored.count() + skipped as usize, EARLY.len());
    if cfg!(target_os = "linux") {
        assert_eq!(skipped, 0, "all of these names are possible");
    }
    let failed = State::Failed(r#"{"code":"download","message":"No."}"#.to_owned());
    let [paused, queued, failure, done] = &harness.download_states()[..] else {
        panic!("four downloads");
    };
    assert_eq!([paused, queued, failure], [&State::Paused, &State::Paused, &failed]);
    let model = harness.path("data/models/o/done/model.gguf").display().to_string();
    assert_eq!(*done, State::Done(model));
}

/// Names of files and folders, also those that some system refuses.
fn a_name() -> impl Strategy<Value = Vec<u8>> {
    let odd: [&[u8]; 22] = [
        b"A",
        b"a",
        b"con",
        b"nul.txt",
        b"comx",
        b"a.",
        b"a ",
        b" a",
        b"...",
        b".a",
        b"a:b",
        b"a\\b",
        b"a?",
        b"a\nb",
        "\u{e9}".as_bytes(),
        "e\u{301}".as_bytes(),
        "\u{130}".as_bytes(),
        "i\u{307}".as_bytes(),
        "\u{202e}a".as_bytes(),
        b"\xff\xfe",
        b"manifest.json",
        b"a.json",
    ];
    prop_oneof![
        4 => prop::sample::select(odd.to_vec()).prop_map(<[u8]>::to_vec),
        1 => "[^/\u{0}]{1,12}".prop_map(String::into_bytes),
        1 => prop::collection::vec(1u8..=255, 1..6),
    ]
}

/// The parts of a path in a folder of a backup.
fn a_path() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let folder = prop::sample::select(vec!["runs", "datasets", "presets", "presets/deleted"]);
    let parts = prop_oneof![
        6 => prop::collection::vec(a_name(), 1..4),
        1 => prop::collection::vec(a_name(), 60..70),
    ];
    (folder, parts).prop_map(|(folder, mut parts)| {
        parts.insert(0, folder.as_bytes().to_vec());
        parts
    })
}

#[cfg(unix)]
fn in_data(data: &Path, parts: &[Vec<u8>]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let is_name = |part: &Vec<u8>| part != b"." && part != b".." && !part.contains(&b'/');
    parts
        .iter()
        .all(|part| is_name(part) || part.starts_with(b"presets/"))
        .then_some(())?;
    Some(parts.iter().fold(data.to_owned(), |path, part| {
        path.join(std::ffi::OsStr::from_bytes(part))
    }))
}

/// All regular files below a folder, with their contents.
#[cfg(unix)]
fn files_in(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().expect("a type").is_dir() {
                folders.push(entry.path())
            } else {
                all.push((entry.path(), fs::read(entry.path()).expect("bytes")))
            }
        }
    }
    all.sort();
    all
}

/// Whatever is in a data folder, its backup is restored, and says what is not in it.
#[cfg(unix)]
#[test]
fn any_data_folder_is_restored_from_its_backup_or_the_backup_says_what_is_missing() {
    let mut runner = TestRunner::new(Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let trees = prop::collection::vec((a_path(), prop::collection::vec(any::<u8>(), 0..40)), 0..12);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    runner
        .run(&trees, |tree| {
            runtime.block_on(async {
                let (from, to) = (Harness::new(), Harness::new());
                for (parts, bytes) in &tree {
                    // A file may be in the way of a folder.
                    let Some(path) = in_data(&from.path("data"), parts) else {
                        continue;
                    };
                    let folder = path.parent().expect("a folder");
                    let _ = fs::create_dir_all(folder).and_then(|()| fs::write(&path, bytes));
                }
                let backup = from.path("all.hearthbackup");
                let WrittenBackup { files, skipped, .. } = from.app.back_up(backup.clone()).await.expect("a backup");
                let pending = to.app.restore_backup(backup).await.expect("what was reported as good");
                let to = Harness::open(to.close().await);
                let contents = |harness: &Harness| {
                    let data = harness.path("data");
                    let all = ["runs", "datasets", "presets"]
                        .iter()
                        .flat_map(|name| files_in(&data.join(name)));
                    let inside = |path: PathBuf| path.strip_prefix(&data).expect("inside").to_owned();
                    all.map(|(path, bytes)| (inside(path), bytes)).collect::<Vec<_>>()
                };
                let (before, after) = (contents(&from), contents(&to));
                for file in &after {
                    prop_assert!(before.contains(file), "{file:?} is another one");
                }
                prop_assert_eq!(pending.files as usize, 1 + after.len());
                if cfg!(target_os = "linux") {
                    prop_assert!(pending.skipped.is_empty(), "{:?}", pending.skipped);
                }
                let is_hidden = |path: &Path| {
                    path.to_string_lossy()
                        .split('/')
                        .any(|part| part.starts_with('.') && part.ends_with(".part"))
                };
                let missing = before
                    .iter()
                    .filter(|file| !after.contains(file) && !is_hidden(&file.0))
                    .count();
                let reported: u32 = skipped
                    .iter()
                    .chain(&pending.skipped)
                    .map(|skipped| skipped.count)
                    .sum();
                prop_assert!(
                    missing == 0 || reported > 0,
                    "{missing} files are missing, {reported} reported"
                );
                prop_assert_eq!(
                    files as usize,
                    1 + after.len()
                        + pending
                            .skipped
                            .iter()
                            .map(|skipped| skipped.count as usize)
                            .sum::<usize>()
                );
                Ok(())
            })
        })
        .expect("all are restored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_larger_than_the_disk_is_refused_before_anything_is_written() {
    let (harness, backup) = backed_up().await;
    let other = harness.path("other.hearthbackup");
    with_manifest(&backup, &other, |manifest| {
        manifest["files"][1]["bytes"] = json!(1_u64 << 62);
        manifest["files"][2]["bytes"] = json!(u64::MAX);
    });
    let problem = harness.app.restore_backup(other).await.expect_err("too large");
    assert_eq!(problem.code, ProblemCode::DiskFull, "{problem}");
    assert!(!harness.path("data/hearth-restore").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restoration_reports_progress_and_can_be_cancelled_while_it_is_extracted() {
    let (harness, backup) = backed_up().await;
    let folder = tempfile::tempdir().expect("a folder");
    let app: Arc<OnceLock<App>> = Arc::default();
    let (options, itself) = (support::options(&folder.path().join("data")), app.clone());
    let opened = App::open(options, move |Announced { event, .. }| {
        // Called by the thread that extracts, after the first of several reports.
        if let (Event::RestoreProgress { fraction }, Some(app)) = (event, itself.get()) {
            assert!(fraction > 0.0 && fraction <= 1.0);
            let app = app.clone();
            Handle::current().spawn(async move { app.cancel_restore().await });
            thread::sleep(Duration::from_millis(300));
        }
    });
    app.set(opened.expect("an app")).ok().expect("set once");
    let app = app.get().expect("set");
    let cancelled = app.restore_backup(backup).await.expect_err("cancelled");
    assert_eq!(cancelled.code, ProblemCode::Cancelled, "{cancelled}");
    assert!(app.data_place().await.expect("a place").pending.is_none());
    assert!(!folder.path().join("data/hearth-restore").exists());
    drop(harness);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restoration_refuses_other_work_on_the_data() {
    let (harness, backup) = backed_up().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (again, other, to) = (
        backup.clone(),
        folder.path().join("other.hearthbackup"),
        folder.path().join("elsewhere"),
    );
    let refused: Arc<Mutex<Vec<Option<Problem>>>> = Arc::default();
    let seen = refused.clone();
    let app = open_acting(&folder.path().join("data"), move |app, event| {
        let mut seen = seen.lock().expect("results");
        if let (Event::RestoreProgress { .. }, true) = (event, seen.is_empty()) {
            let runtime = Handle::current();
            seen.push(runtime.block_on(app.back_up(other.clone())).err());
            // Without a lock, this would wait for itself.
            if seen[0].is_some() {
                seen.push(runtime.block_on(app.restore_backup(again.clone())).err());
                seen.push(runtime.block_on(app.move_data(to.clone())).err());
            }
        }
    });
    app.restore_backup(backup).await.expect("a valid backup");
    let refused: Vec<_> = refused.lock().expect("results").drain(..).collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    for problem in refused {
        let problem = problem.expect("refused");
        assert_eq!(problem.code, ProblemCode::Busy);
        assert!(problem.to_string().contains("being checked"), "{problem}");
    }
    drop(harness);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restoration_that_is_cancelled_as_it_begins_does_not_take_place() {
    let (harness, backup) = backed_up().await;
    for _ in 0..20 {
        let (restored, cancelled) =
            tokio::join!(harness.app.restore_backup(backup.clone()), harness.app.cancel_restore());
        cancelled.expect("cancelled");
        assert_eq!(restored.expect_err("cancelled").code, ProblemCode::Cancelled);
        assert!(harness.app.data_place().await.expect("a place").pending.is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_without_bytes_delay_no_cancellation() {
    const FILES: usize = 20_000;
    let (harness, backup) = backed_up().await;
    let many = harness.path("many.hearthbackup");
    let names: Vec<String> = (0..FILES).map(|at| format!("runs/1/{at}")).collect();
    let listed = names.clone();
    with_manifest(&backup, &many, move |manifest| {
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let files = listed
            .iter()
            .map(|name| json!({"path": name, "bytes": 0, "sha256": nothing}));
        manifest["files"].as_array_mut().expect("a list").extend(files);
    });
    let mut archive =
        ZipWriter::new_append(File::options().read(true).write(true).open(&many).expect("a file")).expect("an archive");
    for name in names {
        archive
            .start_file(name, SimpleFileOptions::default())
            .expect("an entry");
    }
    archive.finish().expect("an archive");
    let app = harness.app.clone();
    let restoring = tokio::spawn(async move { app.restore_backup(many).await });
    let begin = Instant::now();
    while !harness.path("data/hearth-restore/runs/1/0").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is extracted");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let begin = Instant::now();
    harness.app.cancel_restore().await.expect("cancelled");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let problem = restoring.await.expect("an end").expect_err("cancelled");
    assert_eq!(problem.code, ProblemCode::Cancelled, "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restoration_that_fails_leaves_the_pending_one() {
    let (harness, backup) = backed_up().await;
    harness.import_json(&chat("2", "later")).await;
    let pending = harness
        .app
        .restore_backup(backup.clone())
        .await
        .expect("a valid backup");
    let damaged = harness.path("damaged.hearthbackup");
    with_manifest(&backup, &damaged, |manifest| {
        manifest["files"][1]["sha256"] = json!("00")
    });
    harness.app.restore_backup(damaged).await.expect_err("damaged");
    assert_eq!(
        harness.app.data_place().await.expect("a place").pending.as_ref(),
        Some(&pending)
    );
    // A later one replaces it.
    let second = harness.path("second.hearthbackup");
    harness.app.back_up(second.clone()).await.expect("a backup");
    for (backup, count) in [(second, 2), (backup, 1)] {
        let pending = harness.app.restore_backup(backup).await.expect("a valid backup");
        assert_eq!(pending.conversations, count);
    }
    let harness = Harness::open(harness.close().await);
    assert_eq!(titles(&harness).await, ["backed up"]);
    for name in ["hearth-restore", "hearth-restore-2", "hearth-restore.json"] {
        assert!(!harness.path("data").join(name).exists(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restoration_empties_the_prompt_cache() {
    let (harness, backup) = backed_up().await;
    let id = harness.only().await.id;
    let cached = harness
        .path("data/prompt-cache")
        .join(id.to_string())
        .join("0123456789abcdef0123456789abcdef.kv");
    put(&cached, b"the text of before");
    let other = harness.path("data/prompt-cache/notes.txt");
    put(&other, b"not Hearth's");
    harness.app.restore_backup(backup).await.expect("a valid backup");
    assert!(cached.exists(), "nothing changes before the next start");
    let harness = Harness::open(harness.close().await);
    assert_eq!(harness.only().await.id, id, "a conversation has the same id");
    assert!(!cached.exists() && other.exists());
}

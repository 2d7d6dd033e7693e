//! Backups of someone else, with right hashes: they change nothing outside the data folder, and run
//! nothing.

use crate::{
    data_harness::Harness,
    support::hub::{FakeHub, Reply},
};
use hearth_app::{
    store::{
        adapter,
        download::{self, State},
    },
    wire::{Problem, ProblemCode, Settings},
};
use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};
use zip::{ZipArchive, ZipWriter, write::SimpleFileOptions};

/// The data folder that the backups name.
const FOLDER: &str = "/hearth-of-someone";

/// Writes a backup whose store was changed by SQL, with these files. Its hashes are right.
async fn forge(to: &Path, sql: &str, files: &[(&str, &[u8])]) {
    forge_of(to, None, sql, files).await;
}

/// Writes a backup like [`forge`], of this store instead of the present version's.
async fn forge_of(to: &Path, store: Option<&Path>, sql: &str, files: &[(&str, &[u8])]) {
    let harness = Harness::new();
    let chat =
        json!({"conv": {"id": "1", "name": "of someone"}, "messages": [{"id": "1", "role": "user", "content": "Hi"}]});
    harness.import_json(&chat).await;
    let honest = harness.path("honest.hearthbackup");
    harness.app.back_up(honest.clone()).await.expect("a backup");
    let mut archive = ZipArchive::new(File::open(&honest).expect("a file")).expect("an archive");
    let mut read = |name: &str| {
        let mut bytes = Vec::new();
        let mut entry = archive.by_name(name).expect("an entry");
        entry.read_to_end(&mut bytes).expect("bytes");
        bytes
    };
    let mut manifest: Value = serde_json::from_slice(&read("manifest.json")).expect("a manifest");
    let path = harness.path("forged.db");
    let honest = store.map_or_else(|| read("hearth.db"), |store| fs::read(store).expect("a store"));
    fs::write(&path, honest).expect("a file");
    let store = Connection::open(&path).expect("a store");
    store.execute_batch(sql).expect("changed");
    store.close().expect("closed");
    let store = fs::read(&path).expect("a file");
    let mut out = ZipWriter::new(File::create(to).expect("a file"));
    let mut put = |name: &str, bytes: &[u8]| {
        out.start_file(name, SimpleFileOptions::default()).expect("an entry");
        out.write_all(bytes).expect("written");
    };
    let mut listed = Vec::new();
    for (name, bytes) in [("hearth.db", store.as_slice())].iter().chain(files) {
        put(name, bytes);
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        listed.push(json!({"path": name, "bytes": bytes.len(), "sha256": digest}));
    }
    manifest["files"] = json!(listed);
    manifest["dataFolder"] = json!(FOLDER);
    put("manifest.json", manifest.to_string().as_bytes());
    out.finish().expect("an archive");
}

/// A run's row.
const RUN: &str = "INSERT INTO run (id, name, model, model_name, dataset_name, data_path, skip_broken, settings, state,
    created_at) VALUES (5, 'r', 'm', 'm', 'd', '/x', 0, '{}', 'finished', 1);";

/// Restores a backup and starts the app again.
async fn restored(harness: Harness, backup: PathBuf) -> Harness {
    harness.app.restore_backup(backup).await.expect("a backup");
    Harness::open(harness.close().await)
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, bytes).expect("a file");
}

/// The reason why a backup whose store was changed by this SQL is not restored.
async fn refused(harness: &Harness, backup: &Path, sql: &str) -> Problem {
    forge(backup, sql, &[]).await;
    let problem = harness.app.restore_backup(backup.to_owned()).await.expect_err(sql);
    assert_eq!(problem.code, ProblemCode::DataInvalid, "{problem}");
    problem
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_adapter_outside_its_run_stays() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    let victim = harness.path("victim/precious.txt");
    put(&victim, b"precious");
    let mine = harness.path("data/models/mine/model.gguf");
    put(&mine, b"mine");
    let data = harness.path("data").display().to_string();
    let row = |id: i64, run: &str, path: String| {
        format!(
            "INSERT INTO adapter (id, name, run, model, model_name, path, created_at, deleted_at)
             VALUES ({id}, 'a', {run}, 'm', 'm', '{path}', 1, 4000000000000000);"
        )
    };
    let runs = |id: i64| RUN.replace("(5,", &format!("({id},"));
    let sql = [
        runs(5),
        runs(6),
        runs(7),
        row(1, "5", format!("{FOLDER}/runs/5/../../../victim")),
        row(2, "6", format!("{data}/runs/6/../../models")),
        row(3, "7", format!("{data}/models/mine")),
        row(4, "NULL", format!("{data}/models/mine")),
    ];
    forge(
        &backup,
        &sql.concat(),
        &[("runs/5/run.json", b"{}"), ("runs/6/run.json", b"{}")],
    )
    .await;
    let harness = restored(harness, backup).await;
    assert_eq!(fs::read(&victim).expect("the file"), b"precious");
    assert_eq!(fs::read(&mine).expect("the file"), b"mine");
    assert!(harness.path("data/runs/5/run.json").exists(), "the run is not deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downloaded_adapter_is_not_deleted_by_a_row_from_elsewhere() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    let adapter = harness.path("data/adapters/someone/some/main/lora.gguf");
    put(&adapter, b"GGUF");
    let origin = json!({"source": "hf.co/someone/some", "revision": "main", "license": null});
    put(
        &adapter.with_file_name("lora.gguf.origin.json"),
        origin.to_string().as_bytes(),
    );
    let sql = format!(
        "INSERT INTO adapter (id, name, run, model, model_name, path, created_at, deleted_at)
         VALUES (1, 'a', NULL, 'm', 'm', '{}', 1, 4000000000000000)",
        adapter.display()
    );
    forge(&backup, &sql, &[]).await;
    let harness = restored(harness, backup).await;
    assert!(adapter.exists());
    drop(harness);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_from_elsewhere_requests_nothing_and_names_no_file_of_mine() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    let precious = harness.path("precious.gguf");
    put(&precious, b"precious");
    let remote = |path: &str| {
        let file =
            |path: &str| json!({"name": "f", "url": "https://example.com/f", "path": path, "size": 8, "sha256": null});
        json!({
            "name": "n", "files": [file(path), file(path)],
            "origin": {"source": "hf.co/a/b", "revision": null, "license": null}, "kind": "model",
        })
    };
    let mut sql = String::new();
    let paths = [
        precious.display().to_string(),
        "../../precious.gguf".to_owned(),
        "a/./b.gguf".to_owned(),
    ];
    for (at, path) in paths.iter().enumerate() {
        let json = remote(path).to_string();
        sql += &format!(
            "INSERT INTO download (source, name, remote, state, added_at)
             VALUES ('hf.co/a/b{at}', 'n', '{json}', '{}', 1);",
            ["queued", "paused", "odd"][at]
        );
    }
    // A model of this machine, beside a file that does not exist.
    let model = harness.path("data/models/a/b.gguf");
    put(&model, b"a model");
    let mut safe = remote("a/b.gguf");
    safe["files"][0]["path"] = json!("no/such.gguf");
    sql += &format!(
        "INSERT INTO download (source, name, remote, state, added_at) VALUES ('hf.co/a/c', 'n', '{safe}', 'queued', 1)"
    );
    forge(&backup, &sql, &[]).await;
    // It would be asked by a queued download.
    let hub = FakeHub::with(HashMap::new(), &[Reply::Good]);
    let settings = Settings {
        hub_endpoint: Some(hub.hub.endpoint.clone()),
        ..Settings::default()
    };
    harness.app.set_settings(settings).await.expect("set");
    let harness = restored(harness, backup).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(hub.requests().is_empty(), "{:?}", hub.requests());
    let rows = harness.app.store().read(|t| download::list(t)).expect("rows");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(row.state, State::Paused);
        assert_eq!(row.remote, None);
        harness.app.remove_download(row.id).await.expect("removed");
    }
    assert_eq!(fs::read(&precious).expect("the file"), b"precious");
    assert_eq!(fs::read(&model).expect("the file"), b"a model");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_follow_each_other_in_a_circle_are_refused() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    // A deleted copy of the message.
    let deleted = |id: &str, parent: &str| {
        format!(
            "INSERT INTO deleted_message (id, deletion, deleted_at, selected, conversation, parent, role, content,
                state, created_at, better, edited)
             SELECT {id}, 1, 1, 0, conversation, {parent}, role, content, state, created_at, 0, 0 FROM message;"
        )
    };
    let below_deleted = "PRAGMA foreign_keys = OFF; UPDATE message SET parent = id + 1;".to_owned();
    for sql in [
        "UPDATE message SET parent = id",
        &deleted("id + 1", "id + 1"),
        &deleted("id", "NULL"),
        &(below_deleted + &deleted("id + 1", "NULL")),
    ] {
        let problem = refused(&harness, &backup, sql).await;
        assert!(problem.to_string().contains("answers a later one"), "{sql}: {problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_without_room_for_new_ones_are_refused() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    for sql in [
        "UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'message'",
        "UPDATE sqlite_sequence SET seq = 'x' WHERE name = 'message'",
        "UPDATE conversation SET deleted_at = 9223372036854775806",
        &RUN.replace("(5,", "(9223372036854775807,"),
        &RUN.replace("(5,", "(-1,"),
    ] {
        let problem = refused(&harness, &backup, sql).await;
        assert!(problem.to_string().contains("too large"), "{problem}");
    }
    assert!(harness.app.data_place().await.expect("a place").pending.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_is_not_of_hearth_is_refused() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    for sql in [
        "CREATE TRIGGER t AFTER INSERT ON message BEGIN DELETE FROM conversation; END",
        "CREATE VIEW v AS SELECT * FROM message",
        "CREATE TABLE t (x)",
        "CREATE INDEX i ON message (content)",
        "CREATE VIRTUAL TABLE t USING fts5 (x)",
        "DROP TRIGGER message_fts_insert",
        "ALTER TABLE message ADD COLUMN x TEXT DEFAULT 'x'",
        "PRAGMA user_version = 21",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE name = 'tag'",
    ] {
        let problem = refused(&harness, &backup, sql).await;
        assert!(
            problem.to_string().contains("not as Hearth writes it"),
            "{sql}: {problem}"
        );
    }
    // SQLite's own statistics.
    forge(&backup, "ANALYZE", &[]).await;
    harness.app.restore_backup(backup).await.expect("a backup");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_that_gets_the_token_stays_that_of_this_machine() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    let sql = r#"INSERT OR REPLACE INTO setting (key, value) VALUES ('hubEndpoint', '"https://evil.example"')"#;
    forge(&backup, sql, &[]).await;
    let endpoint = async |harness: &Harness| harness.app.snapshot().await.expect("a snapshot").settings.hub_endpoint;
    let harness = restored(harness, backup.clone()).await;
    assert_eq!(endpoint(&harness).await, None);
    let mine = Some("https://mirror.example".to_owned());
    let settings = Settings {
        hub_endpoint: mine.clone(),
        offline: true,
        ..harness.app.snapshot().await.expect("a snapshot").settings
    };
    harness.app.set_settings(settings).await.expect("set");
    let harness = restored(harness, backup).await;
    assert_eq!(endpoint(&harness).await, mine);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_from_elsewhere_opens_no_connection() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    let theirs = r"\\evil.example\share\a";
    let local = "/somewhere/a.gguf";
    let mut sql = format!(
        "INSERT OR REPLACE INTO setting (key, value) VALUES
             ('offline', 'false'), ('modelFolders', '{}');
         INSERT INTO adapter (id, name, run, model, model_name, path, created_at)
         VALUES (1, 'a', NULL, 'm', 'm', '{theirs}', 1);",
        json!([theirs])
    );
    sql += &RUN.replace("'/x'", &format!("'{theirs}'"));
    for path in [theirs, r"\\?\UNC\evil.example\share", "//evil.example/share/b", local] {
        sql += &format!(
            "INSERT INTO model (path, added_at) VALUES ('{path}', 1);
             INSERT INTO dataset (name, path, added_at) VALUES ('d', '{path}', 1);"
        );
    }
    forge(&backup, &sql, &[]).await;
    let mine = Settings {
        offline: true,
        model_folders: vec![harness.path("mine").display().to_string()],
        ..harness.app.snapshot().await.expect("a snapshot").settings
    };
    harness.app.set_settings(mine.clone()).await.expect("set");
    let harness = restored(harness, backup).await;
    let settings = harness.app.snapshot().await.expect("a snapshot").settings;
    assert_eq!((settings.offline, settings.model_folders), (true, mine.model_folders));
    let paths = |sql: &str| -> Vec<String> {
        let read = |t: &rusqlite::Transaction<'_>| {
            let mut rows = t.prepare(sql)?;
            rows.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()
        };
        harness.app.store().read(read).expect("rows")
    };
    for (table, column, count) in [
        ("model", "path", 4),
        ("dataset", "path", 4),
        ("adapter", "path", 1),
        ("run", "data_path", 1),
    ] {
        let actual = paths(&format!("SELECT {column} FROM {table}"));
        assert_eq!(actual.len(), count, "{table}: {actual:?}");
        for path in actual {
            assert!(path == local || path.starts_with("network:"), "{table}: {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_is_complete_without_its_log() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    forge(&backup, "PRAGMA journal_mode = WAL", &[]).await;
    harness.app.restore_backup(backup).await.expect("a backup");
    let store = fs::read(harness.path("data/hearth-restore/hearth.db")).expect("a store");
    // The versions of the file format, which say whether there is a log.
    assert_eq!(store[18..20], [1, 1]);
    assert!(!harness.path("data/hearth-restore/hearth.db-wal").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_has_room_for_rows_of_its_next_backup() {
    const MAX_ID: i64 = 1 << 52;
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    for most in [MAX_ID, MAX_ID - (1 << 48)] {
        let sql = format!("UPDATE sqlite_sequence SET seq = {most} WHERE name IN ('message', 'conversation')");
        forge(&backup, &sql, &[]).await;
        if harness.app.restore_backup(backup.clone()).await.is_ok() {
            break;
        }
    }
    let harness = Harness::open(harness.close().await);
    assert_eq!(harness.only().await.title, "of someone");
    harness
        .import_json(
            &json!({"conv": {"id": "2", "name": "more"}, "messages": [{"id": "1", "role": "user", "content": "Hi"}]}),
        )
        .await;
    harness.app.back_up(backup).await.expect("a backup");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_could_not_be_restored_is_not_backed_up() {
    let harness = Harness::new();
    let view = "CREATE VIEW v AS SELECT * FROM message";
    harness.app.store().write(|t| t.execute_batch(view)).expect("a view");
    let path = harness.path("all.hearthbackup");
    let problem = harness.app.back_up(path.clone()).await.expect_err("a view");
    assert!(problem.to_string().contains("No backup was written"), "{problem}");
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_odd_clock_from_elsewhere_is_forgotten() {
    let harness = Harness::new();
    let backup = harness.path("theirs.hearthbackup");
    let sql = "INSERT OR REPLACE INTO setting (key, value) VALUES ('clock', '[1, 9223372036854775807]')";
    forge(&backup, sql, &[]).await;
    let harness = restored(harness, backup.clone()).await;
    let id = harness.only().await.id;
    harness.app.delete_conversation(id).await.expect("deleted");
    let days = harness.app.deleted_conversations().await.expect("a list")[0].days_left;
    assert_eq!(days, 30);
    harness.app.back_up(backup).await.expect("a backup");
    assert!(harness.app.store().read(|t| adapter::list(t)).expect("rows").is_empty());
}

/// The contents of each version's store are described in `tests/fixtures/v0/make.py`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_each_earlier_version_is_restored() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/v0/store");
    for version in 1..=14 {
        let harness = Harness::new();
        let backup = harness.path("early.hearthbackup");
        let store = fixtures.join(format!("{version}.db"));
        forge_of(&backup, Some(&store), "", &[]).await;
        let harness = restored(harness, backup).await;
        assert_eq!(harness.only().await.title, "Of cormorants", "version {version}");
    }
}

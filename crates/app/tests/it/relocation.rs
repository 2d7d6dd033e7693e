//! Moving the data folder to another one.

use crate::data_harness::{Harness, open_acting};
use crate::support;
use hearth_app::{
    App, Options,
    store::{adapter, download::State},
    wire::{Announced, DataPlace, Event, Problem, ProblemCode},
};
use serde_json::json;
use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};
use tokio::runtime::Handle;

/// Closes the app and opens it again over the data in this folder.
async fn restarted(harness: Harness, data: &str) -> Harness {
    let folder = harness.close().await;
    let options = Options {
        data: folder.path().join(data),
        ..support::options(&folder.path().join("data"))
    };
    Harness::with(folder, options).expect("an app")
}

/// Shows that the app can save.
async fn save(app: &App) {
    app.create_folder("A folder".to_owned()).await.expect("a folder");
}

fn last_progress(harness: &Harness) -> f32 {
    let events = harness.events.lock().expect("events");
    let fractions = events.iter().filter_map(|event| match event {
        Event::MoveProgress { fraction } => Some(*fraction),
        _ => None,
    });
    fractions.fold(0.0, |last, fraction| {
        assert!(fraction > last && fraction <= 1.0, "{last} {fraction}");
        fraction
    })
}

/// An app with a conversation, a downloaded model, files of runs, and other programs' files.
async fn filled() -> Harness {
    let harness = Harness::new();
    for (path, bytes) in [
        ("data/runs/1/adapter/weights.safetensors", 3 << 20),
        ("data/presets/Mine.json", 2),
        ("data/prompt-cache/1/0123456789abcdef0123456789abcdef.kv", 10),
        ("data/notes of mine.txt", 5),
    ] {
        let path = harness.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, vec![b' '; bytes]).expect("a file");
    }
    let model = support::model(&harness.path("data/models/someone/some-model"), "nested.gguf");
    #[cfg(unix)]
    for (target, link) in [
        (model.as_path(), "absolute.gguf"),
        ("some-model/nested.gguf".as_ref(), "relative.gguf"),
    ] {
        std::os::unix::fs::symlink(target, harness.path("data/models/someone").join(link)).expect("a link");
    }
    #[cfg(not(unix))]
    drop(model);
    harness.add_adapter(&harness.path("data/runs/1/adapter/weights.safetensors"));
    let chat = json!([{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}]);
    harness.import_json(&chat).await;
    harness
}

fn moved_to(harness: &Harness) -> PathBuf {
    let text = fs::read(harness.path("data/hearth-moved.json")).expect("a file");
    let moved: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    PathBuf::from(moved["data"].as_str().expect("a path"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_in_the_new_folder_after_the_next_start() {
    let harness = filled().await;
    let nested = |models: Vec<hearth_app::wire::Model>| {
        let mut files = models.into_iter().filter(|model| model.path.ends_with("nested.gguf"));
        files.next().expect("the model").id
    };
    let before = harness.app.snapshot().await.expect("a snapshot");
    let to = harness.path("elsewhere");
    assert_eq!(
        harness.app.data_target(to.clone()).await.expect("a folder"),
        to.display().to_string()
    );

    harness.app.move_data(to.clone()).await.expect("moved");
    assert_eq!(moved_to(&harness), to);
    assert_eq!(last_progress(&harness), 1.0);
    let refused = harness
        .app
        .rename_conversation(1, "Lost".into())
        .await
        .expect_err("frozen");
    assert_eq!(refused.code, ProblemCode::Busy, "{refused}");

    let harness = restarted(harness, "elsewhere").await;
    let after = harness.app.snapshot().await.expect("a snapshot");
    assert_eq!(after.conversations, before.conversations);
    assert_eq!(nested(after.models), nested(before.models), "ids of models stay");
    let rows = harness.app.store().read(|t| adapter::list(t)).expect("rows");
    assert_eq!(
        rows[0].path,
        harness.path("elsewhere/runs/1/adapter/weights.safetensors")
    );
    assert_eq!(fs::metadata(&rows[0].path).expect("the file").len(), 3 << 20);
    assert!(harness.path("elsewhere/presets/Mine.json").exists());
    #[cfg(unix)]
    for link in ["absolute.gguf", "relative.gguf"] {
        let target = fs::read_link(harness.path("elsewhere/models/someone").join(link)).expect("a link");
        assert_eq!(target, harness.path("elsewhere/models/someone/some-model/nested.gguf"));
    }
    let modified = |path: &str| {
        fs::metadata(harness.path(path))
            .expect(path)
            .modified()
            .expect("a time")
    };
    let weights = "runs/1/adapter/weights.safetensors";
    assert_eq!(
        modified(&format!("elsewhere/{weights}")),
        modified(&format!("data/{weights}"))
    );
    let again = harness
        .app
        .move_data(harness.path("third"))
        .await
        .expect_err("the former data would be forgotten");
    assert!(again.to_string().contains("Delete it first"), "{again}");
    assert!(
        !harness.path("elsewhere/prompt-cache").exists(),
        "a cache is made again"
    );
    assert!(!harness.path("elsewhere/notes of mine.txt").exists(), "not Hearth's");

    let DataPlace {
        path, bytes, former, ..
    } = harness.app.data_place().await.expect("a place");
    let former = former.expect("the copy from before");
    assert_eq!(
        (path, former.path),
        (to.display().to_string(), harness.path("data").display().to_string())
    );
    assert!(bytes > 3 << 20 && former.bytes > 3 << 20, "{bytes} {}", former.bytes);
    harness.app.delete_former_data().await.expect("deleted");
    assert!(!harness.path("data/hearth.db").exists() && !harness.path("data/models").exists());
    assert!(harness.path("data/notes of mine.txt").exists(), "not Hearth's");
    assert_eq!(moved_to(&harness), to, "the next start still finds the data");
    assert_eq!(harness.app.data_place().await.expect("a place").former, None);
    assert_eq!(code(harness.app.delete_former_data().await), ProblemCode::BadRequest);

    harness
        .app
        .move_data(harness.path("data"))
        .await
        .expect_err("a file of mine is there");
    fs::remove_file(harness.path("data/notes of mine.txt")).expect("removed");
    harness.app.move_data(harness.path("data")).await.expect("moved back");
    let harness = restarted(harness, "data").await;
    let back = harness.app.snapshot().await.expect("a snapshot");
    assert_eq!(back.conversations, before.conversations);
    harness.app.delete_former_data().await.expect("deleted");
    assert!(
        !harness.path("elsewhere").exists(),
        "an empty folder of a move goes, too"
    );
    assert!(
        !harness.path("data/hearth-moved.json").exists(),
        "the data is where it was first"
    );
}

fn code<T: std::fmt::Debug>(result: Result<T, Problem>) -> ProblemCode {
    result.expect_err("a problem").code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_fails_changes_nothing() {
    let harness = filled().await;
    let refuse = async |folder: PathBuf, what: &str| {
        let problem = harness.app.move_data(folder).await.expect_err(what);
        assert!(problem.to_string().contains(what), "{problem}");
        assert!(!harness.path("data/hearth-moved.json").exists());
        save(&harness.app).await;
    };
    refuse(harness.path("data/inside"), "into the folder that it is in").await;
    refuse(harness.path("data"), "into the folder that it is in").await;
    refuse(PathBuf::from("relative"), "absolute").await;
    fs::create_dir_all(harness.path("full/Hearth")).expect("a folder");
    fs::write(harness.path("full/a"), "").expect("a file");
    fs::write(harness.path("full/Hearth/a"), "").expect("a file");
    refuse(harness.path("full"), "has other files").await;
    fs::write(harness.path("file"), "").expect("a file");
    refuse(harness.path("file/inside"), "could not be moved").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_under_the_name_of_an_incomplete_copy_is_not_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("disk/hearth-arriving/Hearth");
    let harness = Harness::with(folder, support::options(&data)).expect("an app");
    harness
        .app
        .move_data(harness.path("disk"))
        .await
        .expect_err("the data is in it");
    assert!(data.join("hearth.db").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_other_files_gets_a_folder_of_its_own() {
    let harness = filled().await;
    fs::create_dir(harness.path("disk")).expect("a folder");
    fs::write(harness.path("disk/photo.jpg"), "").expect("a file");
    // Left by a move that was killed.
    fs::create_dir_all(harness.path("disk/Hearth/hearth-arriving")).expect("a folder");
    fs::write(harness.path("disk/Hearth/hearth-arriving/hearth.db"), "half").expect("a file");
    harness.app.move_data(harness.path("disk")).await.expect("moved");
    assert_eq!(moved_to(&harness), harness.path("disk/Hearth"));
    assert!(harness.path("disk/Hearth/hearth.db").exists());
    assert!(!harness.path("disk/Hearth/hearth-arriving").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_vanish_during_a_move_do_not_fail_it() {
    let folder = filled().await.close().await;
    let vanishing = folder.path().join("data/datasets/vanishing");
    fs::create_dir_all(&vanishing).expect("a folder");
    for number in 0..20 {
        // Large enough for a report after the first of them.
        fs::write(vanishing.join(format!("{number}.tmp")), vec![0; 1 << 16]).expect("a file");
    }
    let (options, gone) = (support::options(&folder.path().join("data")), vanishing.clone());
    let app = App::open(options, move |Announced { event, .. }| {
        // Called by the thread that copies, once it has listed the files.
        if let Event::MoveProgress { .. } = event {
            let _ = fs::remove_dir_all(&gone);
        }
    })
    .expect("an app");
    let to = folder.path().join("elsewhere");
    app.move_data(to.clone()).await.expect("moved");
    assert!(to.join("hearth.db").exists());
    assert!(!vanishing.exists(), "the files vanished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_move_leaves_the_app_as_it_was() {
    let folder = filled().await.close().await;
    let app: Arc<OnceLock<App>> = Arc::default();
    let (options, itself) = (support::options(&folder.path().join("data")), app.clone());
    let opened = App::open(options, move |Announced { event, .. }| {
        // Called by the thread that copies, after the first of several reports.
        if let (Event::MoveProgress { .. }, Some(app)) = (event, itself.get()) {
            Handle::current().block_on(app.cancel_move()).expect("cancelled");
        }
    });
    app.set(opened.expect("an app")).ok().expect("set once");
    let app = app.get().expect("set");
    let to = folder.path().join("elsewhere");
    assert_eq!(code(app.move_data(to.clone()).await), ProblemCode::Cancelled);
    assert!(!folder.path().join("data/hearth-moved.json").exists());
    assert_eq!(fs::read_dir(&to).expect("a folder").count(), 0, "nothing is left there");
    save(app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_refuses_a_backup_and_a_restoration() {
    let harness = filled().await;
    let backup = harness.path("all.hearthbackup");
    harness.app.back_up(backup.clone()).await.expect("a backup");
    let folder = harness.close().await;
    let codes: Arc<Mutex<Vec<Option<ProblemCode>>>> = Arc::default();
    let (seen, path, other) = (codes.clone(), backup.clone(), folder.path().join("other.hearthbackup"));
    let app = open_acting(&folder.path().join("data"), move |app, event| {
        if let Event::MoveProgress { .. } = event {
            let backed_up = Handle::current().block_on(app.back_up(other.clone())).err();
            let restored = Handle::current().block_on(app.restore_backup(path.clone())).err();
            let problems = [backed_up, restored].map(|problem| problem.map(|problem| problem.code));
            seen.lock().expect("codes").extend(problems);
        }
    });
    app.move_data(folder.path().join("elsewhere")).await.expect("moved");
    let codes = codes.lock().expect("codes").clone();
    assert!(!codes.is_empty());
    assert!(codes.iter().all(|code| *code == Some(ProblemCode::Busy)), "{codes:?}");
    // The next start has the other folder's data.
    assert_eq!(code(app.restore_backup(backup).await), ProblemCode::Busy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_of_each_state_move_along() {
    let harness = filled().await;
    harness
        .add_downloads(&harness.path("data/models/o/m3/model.gguf"))
        .await;
    harness.app.move_data(harness.path("elsewhere")).await.expect("moved");
    let harness = restarted(harness, "elsewhere").await;
    let failed = State::Failed(r#"{"code":"download","message":"No."}"#.to_owned());
    let done = harness.path("elsewhere/models/o/m3/model.gguf").display().to_string();
    assert_eq!(
        harness.download_states(),
        [State::Queued, State::Paused, failed, State::Done(done)]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_was_copied_is_deleted_in_the_former_folder() {
    let harness = filled().await;
    harness.app.move_data(harness.path("elsewhere")).await.expect("moved");
    let harness = restarted(harness, "elsewhere").await;
    let put = |name: &str, bytes: &[u8]| {
        let path = harness.path("data").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    };
    // Put there after the move.
    put("models/new/model.gguf", b"new");
    put("runs/1/notes.txt", b"mine");
    put("hearth.db.mine", b"mine");
    // Of the same size, but changed.
    put("presets/Mine.json", b"{}");
    // No longer in the present folder, but it was copied.
    fs::remove_file(harness.path("elsewhere/runs/1/adapter/weights.safetensors")).expect("removed");
    let deleted = harness.app.delete_former_data().await.expect("deleted");
    assert_eq!(deleted.left, 3, "{deleted:?}");
    assert!(PathBuf::from(deleted.example.expect("one")).starts_with(harness.path("data")));
    for name in [
        "models/new/model.gguf",
        "runs/1/notes.txt",
        "presets/Mine.json",
        "hearth.db.mine",
    ] {
        assert!(harness.path("data").join(name).exists(), "{name}");
    }
    for name in ["hearth.db", "models/someone", "runs/1/adapter", "hearth-backups"] {
        assert!(!harness.path("data").join(name).exists(), "{name}");
    }
    assert!(!harness.path("elsewhere/hearth-copied.json").exists());
    assert_eq!(harness.app.data_place().await.expect("a place").former, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_folder_that_was_used_since_is_not_deleted() {
    let harness = filled().await;
    harness.app.move_data(harness.path("elsewhere")).await.expect("moved");
    let moved = fs::read(harness.path("data/hearth-moved.json")).expect("a file");
    let harness = restarted(harness, "elsewhere").await;
    // Another Hearth, which does not know of the move.
    let folder = tempfile::tempdir().expect("a folder");
    let other = Harness::with(folder, support::options(&harness.path("data"))).expect("an app");
    save(&other.app).await;
    drop(other.close().await);
    fs::write(harness.path("data/hearth-moved.json"), moved).expect("a file");
    let problem = harness.app.delete_former_data().await.expect_err("used since");
    assert!(problem.to_string().contains("after the move"), "{problem}");
    assert!(harness.path("data/hearth.db").exists() && harness.path("data/models/someone").exists());
    assert!(harness.app.data_place().await.expect("a place").former.is_some());
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_folder_that_became_a_link_to_the_copy_leaves_that_alone() {
    let harness = filled().await;
    harness.app.move_data(harness.path("elsewhere")).await.expect("moved");
    let harness = restarted(harness, "elsewhere").await;
    fs::remove_dir_all(harness.path("data/models")).expect("removed");
    std::os::unix::fs::symlink(harness.path("elsewhere/models"), harness.path("data/models")).expect("a link");
    harness.app.delete_former_data().await.expect("deleted");
    assert!(harness.path("elsewhere/models/someone/some-model/nested.gguf").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_former_folder_of_an_earlier_version_keeps_what_is_not_in_the_present_one() {
    let harness = filled().await;
    harness.app.move_data(harness.path("elsewhere")).await.expect("moved");
    let harness = restarted(harness, "elsewhere").await;
    // An earlier version wrote no list.
    fs::remove_file(harness.path("elsewhere/hearth-copied.json")).expect("removed");
    fs::write(harness.path("data/runs/1/notes.txt"), "mine").expect("a file");
    let deleted = harness.app.delete_former_data().await.expect("deleted");
    assert_eq!(deleted.left, 1, "{deleted:?}");
    assert!(harness.path("data/runs/1/notes.txt").exists() && !harness.path("data/hearth.db").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_damaged_list_of_what_was_copied_nothing_is_deleted() {
    let harness = filled().await;
    harness.app.move_data(harness.path("elsewhere")).await.expect("moved");
    let harness = restarted(harness, "elsewhere").await;
    fs::write(harness.path("elsewhere/hearth-copied.json"), "{\"clock\":").expect("a file");
    let problem = harness.app.delete_former_data().await.expect_err("a damaged list");
    assert!(problem.to_string().contains("nothing was deleted"), "{problem}");
    for name in [
        "hearth.db",
        "models/someone/some-model/nested.gguf",
        "presets/Mine.json",
    ] {
        assert!(harness.path("data").join(name).exists(), "{name}");
    }
    // The user deletes the rest, as the message says.
    for entry in fs::read_dir(harness.path("data")).expect("a folder").flatten() {
        if entry.file_type().expect("a type").is_dir() {
            fs::remove_dir_all(entry.path()).expect("removed")
        } else if entry.file_name() != "hearth-moved.json" {
            fs::remove_file(entry.path()).expect("removed")
        }
    }
    harness.app.delete_former_data().await.expect("it is gone");
    assert_eq!(harness.app.data_place().await.expect("a place").former, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_folder_that_a_person_deleted_is_forgotten() {
    let harness = filled().await;
    harness.app.move_data(harness.path("elsewhere")).await.expect("moved");
    let harness = restarted(harness, "elsewhere").await;
    harness.app.delete_former_data().await.expect("deleted");
    harness.app.move_data(harness.path("third")).await.expect("moved");
    let harness = restarted(harness, "third").await;
    fs::remove_dir_all(harness.path("elsewhere")).expect("removed");
    harness.app.delete_former_data().await.expect("it is gone");
    assert_eq!(harness.app.data_place().await.expect("a place").former, None);
}

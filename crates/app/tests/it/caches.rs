//! The prompt cache and the cache of packed weights: their sizes, limits and deletion.

use crate::harness::Harness;
use hearth_app::wire::{Cache, CacheUsage, Settings};
use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// Name of a file of the prompt cache, in the folder of its conversation.
const SAVED_CELLS: &str = "0123456789abcdef0123456789abcdef.kv";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clearing_a_cache_deletes_its_files_only() {
    let mut harness = Harness::tiny();
    let talk = harness.answer("say one").await.conversation;
    let [data, packed] = ["data", "cache/packed"].map(|folder| harness.folder.path().join(folder));
    let cells = data.join("prompt-cache").join(talk.to_string());
    for folder in [&cells, &packed] {
        fs::create_dir_all(folder).unwrap();
    }
    let saved = cells.join(SAVED_CELLS);
    fs::write(&saved, [0; 1000]).unwrap();
    fs::write(packed.join("model.packed"), [0; 300]).unwrap();
    fs::write(packed.join("model.1-0.part"), [0; 20]).unwrap();
    let mine = [
        packed.join("mine.gguf"),
        data.join("prompt-cache/photos/mine.kv"),
        cells.join("mine.part"),
        cells.join("mine.kv"),
    ];
    for file in &mine {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "not Hearth's").unwrap();
    }
    let sizes = |caches: Vec<CacheUsage>| {
        let about = |usage: &CacheUsage| (usage.cache, PathBuf::from(&usage.path), usage.bytes);
        caches.iter().map(about).collect::<Vec<_>>()
    };
    let [prompts, weights] = [
        (Cache::Prompts, data.join("prompt-cache")),
        (Cache::Weights, packed.clone()),
    ]
    .map(|(cache, path)| move |bytes: u64| (cache, path.clone(), bytes));
    assert_eq!(sizes(harness.caches().await.unwrap()), [prompts(1000), weights(320)]);
    let cleared = harness.clear_cache(Cache::Weights).await.unwrap();
    assert_eq!(sizes(cleared), [prompts(1000), weights(0)]);
    let cleared = harness.clear_cache(Cache::Prompts).await.unwrap();
    assert_eq!(sizes(cleared), [prompts(0), weights(0)]);
    assert!(!saved.exists() && mine.iter().all(|file| file.exists()));
    assert_eq!(harness.conversation(talk).await.messages.len(), 2);
    assert_eq!(
        sizes(harness.clear_cache(Cache::Prompts).await.unwrap()).len(),
        2,
        "an empty cache is listed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_limit_trims_the_prompt_cache() {
    let harness = Harness::tiny();
    let file = |name: &str| {
        harness
            .folder
            .path()
            .join("data/prompt-cache")
            .join(name)
            .join(SAVED_CELLS)
    };
    for (name, seconds) in [("1", 20), ("2", 30), ("3", 10)] {
        fs::create_dir_all(file(name).parent().unwrap()).unwrap();
        fs::write(file(name), [0; 1000]).unwrap();
        let opened = fs::File::options().append(true).open(file(name)).unwrap();
        let used = SystemTime::now() - Duration::from_secs(seconds);
        opened.set_modified(used).unwrap();
    }
    let limit = |prompt_cache_limit| {
        harness.set_settings(Settings {
            prompt_cache_limit,
            ..Settings::default()
        })
    };
    let exist = || ["1", "2", "3"].map(|name| file(name).exists());
    limit(3000).await.unwrap();
    assert_eq!(exist(), [true; 3]);
    limit(2999).await.unwrap();
    assert_eq!(exist(), [true, false, true]);
    limit(0).await.unwrap();
    assert_eq!(exist(), [false; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_cache_is_deleted_with_its_conversation() {
    let mut harness = Harness::tiny();
    let stays = harness.answer("say one").await.conversation;
    let goes = harness.answer("say two").await.conversation;
    let folder = harness.folder.path().join("data/prompt-cache");
    let cells = |conversation: i64| folder.join(conversation.to_string());
    // As a worker does; the last conversation does not exist.
    for conversation in [stays, goes, 999, 1000] {
        fs::create_dir_all(cells(conversation)).unwrap();
        fs::write(cells(conversation).join(SAVED_CELLS), "cells").unwrap();
    }
    // Files of the user.
    let photos = folder.join("photos");
    fs::create_dir_all(&photos).unwrap();
    let mine = [
        cells(1000).join("letter.txt"),
        cells(1000).join("download.part"),
        cells(1000).join("more.kv/letter.txt"),
        photos.join("model.kv"),
        folder.join("photo.jpg"),
    ];
    for file in &mine {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "mine").unwrap();
    }
    // A link to a folder, and one to a file.
    #[cfg(unix)]
    for (target, link) in [(&photos, cells(1001)), (&mine[3], cells(1000).join("link.kv"))] {
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    harness.delete_conversation(goes).await.unwrap();
    assert!(!cells(goes).exists());
    // A worker that was saving writes once more.
    fs::create_dir_all(cells(goes)).unwrap();
    let _restarted = harness.again().await;
    assert!(cells(stays).join(SAVED_CELLS).exists());
    assert!(!cells(goes).exists() && !cells(999).exists());
    assert!(!cells(1000).join(SAVED_CELLS).exists());
    for file in &mine {
        assert!(file.exists(), "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_cache_of_early_versions_is_removed() {
    let harness = Harness::new(&[]);
    let old = harness.folder.path().join("data/kept");
    fs::create_dir_all(old.join("1")).unwrap();
    fs::write(old.join("1/model.kv"), "cells").unwrap();
    let harness = harness.again().await;
    assert!(!old.exists());
    // Files of the user stay.
    fs::create_dir_all(old.join("2")).unwrap();
    for name in ["2/model.kv", "2/letter.txt", "photo.jpg"] {
        fs::write(old.join(name), "mine").unwrap();
    }
    let _restarted = harness.again().await;
    assert!(!old.join("2/model.kv").exists());
    assert!(old.join("2/letter.txt").exists() && old.join("photo.jpg").exists());
}

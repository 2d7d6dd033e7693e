//! An adapter of another program.

use super::models;
use crate::support;
use hearth_app::{App, Options, wire::Adapter};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

const FILES: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

pub fn prepare(folder: &Path) {
    fs::create_dir_all(folder.join("work/theirs")).expect("it is made");
    for file in FILES {
        let from = fixtures().join("training/llama/end").join(file);
        fs::copy(from, folder.join("work/theirs").join(file)).expect("a copy");
    }
    models::prepare(folder);
    // So that the app does not write the cache of the metadata while it imports: the operations
    // would be in another order each time.
    models::list(folder).expect("a list");
}

/// Does something with the app over the folder.
fn with_app<T>(folder: &Path, act: impl AsyncFnOnce(&App) -> Result<T, String>) -> Result<T, String> {
    let options = Options {
        bundled: vec![models::bundled(folder)],
        metadata_file: Some(models::cache(folder)),
        ..support::options(&folder.join("work/data"))
    };
    super::with_app(options, act)
}

pub fn import(folder: &Path) -> Result<(), String> {
    let theirs = folder.join("work/theirs");
    with_app(folder, async |app| {
        let imported = app.import_adapter(theirs, Some("llama".into())).await;
        imported.map(drop).map_err(|problem| problem.to_string())
    })
}

pub fn check(folder: &Path, done: bool) {
    let files: BTreeMap<_, _> = FILES
        .map(|file| (file, fs::read(folder.join("work/theirs").join(file)).expect("a file")))
        .into();
    for (file, bytes) in files {
        let theirs = fixtures().join("training/llama/end").join(file);
        assert!(bytes == fs::read(theirs).expect("a file"), "{file} is theirs");
    }
    let adapters: Vec<Adapter> = with_app(folder, async |app| {
        let models = app.snapshot().await.map_err(|problem| problem.to_string())?.models;
        assert!(matches!(&models[..], [one] if one.id == "llama" && one.problem.is_none()));
        app.adapters().await.map_err(|problem| problem.to_string())
    })
    .expect("the app opens");
    assert!(!adapters.is_empty() || !done);
    assert!(adapters.iter().all(|adapter| adapter.problem.is_none()));
}

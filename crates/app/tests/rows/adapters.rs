//! An adapter of another program.

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
    for made in ["work/theirs", "work/bundled"] {
        fs::create_dir_all(folder.join(made)).expect("it is made");
    }
    for file in FILES {
        let from = fixtures().join("training/llama/end").join(file);
        fs::copy(from, folder.join("work/theirs").join(file)).expect("a copy");
    }
    fs::copy(
        fixtures().join("models/llama.gguf"),
        folder.join("work/bundled/llama.gguf"),
    )
    .expect("a copy");
}

/// Does something with the app over the folder.
fn with_app<T>(folder: &Path, act: impl AsyncFnOnce(&App) -> Result<T, String>) -> Result<T, String> {
    let options = Options {
        bundled: vec![folder.join("work/bundled")],
        metadata_file: Some(folder.join("work/cache/models.json")),
        ..support::options(&folder.join("work/data"))
    };
    super::with_app(options, act)
}

pub fn import(folder: &Path) -> Result<(), String> {
    let theirs = folder.join("work/theirs");
    with_app(folder, async |app| {
        // Listed first, so that the cache of the models' metadata is not written meanwhile.
        app.snapshot().await.map_err(|problem| problem.message)?;
        let imported = app.import_adapter(theirs, Some("llama".into())).await;
        imported.map(drop).map_err(|problem| problem.message)
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
        let models = app.snapshot().await.map_err(|problem| problem.message)?.models;
        assert!(matches!(&models[..], [one] if one.id == "llama" && one.problem.is_none()));
        app.adapters().await.map_err(|problem| problem.message)
    })
    .expect("the app opens");
    assert!(!adapters.is_empty() || !done);
    assert!(adapters.iter().all(|adapter| adapter.problem.is_none()));
}

//! The cache of models' metadata.

use hearth_app::library::{Library, Reader};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of the model.
pub fn bundled(folder: &Path) -> PathBuf {
    folder.join("work/bundled")
}

/// The file of the cache.
pub fn cache(folder: &Path) -> PathBuf {
    folder.join("work/cache/models.json")
}

/// A model.
pub fn prepare(folder: &Path) {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
    fs::create_dir_all(bundled(folder)).expect("it is made");
    fs::copy(model, bundled(folder).join("llama.gguf")).expect("a copy");
}

/// Lists the model, and writes the cache if it has no metadata of it.
pub fn list(folder: &Path) -> Result<(), String> {
    let library = Library::new(
        vec![bundled(folder)],
        &folder.join("work/data"),
        Reader::InProcess,
        Some(cache(folder)),
    );
    let models = library.list(&[]);
    assert!(matches!(&models[..], [one] if one.id == "llama" && one.metadata.is_ok()));
    Ok(())
}

/// The model is listed whatever is left of the cache, which is then whole.
pub fn check(folder: &Path, _: bool) {
    list(folder).expect("a list");
    let text = fs::read_to_string(cache(folder)).expect("a cache");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
}

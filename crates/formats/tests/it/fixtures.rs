//! Fixtures shared by several tests.

use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

/// The folder of the tokenizer fixtures.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tokenizer")
}

/// The folder of the chat templates' fixtures.
pub fn templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/templates")
}

/// Names of the small vocabularies in [`folder`].
pub const VOCABULARIES: [&str; 8] = [
    "gpt-2",
    "qwen2",
    "qwen35",
    "llama-bpe",
    "smollm",
    "default",
    "spm",
    "spm-gemma",
];

/// Path of a vocabulary.
pub fn vocabulary(name: &str) -> PathBuf {
    folder().join(format!("{name}.gguf"))
}

/// Path of the default model, which set-up downloads.
pub fn default_model() -> PathBuf {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(model.exists(), "{} is missing: run cargo xtask setup", model.display());
    model
}

/// Opens a file and builds its tokenizer.
pub fn open(path: &Path) -> (Gguf, Tokenizer) {
    let gguf = Gguf::open(path).unwrap_or_else(|error| panic!("{error}"));
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap_or_else(|error| panic!("{error}"));
    (gguf, tokenizer)
}

//! Fixtures shared by several tests.

use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, Strings};
use hearth_formats::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

/// The folder of this repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of the tokenizer fixtures.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tokenizer")
}

/// The folder of the chat templates' fixtures.
pub fn templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/templates")
}

/// Names of the small vocabularies in [`folder`].
pub const VOCABULARIES: [&str; 10] = [
    "gpt-2",
    "qwen2",
    "qwen35",
    "llama-bpe",
    "smollm",
    "default",
    "spm",
    "spm-gemma",
    "mixed",
    "gemma4",
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

/// The tokenizer of the vocabulary `mixed` with this pre-tokenizer.
pub fn with_pre_tokenizer(name: &str) -> Tokenizer {
    let (gguf, _) = open(&vocabulary("mixed"));
    let mut metadata = gguf.metadata().clone();
    metadata.insert("tokenizer.ggml.pre", name);
    rebuilt(&metadata)
}

/// The tokenizer of a small vocabulary with more tokens, each with its type in the file: 3 for a
/// control token, 4 for a user-defined one.
pub fn with_tokens(vocabulary_name: &str, added: &[(&str, i32)]) -> Tokenizer {
    let (gguf, _) = open(&vocabulary(vocabulary_name));
    let mut metadata = gguf.metadata().clone();
    let texts = gguf.strings("tokenizer.ggml.tokens").unwrap().unwrap();
    let mut types = gguf.i32s("tokenizer.ggml.token_type").unwrap().unwrap().into_owned();
    types.extend(added.iter().map(|(_, kind)| kind));
    if let Some(scores) = gguf.f32s("tokenizer.ggml.scores").unwrap() {
        let mut scores = scores.into_owned();
        scores.resize(types.len(), 0.0);
        metadata.insert("tokenizer.ggml.scores", scores);
    }
    let tokens = texts.iter().chain(added.iter().map(|(text, _)| *text));
    metadata.insert("tokenizer.ggml.tokens", Strings::from_iter(tokens));
    metadata.insert("tokenizer.ggml.token_type", types);
    rebuilt(&metadata)
}

fn rebuilt(metadata: &Metadata) -> Tokenizer {
    let file = GgufWriter::begin(Vec::new(), metadata, &[]).unwrap().finish().unwrap();
    Tokenizer::from_gguf(&Gguf::from_bytes(file).unwrap()).unwrap()
}

//! Arbitrary text through every kind of tokenizer: it round-trips, without special tokens.

use crate::seeds::{self, Seed};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use std::sync::LazyLock;

/// The tokenizers of the fixtures, sorted by name.
pub static TOKENIZERS: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    let files = seeds::files("tests/fixtures/tokenizer", ".gguf").into_iter();
    files
        .map(|file| Gguf::from_bytes(file.bytes).expect("a fixture"))
        .map(|gguf| Tokenizer::from_gguf(&gguf).expect("a fixture's tokenizer"))
        .collect()
});

pub fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    // SentencePiece encodes a space as U+2581, so this character does not round-trip.
    if text.contains('\u{2581}') {
        return false;
    }
    for tokenizer in TOKENIZERS.iter() {
        let ids = tokenizer.encode(text, Special::Text);
        assert!(!ids.iter().any(|&id| tokenizer.is_special(id)));
        assert_eq!(tokenizer.decode(&ids), text);
        tokenizer.encode(text, Special::Parse);
    }
    true
}

pub fn seeds() -> Vec<Seed> {
    let texts: Vec<String> = serde_json::from_str(&seeds::text("tests/fixtures/tokenizer/texts.json")).expect("texts");
    let texts = texts
        .into_iter()
        .filter(|text| text.len() <= 4096 && !text.contains('\u{2581}'));
    texts
        .enumerate()
        .map(|(number, text)| Seed::new(format!("text {number}"), text))
        .collect()
}

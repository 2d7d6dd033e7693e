//! Any text through each kind of vocabulary: it comes back, and none of it is special.
#![no_main]

use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TOKENIZERS: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/tokenizer");
    [
        "gpt-2",
        "qwen2",
        "qwen35",
        "llama-bpe",
        "smollm",
        "default",
        "spm",
        "spm-gemma",
    ]
    .map(|name| Gguf::open(format!("{folder}/{name}.gguf")).expect("a fixture"))
    .map(|gguf| Tokenizer::from_gguf(&gguf).expect("a fixture's tokenizer"))
    .into()
});

fuzz_target!(|text: &str| {
    // SentencePiece writes a space as U+2581, so that this one character does not come back.
    if text.contains('\u{2581}') {
        return;
    }
    for tokenizer in TOKENIZERS.iter() {
        let ids = tokenizer.encode(text, Special::Text);
        assert!(!ids.iter().any(|&id| tokenizer.is_special(id)));
        assert_eq!(tokenizer.decode(&ids), text);
        tokenizer.encode(text, Special::Parse);
    }
});

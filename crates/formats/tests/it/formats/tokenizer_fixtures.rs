//! In each type of vocabulary, every text of the fixtures gets the same ids as in llama.cpp, and
//! round-trips.

use crate::fixtures::{default_model, folder, open, vocabulary};
use hearth_formats::tokenizer::Special;
use std::path::Path;

fn json<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = folder().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compares all texts and reports all differences.
fn check(name: &str, path: &Path) {
    let (_, tokenizer) = open(path);
    let texts: Vec<String> = json("texts.json");
    let expected: Vec<Vec<u32>> = json(&format!("{name}.json"));
    assert!(texts.len() >= 200 && texts.len() == expected.len());
    let mut differences = Vec::new();
    for (text, expected) in texts.iter().zip(&expected) {
        let ids = tokenizer.encode(text, Special::Text);
        if ids != *expected {
            differences.push(format!("{text:?}\n  actual   {ids:?}\n  expected {expected:?}"));
        }
        let back = tokenizer.decode(&ids);
        if back != *text {
            differences.push(format!("{text:?} decodes to {back:?}"));
        }
        if let Some(&id) = ids.iter().find(|&&id| tokenizer.is_special(id)) {
            differences.push(format!("{text:?} contains the special token {id}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{name}: {} differences\n{}",
        differences.len(),
        differences.join("\n")
    );
}

macro_rules! vocabularies {
    ($($test:ident: $name:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name, &vocabulary($name));
        })*
    };
}

vocabularies! {
    gpt_2: "gpt-2";
    qwen2: "qwen2";
    qwen35: "qwen35";
    llama_bpe: "llama-bpe";
    smollm: "smollm";
    default: "default";
    spm: "spm";
    spm_gemma: "spm-gemma";
}

#[test]
fn the_default_model_agrees_with_two_references() {
    check("smollm2", &default_model());
}

#[test]
fn special_tokens_of_the_default_model() {
    let (_, tokenizer) = open(&default_model());
    assert_eq!(tokenizer.vocab_size(), 49152);
    assert_eq!(
        (tokenizer.bos(), tokenizer.eos(), tokenizer.eot()),
        (Some(1), Some(2), Some(2))
    );
    assert!(!tokenizer.add_bos() && !tokenizer.add_eos());
    for (text, id, ends) in [
        ("<|endoftext|>", 0, true),
        ("<|im_start|>", 1, false),
        ("<|im_end|>", 2, true),
    ] {
        assert_eq!(tokenizer.special_id(text), Some(id));
        assert_eq!(tokenizer.encode(text, Special::Parse), [id]);
        assert!(!tokenizer.encode(text, Special::Text).contains(&id));
        assert!(tokenizer.is_special(id));
        assert_eq!(tokenizer.is_end_of_generation(id), ends, "{text}");
    }
    assert_eq!(tokenizer.token_bytes(49152), None);
    let id = tokenizer.encode(" the", Special::Text)[0];
    assert_eq!(
        (tokenizer.token_text(id), tokenizer.token_bytes(id)),
        (Some("Ġthe"), Some(b" the".as_slice()))
    );
}

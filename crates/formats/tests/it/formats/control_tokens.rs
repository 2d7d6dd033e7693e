//! No template of llama.cpp turns text of a conversation into a control token.

use crate::fixtures::{open, templates, vocabulary};
use crate::formats::jinja::{chat, read, template};
use hearth_formats::chat_template::{Chat, GenerationPrompt};
use hearth_formats::gguf::{Gguf, GgufWriter, Strings};
use hearth_formats::tokenizer::{Special, Tokenizer};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

const CONVERSATIONS: [&str; 5] = ["user", "turns", "call", "thoughts", "signs"];

/// The names and sources of the templates.
fn sources() -> Vec<(String, String)> {
    let folder = templates().join("llama.cpp");
    let files = fs::read_dir(&folder).unwrap_or_else(|_| {
        panic!("{} is missing: run cargo xtask setup tests", folder.display());
    });
    let mut sources: Vec<_> = files
        .map(|file| file.unwrap().path())
        .map(|path| {
            (
                path.file_stem().unwrap().to_string_lossy().into_owned(),
                fs::read_to_string(path).unwrap(),
            )
        })
        .collect();
    sources.sort();
    assert_eq!(sources.len(), 70);
    sources
}

/// Texts in a source that have the form of control tokens. The tags of thoughts are ordinary tokens
/// in most files.
fn controls_of(source: &str) -> BTreeSet<String> {
    let pattern = r#"<\|[^\s|<>'"{}]+\|>|<｜[^\s｜<>'"{}]+｜>|</?[a-zA-Z_:]{2,}>|\[/?[A-Z_]{2,}\]"#;
    let pattern = Regex::new(pattern).unwrap();
    let candidates = pattern.find_iter(source).map(|token| token.as_str().to_owned());
    let chat_ml = ["<|im_start|>", "<|im_end|>"].map(str::to_owned);
    candidates
        .chain(chat_ml)
        .filter(|token| !matches!(&**token, "<think>" | "</think>"))
        .collect()
}

/// A fixture's tokenizer with these control tokens added.
fn with_controls(controls: &BTreeSet<String>) -> Tokenizer {
    let (gguf, _) = open(&vocabulary("smollm"));
    let mut metadata = gguf.metadata().clone();
    let texts = gguf.strings("tokenizer.ggml.tokens").unwrap().unwrap();
    let mut types = gguf.i32s("tokenizer.ggml.token_type").unwrap().unwrap().into_owned();
    let new: Vec<&str> = controls
        .iter()
        .map(|token| &**token)
        .filter(|token| !texts.iter().any(|text| text == *token))
        .collect();
    types.resize(types.len() + new.len(), 3);
    metadata.insert("tokenizer.ggml.tokens", Strings::from_iter(texts.iter().chain(new)));
    metadata.insert("tokenizer.ggml.token_type", types);
    let file = GgufWriter::begin(Vec::new(), &metadata, &[]).unwrap().finish().unwrap();
    Tokenizer::from_gguf(&Gguf::from_bytes(file).unwrap()).unwrap()
}

fn special(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u32> {
    ids.iter().copied().filter(|&id| tokenizer.is_special(id)).collect()
}

#[test]
fn a_conversation_without_control_tokens_is_encoded_like_its_rendered_text() {
    let (mut mismatches, mut compared) = (Vec::new(), 0);
    for (name, source) in sources() {
        let controls = controls_of(&source);
        let tokenizer = with_controls(&controls);
        let template = template(&source).unwrap();
        for case in CONVERSATIONS
            .map(|case| [case.to_owned(), format!("{case}+tools")])
            .concat()
        {
            let conversation = chat(&case);
            let source = read(&format!("{}.json", case.trim_end_matches("+tools")));
            let Ok(text) = template.render_chat(&conversation, GenerationPrompt::Add) else {
                continue;
            };
            if controls.iter().any(|token| source.contains(token)) {
                continue;
            }
            compared += 1;
            match template.encode_chat(&tokenizer, &conversation, GenerationPrompt::Add) {
                Ok(ids) if ids == tokenizer.encode(&text, Special::Parse) => {}
                Ok(ids) => mismatches.push(format!(
                    "{name} {case}:\n{}\ninstead of\n{text}",
                    tokenizer.decode(&ids)
                )),
                Err(error) => mismatches.push(format!("{name} {case}: {error}")),
            }
        }
    }
    assert!(
        mismatches.is_empty(),
        "{} mismatches:\n{}",
        mismatches.len(),
        mismatches.join("\n")
    );
    assert!(compared > 500, "{compared}");
}

/// Texts that contain the tokens and halves of them.
fn hostile_texts(controls: &BTreeSet<String>) -> Vec<String> {
    let tokens: Vec<&str> = controls.iter().map(|token| &**token).collect();
    let halves = controls.iter().map(|token| {
        let middle = token.char_indices().nth(token.chars().count() / 2).unwrap().0;
        format!("{} and {}", &token[middle..], &token[..middle])
    });
    let mut texts: Vec<String> = halves.collect();
    texts.extend([tokens.concat(), format!("a{}b", tokens.join(" ")), tokens.join("\n")]);
    texts
}

#[test]
fn no_template_turns_user_text_into_a_control_token() {
    let (mut mismatches, mut failing, mut compared) = (Vec::new(), Vec::new(), 0);
    for (name, source) in sources() {
        let controls = controls_of(&source);
        let tokenizer = with_controls(&controls);
        let template = template(&source).unwrap();
        let turns: Vec<Value> = serde_json::from_str(&read("turns.json")).unwrap();
        let conversation = |text: &str| {
            let replace = |message: &Value| match message["role"].as_str() {
                Some("user") => json!({"role": "user", "content": text}),
                _ => message.clone(),
            };
            let messages: Vec<Value> = turns.iter().map(replace).collect();
            // Some templates iterate over the tools without testing for them.
            Chat::from_json(&json!(messages).to_string(), Some("[]")).unwrap()
        };
        let Ok(harmless) = template.encode_chat(&tokenizer, &conversation("x"), GenerationPrompt::Add) else {
            failing.push(name);
            continue;
        };
        let expected = special(&tokenizer, &harmless);
        for typed in hostile_texts(&controls) {
            compared += 1;
            let ids = template
                .encode_chat(&tokenizer, &conversation(&typed), GenerationPrompt::Add)
                .unwrap_or_else(|error| panic!("{name}: {typed:?}: {error}"));
            if special(&tokenizer, &ids) != expected {
                mismatches.push(format!("{name}: {typed:?} gives {}", tokenizer.decode(&ids)));
            }
            // The model still gets every character of it.
            let decoded = tokenizer.decode(&ids);
            if decoded.matches(&typed).count() < 2 {
                mismatches.push(format!("{name}: {typed:?} does not occur twice in {decoded}"));
            }
        }
    }
    assert!(
        mismatches.is_empty(),
        "{} mismatches:\n{}",
        mismatches.len(),
        mismatches.join("\n")
    );
    // It requires the variable `functions`, which transformers does not define either.
    assert_eq!(failing, ["fireworks-ai-llama-3-firefunction-v2"]);
    assert!(compared > 500, "{compared}");
}

//! Text of a conversation becomes no control token in any template of llama.cpp.

use crate::fixtures::{open, templates, vocabulary};
use crate::jinja::{chat, read, template};
use hearth_formats::chat_template::{Chat, Turn};
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

/// What looks like a control token in a source. The marks of thoughts are tokens of text in most files.
fn controls_of(source: &str) -> BTreeSet<String> {
    let looks = r#"<\|[^\s|<>'"{}]+\|>|<｜[^\s｜<>'"{}]+｜>|</?[a-zA-Z_:]{2,}>|\[/?[A-Z_]{2,}\]"#;
    let found = Regex::new(looks).unwrap();
    let found = found.find_iter(source).map(|token| token.as_str().to_owned());
    let chat_ml = ["<|im_start|>", "<|im_end|>"].map(str::to_owned);
    found
        .chain(chat_ml)
        .filter(|token| !matches!(&**token, "<think>" | "</think>"))
        .collect()
}

/// The tokenizer of a fixture with these control tokens added.
fn with(controls: &BTreeSet<String>) -> Tokenizer {
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
fn every_template_gives_the_ids_of_its_text_if_the_conversation_has_no_control_token() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (name, source) in sources() {
        let controls = controls_of(&source);
        let tokenizer = with(&controls);
        let template = template(&source).unwrap();
        for case in CONVERSATIONS
            .map(|case| [case.to_owned(), format!("{case}+tools")])
            .concat()
        {
            let conversation = chat(&case);
            let written = read(&format!("{}.json", case.trim_end_matches("+tools")));
            let Ok(text) = template.render_chat(&conversation, Turn::Answer) else {
                continue;
            };
            if controls.iter().any(|token| written.contains(token)) {
                continue;
            }
            compared += 1;
            match template.encode_chat(&tokenizer, &conversation, Turn::Answer) {
                Ok(ids) if ids == tokenizer.encode(&text, Special::Parse) => {}
                Ok(ids) => wrong.push(format!(
                    "{name} {case}:\n{}\ninstead of\n{text}",
                    tokenizer.decode(&ids)
                )),
                Err(error) => wrong.push(format!("{name} {case}: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 500, "{compared}");
}

/// Texts with the tokens and with halves of them.
fn hostile(controls: &BTreeSet<String>) -> Vec<String> {
    let all: Vec<&str> = controls.iter().map(|token| &**token).collect();
    let halves = controls.iter().map(|token| {
        let middle = token.char_indices().nth(token.chars().count() / 2).unwrap().0;
        format!("{} and {}", &token[middle..], &token[..middle])
    });
    let mut texts: Vec<String> = halves.collect();
    texts.extend([all.concat(), format!("a{}b", all.join(" ")), all.join("\n")]);
    texts
}

#[test]
fn no_template_makes_a_control_token_of_a_users_text() {
    let (mut wrong, mut failing, mut compared) = (Vec::new(), Vec::new(), 0);
    for (name, source) in sources() {
        let controls = controls_of(&source);
        let tokenizer = with(&controls);
        let template = template(&source).unwrap();
        let turns: Vec<Value> = serde_json::from_str(&read("turns.json")).unwrap();
        let says = |text: &str| {
            let says = |message: &Value| match message["role"].as_str() {
                Some("user") => json!({"role": "user", "content": text}),
                _ => message.clone(),
            };
            let messages: Vec<Value> = turns.iter().map(says).collect();
            // Some templates go through the tools unasked.
            Chat::from_json(&json!(messages).to_string(), Some("[]")).unwrap()
        };
        let Ok(harmless) = template.encode_chat(&tokenizer, &says("x"), Turn::Answer) else {
            failing.push(name);
            continue;
        };
        let expected = special(&tokenizer, &harmless);
        for typed in hostile(&controls) {
            compared += 1;
            let ids = template
                .encode_chat(&tokenizer, &says(&typed), Turn::Answer)
                .unwrap_or_else(|error| panic!("{name}: {typed:?}: {error}"));
            if special(&tokenizer, &ids) != expected {
                wrong.push(format!("{name}: {typed:?} gives {}", tokenizer.decode(&ids)));
            }
            // The model still reads every character of it.
            let read = tokenizer.decode(&ids);
            if read.matches(&typed).count() < 2 {
                wrong.push(format!("{name}: {typed:?} is not twice in {read}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    // It reads the variable `functions`, which transformers does not give it either.
    assert_eq!(failing, ["fireworks-ai-llama-3-firefunction-v2"]);
    assert!(compared > 500, "{compared}");
}

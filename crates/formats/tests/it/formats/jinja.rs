//! Compatibility with Jinja 2. Its output is in `tests/fixtures/templates`, with the scripts that
//! produced it.

use crate::fixtures::templates;
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, TemplateError};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;

/// Expected result of a case of a real template.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Expected {
    /// Prefix of the text's SHA-256.
    Text(String),
    Fails {
        error: String,
    },
}

/// Cases in which Jinja 2 fails and Hearth does not: a template iterates over missing tools; it
/// refuses a system prompt; it serializes a generator to JSON.
const MORE_LENIENT: [(&str, &[&str]); 5] = [
    (
        "CohereForAI-c4ai-command-r-plus-tool_use",
        &["call", "signs", "thoughts", "turns", "user"],
    ),
    (
        "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
        &["call", "signs", "thoughts", "turns", "user"],
    ),
    (
        "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
        &["call", "signs", "thoughts", "turns", "user"],
    ),
    (
        "google-gemma-2-2b-it",
        &[
            "signs",
            "signs+tools",
            "thoughts",
            "thoughts+tools",
            "turns",
            "turns+tools",
        ],
    ),
    (
        "llama-cpp-deepseek-r1",
        &[
            "call+tools",
            "signs+tools",
            "thoughts+tools",
            "turns+tools",
            "user+tools",
        ],
    ),
];

/// A file of the templates' fixtures.
pub fn read(path: &str) -> String {
    let path = templates().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compiles a template, with the clock of the fixtures.
pub fn template(source: &str) -> Result<ChatTemplate, TemplateError> {
    let now = jiff::civil::date(2026, 3, 7).at(9, 5, 3, 45_000);
    let now = now.to_zoned(jiff::tz::TimeZone::UTC).unwrap();
    Ok(ChatTemplate::parse(source, "<s>", "</s>")?.with_clock(move || now.clone()))
}

/// A conversation of the fixtures, `NAME` or `NAME+tools`.
pub fn chat(case: &str) -> Chat {
    let (conversation, tools) = case
        .split_once('+')
        .map_or((case, None), |(name, tools)| (name, Some(tools)));
    let tools = tools.map(|tools| read(&format!("{tools}.json")));
    Chat::from_json(&read(&format!("{conversation}.json")), tools.as_deref()).unwrap()
}

#[test]
fn real_templates_render_as_jinja_2_renders_them() {
    let expected: BTreeMap<String, BTreeMap<String, Expected>> = serde_json::from_str(&read("rendered.json")).unwrap();
    assert_eq!(expected.len(), 70);
    let mut mismatches = Vec::new();
    let mut lenient = BTreeMap::<&str, Vec<&str>>::new();
    for (name, cases) in &expected {
        let path = templates().join("llama.cpp").join(format!("{name}.jinja"));
        let source = fs::read_to_string(&path)
            .unwrap_or_else(|_| panic!("{} is missing: run cargo xtask setup tests", path.display()));
        assert_eq!(cases.len(), 10, "{name}");
        for (case, expected) in cases {
            let rendered =
                template(&source).and_then(|template| template.render_chat(&chat(case), GenerationPrompt::Add));
            match (expected, rendered) {
                (Expected::Text(hash), Ok(text)) => {
                    let actual = format!("{:x}", Sha256::digest(&text));
                    if !actual.starts_with(hash) {
                        mismatches.push(format!("make.py {name} {case} prints something other than:\n{text}"));
                    }
                }
                (Expected::Text(_), Err(error)) => mismatches.push(format!("{name} {case}: {error}")),
                // Messages of `raise_exception` must be equal; Python's own errors need not.
                (Expected::Fails { error }, Err(TemplateError::Raised(actual))) if actual != *error => {
                    mismatches.push(format!("{name} {case}: {actual:?}, not {error:?}"));
                }
                (Expected::Fails { .. }, Err(_)) => {}
                (Expected::Fails { .. }, Ok(_)) => lenient.entry(name).or_default().push(case),
            }
        }
    }
    assert!(
        mismatches.is_empty(),
        "{} mismatches:\n{}",
        mismatches.len(),
        mismatches.join("\n")
    );
    let listed: BTreeMap<&str, Vec<&str>> = MORE_LENIENT
        .iter()
        .map(|(name, cases)| (*name, cases.to_vec()))
        .collect();
    assert_eq!(lenient, listed);
}

#[test]
fn cases_that_fail_only_in_jinja_2_render_the_whole_conversation() {
    for (name, cases) in MORE_LENIENT {
        let source = read(&format!("llama.cpp/{name}.jinja"));
        for case in cases {
            let text = template(&source)
                .unwrap()
                .render_chat(&chat(case), GenerationPrompt::Add)
                .unwrap();
            let messages: Vec<serde_json::Value> =
                serde_json::from_str(&read(&format!("{}.json", case.trim_end_matches("+tools")))).unwrap();
            for message in messages {
                let content = message["content"].as_str().unwrap_or_default();
                // R1's template omits thoughts.
                let content = content.rsplit("</think>").next().unwrap_or_default();
                let content = content.trim_matches(|c: char| c.is_whitespace() || c == '\u{1f}');
                assert!(text.contains(content), "{name} {case}: {content:?} is not in\n{text}");
            }
        }
    }
}

/// Real templates stay far below the limits on memory and work for long conversations.
#[test]
fn conversations_of_some_megabytes_render_in_real_templates() {
    let text = "A sentence of some length, with <signs> & \"quotes\", ünïcode and a line's end.\n".repeat(25);
    let turns: Vec<String> = (0..1_000)
        .map(|turn| {
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            serde_json::json!({"role": role, "content": format!("{turn}: {text}")}).to_string()
        })
        .collect();
    let long_message = serde_json::json!([{"role": "user", "content": text.repeat(2_000)}]).to_string();
    let tools = read("tools.json");
    let expected: BTreeMap<String, BTreeMap<String, Expected>> = serde_json::from_str(&read("rendered.json")).unwrap();
    for name in expected.keys() {
        let template = template(&read(&format!("llama.cpp/{name}.jinja"))).unwrap();
        for messages in [&format!("[{}]", turns.join(",")), &long_message] {
            for tools in [None, Some(&*tools)] {
                let chat = Chat::from_json(messages, tools).unwrap();
                let rendered = template.render_chat(&chat, GenerationPrompt::Add);
                let stopped = matches!(rendered, Err(TemplateError::WorkLimit | TemplateError::SizeLimit));
                assert!(!stopped, "{name}: {rendered:?}");
            }
        }
    }
}

/// Whether 1 and `true` are one key, as in Jinja 2, depends on chance: minijinja says that they are
/// equal, but hashes them differently, with random keys.
const UNDECIDED: &str = "{{ {1:1, 'b':none, none: 2, true: 3, 2.5:4} | tojson }}";

#[test]
fn expressions_render_as_jinja_2_renders_them() {
    let expected: Vec<(String, String)> = serde_json::from_str(&read("expressions.json")).unwrap();
    assert!(expected.len() > 7000);
    // Each with Hearth's output, null for an error.
    let mut listed: Vec<(String, Option<String>)> = serde_json::from_str(&read("different.json")).unwrap();
    listed.retain(|(source, _)| source != UNDECIDED);
    let messages = r#"[{"role": "user", "content": "S <x>"}, {"role": "assistant", "content": "Hé\n"},
                       {"role": "user", "content": "B"}]"#;
    let chat = Chat::from_json(messages, None).unwrap();
    let mut different = Vec::new();
    for (source, expected) in expected.into_iter().filter(|(source, _)| source != UNDECIDED) {
        let rendered = template(&source).and_then(|template| template.render_chat(&chat, GenerationPrompt::Add));
        let rendered = rendered.ok();
        if rendered.as_deref() != Some(&*expected) {
            different.push((source, rendered));
        }
    }
    let show = |cases: &[(String, Option<String>)], except: &[(String, Option<String>)]| -> String {
        let new = cases.iter().filter(|case| !except.contains(case));
        new.map(|case| serde_json::to_string(case).unwrap() + ",\n").collect()
    };
    assert!(
        different == listed,
        "unlisted differences:\n{}listed, but equal:\n{}",
        show(&different, &listed),
        show(&listed, &different)
    );
}

//! Chat templates are Jinja 2: what the real one renders is in `tests/fixtures/templates`, whose scripts say how it came there.

use crate::fixtures::templates;
use hearth_formats::chat_template::{Chat, ChatTemplate, TemplateError, Turn};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;

/// What a case of a real template should give.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Expected {
    /// The beginning of the text's SHA-256.
    Text(String),
    Fails {
        error: String,
    },
}

/// Where Jinja 2 fails and Hearth does not: no tools, where a template goes through them unasked; a system prompt, where it is
/// refused; a list of what was mapped, where a generator has no JSON.
const MILDER: [(&str, &[&str]); 5] = [
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

/// The template of a source, with the clock of the fixtures.
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
    let mut wrong = Vec::new();
    let mut milder = BTreeMap::<&str, Vec<&str>>::new();
    for (name, cases) in &expected {
        let path = templates().join("llama.cpp").join(format!("{name}.jinja"));
        let source = fs::read_to_string(&path)
            .unwrap_or_else(|_| panic!("{} is missing: run cargo xtask setup tests", path.display()));
        assert_eq!(cases.len(), 10, "{name}");
        for (case, expected) in cases {
            let rendered = template(&source).and_then(|template| template.render_chat(&chat(case), Turn::Answer));
            match (expected, rendered) {
                (Expected::Text(hash), Ok(text)) => {
                    let ours = format!("{:x}", Sha256::digest(&text));
                    if !ours.starts_with(hash) {
                        wrong.push(format!("make.py {name} {case} prints something other than:\n{text}"));
                    }
                }
                (Expected::Text(_), Err(error)) => wrong.push(format!("{name} {case}: {error}")),
                // What a template says is said on; what Python says is Python's.
                (Expected::Fails { error }, Err(TemplateError::Raised(ours))) if ours != *error => {
                    wrong.push(format!("{name} {case}: {ours:?}, not {error:?}"));
                }
                (Expected::Fails { .. }, Err(_)) => {}
                (Expected::Fails { .. }, Ok(_)) => milder.entry(name).or_default().push(case),
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let listed: BTreeMap<&str, Vec<&str>> = MILDER.iter().map(|(name, cases)| (*name, cases.to_vec())).collect();
    assert_eq!(milder, listed);
}

#[test]
fn where_jinja_2_fails_the_whole_conversation_is_rendered_all_the_same() {
    for (name, cases) in MILDER {
        let source = read(&format!("llama.cpp/{name}.jinja"));
        for case in cases {
            let text = template(&source)
                .unwrap()
                .render_chat(&chat(case), Turn::Answer)
                .unwrap();
            let said: Vec<serde_json::Value> =
                serde_json::from_str(&read(&format!("{}.json", case.trim_end_matches("+tools")))).unwrap();
            for message in said {
                let content = message["content"].as_str().unwrap_or_default();
                // R1 leaves out what was thought.
                let content = content.rsplit("</think>").next().unwrap_or_default();
                let content = content.trim_matches(|c: char| c.is_whitespace() || c == '\u{1f}');
                assert!(text.contains(content), "{name} {case}: {content:?} is not in\n{text}");
            }
        }
    }
}

/// The limits on memory and time are far from what real templates take of long conversations.
#[test]
fn conversations_of_some_megabytes_render_in_real_templates() {
    let text = "A sentence of some length, with <signs> & \"quotes\", ünïcode and a line's end.\n".repeat(25);
    let turns: Vec<String> = (0..1_000)
        .map(|turn| {
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            serde_json::json!({"role": role, "content": format!("{turn}: {text}")}).to_string()
        })
        .collect();
    let one = serde_json::json!([{"role": "user", "content": text.repeat(2_000)}]).to_string();
    let tools = read("tools.json");
    let expected: BTreeMap<String, BTreeMap<String, Expected>> = serde_json::from_str(&read("rendered.json")).unwrap();
    for name in expected.keys() {
        let template = template(&read(&format!("llama.cpp/{name}.jinja"))).unwrap();
        for messages in [&format!("[{}]", turns.join(",")), &one] {
            for tools in [None, Some(&*tools)] {
                let chat = Chat::from_json(messages, tools).unwrap();
                let rendered = template.render_chat(&chat, Turn::Answer);
                let stopped = matches!(rendered, Err(TemplateError::Endless | TemplateError::TooMuch));
                assert!(!stopped, "{name}: {rendered:?}");
            }
        }
    }
}

#[test]
fn expressions_render_as_jinja_2_renders_them() {
    let expected: Vec<(String, String)> = serde_json::from_str(&read("expressions.json")).unwrap();
    assert!(expected.len() > 7000);
    // Each with what Hearth gives, null where it fails.
    let known: Vec<(String, Option<String>)> = serde_json::from_str(&read("different.json")).unwrap();
    let messages = r#"[{"role": "user", "content": "S <x>"}, {"role": "assistant", "content": "Hé\n"}, {"role": "user", "content": "B"}]"#;
    let chat = Chat::from_json(messages, None).unwrap();
    let mut different = Vec::new();
    for (source, expected) in expected {
        let rendered = template(&source).and_then(|template| template.render_chat(&chat, Turn::Answer));
        let rendered = rendered.ok();
        if rendered.as_deref() != Some(&*expected) {
            different.push((source, rendered));
        }
    }
    let show = |cases: &[(String, Option<String>)], among: &[(String, Option<String>)]| -> String {
        let new = cases.iter().filter(|case| !among.contains(case));
        new.map(|case| serde_json::to_string(case).unwrap() + ",\n").collect()
    };
    assert!(
        different == known,
        "different and not listed:\n{}listed and not different:\n{}",
        show(&different, &known),
        show(&known, &different)
    );
}

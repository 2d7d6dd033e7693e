//! The thoughts of model families, by their real chat templates.

use super::markers::Edge;
use super::{Input, Markers, PromptEnd, Splitter};
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, Message, Role, Thinking};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_protocol::Part;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(path)
}

fn template(name: &str) -> ChatTemplate {
    let path = fixture("templates/llama.cpp").join(format!("{name}.jinja"));
    let source = std::fs::read_to_string(path).expect("a template: run cargo xtask setup");
    ChatTemplate::parse(&source, "<s>", "</s>").expect("a template")
}

/// A prompt with this position of the switch.
fn prompt(template: &ChatTemplate, enabled: Option<bool>) -> String {
    let message = Message {
        role: Role::User,
        content: "2 + 2?".to_owned(),
    };
    let thinking = Thinking { enabled, effort: None };
    let chat = Chat::from(&[message][..]).with_thinking(thinking);
    template.render_chat(&chat, GenerationPrompt::Add).expect("a prompt")
}

/// The parts of an answer to a prompt with this end.
fn parts(markers: &Arc<Markers>, end: PromptEnd, inputs: Vec<Input>) -> Vec<Part> {
    let mut splitter = Splitter::new(Some(Arc::clone(markers)), end);
    let mut pieces: Vec<_> = inputs.into_iter().flat_map(|input| splitter.push(input)).collect();
    pieces.extend(splitter.finish());
    let mut parts = Vec::new();
    pieces.iter().for_each(|piece| piece.add_to(&mut parts));
    parts
}

#[test]
fn thoughts_of_the_dense_families_are_separated_in_every_position_of_their_switch() {
    use PromptEnd::{Closed, Text};
    let gguf = Gguf::open(fixture("tokenizer/qwen2.gguf")).expect("a fixture");
    let tokenizer = Tokenizer::from_gguf(&gguf).expect("its tokenizer");
    // Without a choice, on, and off.
    for (name, open, ends) in [
        ("HuggingFaceTB-SmolLM3-3B", "<think>", [Text, Text, Closed]),
        ("mistralai-Ministral-3-14B-Reasoning-2512", "[THINK]", [Text; 3]),
        ("ibm-granite-granite-3.3-2B-Instruct", "<think>", [Text; 3]),
    ] {
        let template = template(name);
        let markers = Arc::new(Markers::from_template(template.source(), &tokenizer).expect("markers"));
        assert_eq!(markers.open.text, open, "{name}");
        let mark = |edge| match markers.marker(edge).letters() {
            Some(letters) => Input::Text(letters.to_owned()),
            None => Input::Marker(edge),
        };
        let text = |text: &str| Input::Text(text.to_owned());
        let thought = || vec![mark(Edge::Open), text("Hm."), mark(Edge::Close), text("\n4")];
        for (enabled, expected) in [None, Some(true), Some(false)].into_iter().zip(ends) {
            let prompt = tokenizer.encode(&prompt(&template, enabled), Special::Parse);
            let end = markers.end_of(&tokenizer, &prompt);
            assert_eq!(end, expected, "{name}, {enabled:?}");
            let [thinking, answer] = [
                Part::Thinking { text: "Hm.".to_owned() },
                Part::Text { text: "4".to_owned() },
            ];
            let case = format!("{name}, {enabled:?}");
            let alone = parts(&markers, end, vec![text("4")]);
            assert_eq!(alone, std::slice::from_ref(&answer), "{case}");
            assert_eq!(parts(&markers, end, thought()), [thinking, answer], "{case}");
        }
    }
}

#[test]
fn families_that_do_not_think_have_no_markers() {
    let gguf = Gguf::open(fixture("tokenizer/qwen2.gguf")).expect("a fixture");
    let tokenizer = Tokenizer::from_gguf(&gguf).expect("its tokenizer");
    for name in [
        "ibm-granite-granite-4.0",
        "ibm-granite-granite-4.1",
        "google-gemma-2-2b-it",
        "microsoft-Phi-3.5-mini-instruct",
        "mistralai-Mistral-Nemo-Instruct-2407",
        "Mistral-Small-3.2-24B-Instruct-2506",
    ] {
        let template = template(name);
        assert_eq!(Markers::from_template(template.source(), &tokenizer), None, "{name}");
        assert_eq!(template.thinking().switch, None, "{name}");
    }
}

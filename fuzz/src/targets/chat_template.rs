//! Arbitrary text as a template, and after a NUL arbitrary JSON as its conversation. Rendering must
//! end within the limits.

use crate::seeds::{self, Seed};
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, Message, Role};

/// Tools, to reach the largest branches of the templates.
const TOOLS: &str = r#"[{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters":
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}]"#;

pub fn run(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return false;
    };
    let (source, messages) = input.split_once('\0').unwrap_or((input, ""));
    let Ok(template) = ChatTemplate::parse(source, "<s>", "</s>") else {
        return false;
    };
    if let Ok(chat) = Chat::from_json(messages, Some(TOOLS)) {
        let _ = template.render_chat(&chat, GenerationPrompt::Add);
        return true;
    }
    let messages = [
        (Role::System, "Be brief."),
        (Role::User, "Hello"),
        (Role::Assistant, "Hi."),
        (Role::User, "<think>And</think>?\n"),
    ]
    .map(|(role, content)| Message {
        role,
        content: content.to_owned(),
    });
    let _ = template.render(&messages, GenerationPrompt::Add);
    true
}

/// Model templates (if set-up fetched them) and expressions, with conversations of several kinds.
pub fn seeds() -> Vec<Seed> {
    let conversations = ["turns", "call", "thoughts", "signs"].map(|name| {
        let text = seeds::text(&format!("tests/fixtures/templates/{name}.json"));
        // Without whitespace.
        serde_json::from_str::<serde_json::Value>(&text)
            .expect("a conversation")
            .to_string()
    });
    let with_conversation = |number: usize, source: &[u8]| {
        let conversation = conversations[number % conversations.len()].as_bytes();
        [source, b"\0", conversation].concat()
    };
    let templates = seeds::files("tests/fixtures/templates/llama.cpp", ".jinja")
        .into_iter()
        .enumerate();
    let mut inputs: Vec<Seed> = templates
        .map(|(number, file)| Seed::new(file.name, with_conversation(number, &file.bytes)))
        .collect();
    let expressions = seeds::text("tests/fixtures/templates/expressions.json");
    let expressions: Vec<(String, Option<String>)> = serde_json::from_str(&expressions).expect("expressions");
    // A sample of the several thousand valid expressions, including each kind.
    let valid: Vec<String> = expressions
        .into_iter()
        .filter(|(_, rendered)| rendered.is_some())
        .map(|(source, _)| source)
        .collect();
    for (number, chunk) in valid.chunks(100).enumerate() {
        let source: String = chunk.iter().step_by(10).map(String::as_str).collect();
        inputs.push(Seed::new(
            format!("expressions {number}"),
            with_conversation(number, source.as_bytes()),
        ));
    }
    inputs
}

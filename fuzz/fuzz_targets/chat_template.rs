//! Any text as a template, and after a NUL any JSON as its conversation: it ends, with a text or an error, within the limits of
//! memory and time. Start from real templates, which set-up fetches:
//! `cargo +nightly fuzz run chat_template fuzz/corpus/chat_template tests/fixtures/templates/llama.cpp -- -rss_limit_mb=2048 -timeout=60`.
#![no_main]

use hearth_formats::chat_template::{Chat, ChatTemplate, Message, Role, Turn};
use libfuzzer_sys::fuzz_target;

/// Tools, so that the templates' largest parts are reached.
const TOOLS: &str = r#"[{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters":
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}]"#;

fuzz_target!(|input: &str| {
    let (source, messages) = input.split_once('\0').unwrap_or((input, ""));
    let Ok(template) = ChatTemplate::parse(source, "<s>", "</s>") else {
        return;
    };
    let messages = match Chat::from_json(messages, Some(TOOLS)) {
        Ok(chat) => {
            let _ = template.render_chat(&chat, Turn::Answer);
            return;
        }
        Err(_) => [
            (Role::System, "Be brief."),
            (Role::User, "Hello"),
            (Role::Assistant, "Hi."),
            (Role::User, "<think>And</think>?\n"),
        ],
    };
    let messages = messages.map(|(role, content)| Message {
        role,
        content: content.to_owned(),
    });
    let _ = template.render(&messages, Turn::Answer);
});

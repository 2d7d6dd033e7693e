//! Any text as a template: it ends, with a text or an error.
#![no_main]

use hearth_formats::chat_template::{ChatTemplate, Message, Role, Turn};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    if let Ok(template) = ChatTemplate::parse(source, "<s>", "</s>") {
        let messages = [
            (Role::System, "Be brief."),
            (Role::User, "Hello"),
            (Role::Assistant, "Hi."),
        ]
        .map(|(role, content)| Message {
            role,
            content: content.to_owned(),
        });
        let _ = template.render(&messages, Turn::Answer);
    }
});

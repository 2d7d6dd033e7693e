//! Templates and tokenizers check for an interrupt often enough, and stop at once.

use crate::fixtures::{VOCABULARIES, open, vocabulary};
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, Message, Role, TemplateError};
use hearth_formats::interrupt::{INTERVAL, Interrupt, Interrupted};
use hearth_formats::tokenizer::Special;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum instructions of a template between two checks.
const INSTRUCTIONS: usize = 4096;

/// The number of interrupt checks of `work` if it is never interrupted.
fn checks<T>(work: impl FnOnce() -> T) -> usize {
    let checks = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&checks);
    let interrupt = Interrupt::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        false
    });
    assert!(interrupt.run(work).is_ok());
    checks.load(Ordering::Relaxed)
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::parse(source, "", "").expect("a template")
}

fn chat(text: &str) -> Chat {
    Chat::from(
        &[Message {
            role: Role::User,
            content: text.to_owned(),
        }][..],
    )
}

#[test]
fn tokenizers_check_once_per_64_kilobytes() {
    let words = "The quick brown fox, 12 of them; ".repeat(40_000);
    // One word for BPE, longer than the maximum that is merged at once.
    let word = "ab".repeat(1_500_000);
    let check = |name: &str, text: &str| {
        let (_, tokenizer) = open(&vocabulary(name));
        let expected = text.len() / INTERVAL as usize;
        let actual = checks(|| tokenizer.encode(text, Special::Text));
        assert!(actual >= expected, "{name}: {actual} checks for {} bytes", text.len());
    };
    for name in VOCABULARIES {
        check(name, &words);
    }
    for name in ["gpt-2", "spm", "gemma4"] {
        check(name, &word);
    }
}

#[test]
fn templates_check_once_per_4096_instructions() {
    // At least four instructions in each iteration.
    let loops = template("{% for i in range(50000) %}{{ i }},{% endfor %}");
    let actual = checks(|| loops.render_chat(&chat("x"), GenerationPrompt::Omit).expect("text"));
    assert!(actual >= 4 * 50_000 / INSTRUCTIONS, "{actual}");
    // Work within a single instruction.
    let text = "a".repeat(4 << 20);
    let checks_of = |source: &str| {
        let template = template(source);
        let chat = chat(&text);
        let render = || template.render_chat(&chat, GenerationPrompt::Omit).expect("text");
        // The first rendering also detects how the template reads contents.
        render();
        checks(render)
    };
    let plain = checks_of("{{ messages[0].role }}");
    let filtered = checks_of("{{ messages[0].role }}{{ messages[0].content | replace('a', 'b') | upper | length }}");
    assert!(filtered >= plain + 2, "{filtered} and {plain}");
}

#[test]
fn interrupted_work_stops_without_a_result() {
    let (_, tokenizer) = open(&vocabulary("smollm"));
    let interrupt_at = |number: usize| {
        let checks = AtomicUsize::new(0);
        Interrupt::new(move || checks.fetch_add(1, Ordering::Relaxed) >= number)
    };
    let slow = template("{% for a in range(3000) %}{% for b in range(3000) %}{% endfor %}{% endfor %}{{ messages }}");
    let text = "many words ".repeat(100_000);
    for number in [0, 1, 5] {
        let encoded = interrupt_at(number).run(|| tokenizer.encode(&text, Special::Text).len());
        assert_eq!(encoded, Err(Interrupted), "{number}");
        let mut rendered = None;
        let run = interrupt_at(number)
            .run(|| rendered = Some(slow.encode_chat(&tokenizer, &chat(&text), GenerationPrompt::Add)));
        assert_eq!(run, Err(Interrupted), "{number}");
        assert!(
            matches!(rendered, Some(Err(TemplateError::Interrupted))),
            "{number}: {rendered:?}"
        );
    }
    // An interrupted detection of how the template reads contents is not cached.
    let list = template("{% for m in messages %}{{ m.content[0]['text'] }}{% endfor %}");
    let _ = interrupt_at(0).run(|| list.render_chat(&chat("hello"), GenerationPrompt::Omit).is_err());
    assert_eq!(
        list.render_chat(&chat("hello"), GenerationPrompt::Omit).expect("text"),
        "hello"
    );
}

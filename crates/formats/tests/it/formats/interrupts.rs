//! Templates and tokenizers ask often enough whether to give up, and do so at once.

use crate::fixtures::{VOCABULARIES, open, vocabulary};
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, Message, Role, TemplateError};
use hearth_formats::interrupt::{INTERVAL, Interrupt, Interrupted};
use hearth_formats::tokenizer::Special;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most instructions of a template between two questions.
const INSTRUCTIONS: usize = 4096;

/// The number of questions that work asks, if it is never interrupted.
fn questions<T>(work: impl FnOnce() -> T) -> usize {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let interrupt = Interrupt::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        false
    });
    assert!(interrupt.run(work).is_ok());
    asked.load(Ordering::Relaxed)
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
fn tokenizers_ask_once_per_64_kilobytes() {
    let words = "The quick brown fox, 12 of them; ".repeat(40_000);
    // One word for BPE, of more than the longest that is merged at once.
    let word = "ab".repeat(1_500_000);
    let asks = |name: &str, text: &str| {
        let (_, tokenizer) = open(&vocabulary(name));
        let expected = text.len() / INTERVAL as usize;
        let asked = questions(|| tokenizer.encode(text, Special::Text));
        assert!(asked >= expected, "{name}: {asked} questions for {} bytes", text.len());
    };
    for name in VOCABULARIES {
        asks(name, &words);
    }
    for name in ["gpt-2", "spm"] {
        asks(name, &word);
    }
}

#[test]
fn templates_ask_once_per_4096_instructions() {
    // At least four instructions in each iteration.
    let loops = template("{% for i in range(50000) %}{{ i }},{% endfor %}");
    let asked = questions(|| loops.render_chat(&chat("x"), GenerationPrompt::Omit).expect("text"));
    assert!(asked >= 4 * 50_000 / INSTRUCTIONS, "{asked}");
    // Work within a single instruction.
    let text = "a".repeat(4 << 20);
    let asked_by = |source: &str| {
        let template = template(source);
        let chat = chat(&text);
        let render = || template.render_chat(&chat, GenerationPrompt::Omit).expect("text");
        // How the template reads contents is found out by the first rendering.
        render();
        questions(render)
    };
    let plain = asked_by("{{ messages[0].role }}");
    let filtered = asked_by("{{ messages[0].role }}{{ messages[0].content | replace('a', 'b') | upper | length }}");
    assert!(filtered >= plain + 2, "{filtered} and {plain}");
}

#[test]
fn interrupted_work_ends_and_is_no_result() {
    let (_, tokenizer) = open(&vocabulary("smollm"));
    let at = |number: usize| {
        let asked = AtomicUsize::new(0);
        Interrupt::new(move || asked.fetch_add(1, Ordering::Relaxed) >= number)
    };
    let slow = template("{% for a in range(3000) %}{% for b in range(3000) %}{% endfor %}{% endfor %}{{ messages }}");
    let text = "many words ".repeat(100_000);
    for number in [0, 1, 5] {
        let encoded = at(number).run(|| tokenizer.encode(&text, Special::Text).len());
        assert_eq!(encoded, Err(Interrupted), "{number}");
        let mut rendered = None;
        let run = at(number).run(|| rendered = Some(slow.encode_chat(&tokenizer, &chat(&text), GenerationPrompt::Add)));
        assert_eq!(run, Err(Interrupted), "{number}");
        assert!(
            matches!(rendered, Some(Err(TemplateError::Interrupted))),
            "{number}: {rendered:?}"
        );
    }
    // The probe of how a template reads contents is not remembered from an interrupted one.
    let list = template("{% for m in messages %}{{ m.content[0]['text'] }}{% endfor %}");
    let _ = at(0).run(|| list.render_chat(&chat("hello"), GenerationPrompt::Omit).is_err());
    assert_eq!(
        list.render_chat(&chat("hello"), GenerationPrompt::Omit).expect("text"),
        "hello"
    );
}

//! Tokenizing long texts and long conversations, and comparing similar examples.

use crate::fixtures::{open, vocabulary};
use crate::{MIB, memory};
use hearth_formats::chat_template::{ChatTemplate, Message, Role};
use hearth_formats::dataset::{Content, Dataset, Example, ReadOptions, Report, ReportOptions, render, render_all};
use hearth_formats::tokenizer::{Special, Tokenizer};

fn tokenizer(name: &str) -> Tokenizer {
    open(&vocabulary(name)).1
}

fn text(content: String) -> Example {
    Example {
        line: 1,
        content: Content::Text(content),
    }
}

const CHAT_ML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content \
    }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

fn chat_ml() -> ChatTemplate {
    ChatTemplate::parse(CHAT_ML, "", "").unwrap()
}

#[test]
fn a_long_text_takes_a_few_times_its_length_in_memory() {
    let _alone = memory::alone();
    for name in ["spm", "spm-gemma", "smollm", "llama-bpe", "gemma4"] {
        for unit in ["It was evening, and the fire was low. ", "a"] {
            let text = unit.repeat(12 * MIB / unit.len());
            let tokenizer = tokenizer(name);
            let (tokens, peak_bytes) = memory::watched(move || tokenizer.encode(&text, Special::Text).len());
            assert!(tokens > 1000);
            assert!(
                peak_bytes < 12 * 11 * MIB,
                "{name} {unit:?}: it took {} MiB",
                peak_bytes / MIB
            );
        }
    }
}

#[test]
fn a_conversation_of_thousands_of_turns_takes_linear_time() {
    let _alone = memory::alone();
    let turn = |index: usize| Message {
        role: if index.is_multiple_of(2) {
            Role::User
        } else {
            Role::Assistant
        },
        content: format!("This is turn {index}."),
    };
    let example = Example {
        line: 1,
        content: Content::Chat((0..8000).map(turn).collect()),
    };
    let tokenizer = tokenizer("smollm");
    let (rendered, _) = memory::watched(move || render(&example, &tokenizer, &chat_ml(), false).unwrap());
    assert!(!rendered.last_answer_only);
    let runs = rendered.loss_mask.windows(2).filter(|pair| pair[0] && !pair[1]).count();
    assert_eq!(runs, 4000);
}

#[test]
fn rendering_can_be_cancelled() {
    let _alone = memory::alone();
    let long = "It was evening, and the fire was low. ".repeat(MIB);
    for name in ["spm", "smollm"] {
        let examples = vec![text(long.clone()); 3];
        let tokenizer = tokenizer(name);
        let (calls, _) = memory::watched(move || {
            let mut calls = 0;
            let mut should_continue = |_| {
                calls += 1;
                calls < 3
            };
            assert!(render_all(&examples, &tokenizer, &chat_ml(), false, 2, &mut should_continue).is_none());
            calls
        });
        assert_eq!(calls, 3, "{name}");
    }
}

#[test]
fn short_examples_similar_to_a_long_one_are_compared_in_linear_time() {
    let _alone = memory::alone();
    let mut lines = format!("{{\"text\":\"{}\"}}\n", "a ".repeat(15 * MIB));
    for line in 0..12_000 {
        lines.push_str(&format!("{{\"text\":\"a a a a {line} \"}}\n"));
    }
    let ((), _) = memory::watched(move || {
        let dataset = Dataset::from_bytes(lines.into_bytes(), "x.jsonl", &ReadOptions::default()).unwrap();
        let options = ReportOptions {
            sequence: None,
            context: 64,
        };
        let report = Report::new(&dataset, &[], options);
        assert!(!report.findings.is_empty());
        let mut calls = 0;
        let stopped = Report::new_cancellable(&dataset, &[], options, &mut || {
            calls += 1;
            calls < 3
        });
        assert!(stopped.is_none());
    });
}

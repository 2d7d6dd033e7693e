//! Tests continued answers, which were truncated, stopped or edited, with the worker's real
//! protocol.

use crate::common::*;
use hearth_protocol::{
    Event, FinishReason, GenerateRequest, Message, Part, ProblemCode, Prompt, Role, Summary, TextKind,
};
use std::path::PathBuf;

const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}\
                        {% if add_generation_prompt %}[assistant]{% endif %}";

/// A conversation that ends with a question.
fn conversation(question: &str) -> Vec<Message> {
    vec![message(Role::System, "Be brief."), message(Role::User, question)]
}

/// The request that continues an answer to a question.
fn continue_request(question: &str, parts: &[Part], ids: &[u32], max_tokens: u32) -> GenerateRequest {
    let answer = Message {
        role: Role::Assistant,
        parts: parts.to_vec(),
    };
    let messages = conversation(question).into_iter().chain([answer]).collect();
    let ids = ids.to_vec();
    generate(Prompt::Continue { messages, ids }, max_tokens)
}

/// The result of an answer.
#[derive(Debug, PartialEq)]
struct Outcome {
    ids: Vec<u32>,
    parts: Vec<Part>,
    finish_reason: FinishReason,
}

/// The result of an answer. `initial` are the parts of a continued answer.
fn outcome(initial: &[Part], events: &[Event]) -> Outcome {
    let Summary { ids, finish_reason, .. } = summary(events);
    Outcome {
        ids: ids.clone(),
        parts: parts(initial, events),
        finish_reason: *finish_reason,
    }
}

/// Questions whose greedy answers have at least `min_tokens` tokens.
fn questions(worker: &mut Worker, min_tokens: u32) -> Vec<String> {
    let questions = (0..24).map(|number| format!("Tell me tale {number}."));
    let long: Vec<String> = questions
        .filter(|question| {
            let events = worker.answer(generate(Prompt::Chat(conversation(question)), min_tokens));
            summary(&events).finish_reason == FinishReason::Length
        })
        .take(4)
        .collect();
    assert!(long.len() > 1, "{long:?}");
    long
}

#[test]
fn a_continued_answer_equals_the_uninterrupted_one() {
    const TOKENS: u32 = 40;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    write_model(&path, TEMPLATE);
    for model in [path, fixture("models/gemma3.gguf"), fixture("models/qwen3.gguf")] {
        let mut worker = Worker::load(model.clone(), 512);
        for question in questions(&mut worker, TOKENS) {
            let expected = outcome(
                &[],
                &worker.answer(generate(Prompt::Chat(conversation(&question)), TOKENS)),
            );
            for length in [1, 2, 3, 5, 17, TOKENS - 1] {
                let events = worker.answer(generate(Prompt::Chat(conversation(&question)), length));
                let Outcome { ids, parts, .. } = outcome(&[], &events);
                assert_eq!(ids, expected.ids[..length as usize]);
                let request = continue_request(&question, &parts, &ids, TOKENS - length);
                let events = worker.answer(request.clone());
                assert_eq!(
                    outcome(&parts, &events),
                    expected,
                    "{model:?}, {question}, after {length}"
                );
                assert_eq!(summary(&events).tokens, TOKENS - length);
                // A worker with an empty cache gives the same answer.
                let events = Worker::load(model.clone(), 512).answer(request);
                assert_eq!(outcome(&parts, &events), expected);
            }
        }
    }
}

#[test]
fn an_answer_is_continued_many_times() {
    let mut worker = Worker::load_llama(512);
    let question = questions(&mut worker, 30).remove(0);
    let expected = outcome(&[], &worker.answer(generate(Prompt::Chat(conversation(&question)), 30)));
    let mut actual = outcome(&[], &worker.answer(generate(Prompt::Chat(conversation(&question)), 1)));
    for _ in 1..30 {
        let request = continue_request(&question, &actual.parts, &actual.ids, 1);
        actual = outcome(&actual.parts, &worker.answer(request));
    }
    assert_eq!(actual, expected);
}

/// The text is encoded again if the ids are missing, or do not decode to it.
#[test]
fn an_answer_whose_tokens_are_unknown_is_continued_by_its_text() {
    let mut worker = Worker::load_llama(512);
    let question = &questions(&mut worker, 20)[0];
    for text in ["Once upon a time", " a b ", "Ends with é", "<think>no thought", "x"] {
        let parts = vec![Part::Text { text: text.into() }];
        let expected = outcome(&parts, &worker.answer(continue_request(question, &parts, &[], 8)));
        assert!(!expected.ids.is_empty(), "the ids include the text's");
        let Some(Part::Text { text: answer }) = expected.parts.first() else {
            panic!("no text: {:?}", expected.parts)
        };
        assert!(answer.starts_with(text), "{answer:?}");
        for wrong in [vec![1, 2, 3], vec![u32::MAX], vec![999_999; 3]] {
            let actual = outcome(&parts, &worker.answer(continue_request(question, &parts, &wrong, 8)));
            assert_eq!(actual, expected, "{wrong:?}");
        }
    }
}

/// Writes a model whose template ends the prompt with `opening`.
fn thinking_model(folder: &tempfile::TempDir, opening: &str) -> PathBuf {
    let path = folder.path().join("thinks.gguf");
    let body = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}";
    write_model(
        &path,
        &format!("{body}{{% if add_generation_prompt %}}{opening}{{% endif %}}"),
    );
    path
}

#[test]
fn an_open_thought_is_continued_as_a_thought() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut worker = Worker::load(thinking_model(&folder, "\n<think>\n"), 512);
    let question = questions(&mut worker, 24).remove(0);
    let expected = outcome(&[], &worker.answer(generate(Prompt::Chat(conversation(&question)), 24)));
    assert!(
        matches!(expected.parts[..], [Part::Thinking { .. }]),
        "{:?}",
        expected.parts
    );
    let Outcome { ids, parts, .. } = outcome(&[], &worker.answer(generate(Prompt::Chat(conversation(&question)), 9)));
    assert_eq!(
        outcome(&parts, &worker.answer(continue_request(&question, &parts, &ids, 15))),
        expected
    );
    let kinds = |events: &[Event]| -> Vec<TextKind> {
        let kind = |event: &Event| match event {
            Event::Text { kind, .. } => Some(*kind),
            _ => None,
        };
        events.iter().filter_map(kind).collect()
    };
    // After an edit by the user, the ids are unknown.
    let thought = [Part::Thinking {
        text: "Let me see".into(),
    }];
    let events = worker.answer(continue_request(&question, &thought, &[], 9));
    assert!(
        kinds(&events).iter().all(|kind| *kind == TextKind::Thinking),
        "{events:?}"
    );
    // A text is continued as a text, even though the template opens a thought.
    let text = Part::Text { text: "It is".into() };
    for parts in [vec![thought[0].clone(), text.clone()], vec![text]] {
        let events = worker.answer(continue_request(&question, &parts, &[], 9));
        assert!(kinds(&events).iter().all(|kind| *kind == TextKind::Text), "{events:?}");
        let events = worker.answer(continue_request(&question, &parts, &summary(&events).ids, 3));
        assert!(kinds(&events).iter().all(|kind| *kind == TextKind::Text), "{events:?}");
    }
}

#[test]
fn a_full_context_drops_turns_and_then_refuses() {
    let mut worker = Worker::load_llama(128);
    let long = "x ".repeat(20);
    let older = [message(Role::User, &long), message(Role::Assistant, &long)];
    let answer = |length: usize| Message::of_text(Role::Assistant, "y ".repeat(length));
    let continue_answer = |worker: &mut Worker, messages: Vec<Message>| {
        worker.answer(generate(
            Prompt::Continue {
                messages,
                ids: Vec::new(),
            },
            4,
        ))
    };
    let fits = [&older[..], &[message(Role::User, "Go on."), answer(25)]].concat();
    let events = continue_answer(&mut worker, fits.clone());
    let dropped_messages = |events: &[Event]| match events.first() {
        Some(Event::Started { dropped, .. }) => dropped.map_or(0, |dropped| dropped.messages),
        other => panic!("not started: {other:?}"),
    };
    assert_eq!(dropped_messages(&events), 2, "{events:?}");
    let events = continue_answer(&mut worker, vec![message(Role::User, "Go on."), answer(200)]);
    let (code, sentence) = failed(&events);
    assert_eq!(code, ProblemCode::PromptTooLong);
    assert!(sentence.contains("larger context"), "{sentence}");
}

#[test]
fn only_an_answer_can_be_continued() {
    let mut worker = Worker::load_llama(128);
    let image = Part::Image {
        name: "cat.png".into(),
        media_type: "image/png".into(),
        path: "cat.png".into(),
        bytes: 1,
    };
    let with_image = Message {
        role: Role::Assistant,
        parts: vec![image],
    };
    for messages in [
        vec![],
        conversation("Who?"),
        vec![message(Role::Assistant, "I.")],
        conversation("Who?").into_iter().chain([with_image]).collect(),
    ] {
        let events = worker.answer(generate(Prompt::Continue { messages, ids: vec![5] }, 4));
        assert_eq!(failed(&events).0, ProblemCode::BadRequest);
    }
}

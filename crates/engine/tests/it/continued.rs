//! Continued answers: those that were cut, stopped or edited go on, over the worker's real
//! protocol.

use crate::common::*;
use hearth_protocol::{
    Event, FinishReason, GenerateRequest, Message, Part, ProblemCode, Prompt, Role, Summary, TextKind,
};
use std::path::PathBuf;

const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}\
                        {% if add_generation_prompt %}[assistant]{% endif %}";

fn asked(question: &str) -> Vec<Message> {
    vec![message(Role::System, "Be brief."), message(Role::User, question)]
}

/// The request that continues an answer to a question.
fn continuing(question: &str, parts: &[Part], ids: &[u32], max_tokens: u32) -> GenerateRequest {
    let answer = Message {
        role: Role::Assistant,
        parts: parts.to_vec(),
    };
    let messages = asked(question).into_iter().chain([answer]).collect();
    let ids = ids.to_vec();
    generate(Prompt::Continue { messages, ids }, max_tokens)
}

/// Ids, parts and the reason of the end.
fn told(before: &[Part], events: &[Event]) -> (Vec<u32>, Vec<Part>, FinishReason) {
    let Summary { ids, reason, .. } = finished(events);
    (ids.clone(), parts(before, events), *reason)
}

/// Questions whose greedy answers have at least `least` tokens.
fn questions(worker: &mut Worker, least: u32) -> Vec<String> {
    let questions = (0..24).map(|number| format!("Tell me tale {number}."));
    let long: Vec<String> = questions
        .filter(|question| {
            let events = worker.answer(generate(Prompt::Chat(asked(question)), least));
            finished(&events).reason == FinishReason::Length
        })
        .take(4)
        .collect();
    assert!(long.len() > 1, "{long:?}");
    long
}

#[test]
fn a_continued_answer_is_the_uninterrupted_one() {
    const TOKENS: u32 = 40;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    write_model(&path, TEMPLATE);
    for model in [path, fixture("models/gemma3.gguf"), fixture("models/qwen3.gguf")] {
        let mut worker = Worker::with(model.clone(), 512);
        for question in questions(&mut worker, TOKENS) {
            let whole = told(&[], &worker.answer(generate(Prompt::Chat(asked(&question)), TOKENS)));
            for at in [1, 2, 3, 5, 17, TOKENS - 1] {
                let (ids, begun, _) = told(&[], &worker.answer(generate(Prompt::Chat(asked(&question)), at)));
                assert_eq!(ids, whole.0[..at as usize]);
                let rest = continuing(&question, &begun, &ids, TOKENS - at);
                let events = worker.answer(rest.clone());
                assert_eq!(told(&begun, &events), whole, "{model:?}, {question}, after {at}");
                assert_eq!(finished(&events).tokens, TOKENS - at);
                // By a worker whose cache is empty.
                let events = Worker::with(model.clone(), 512).answer(rest);
                assert_eq!(told(&begun, &events), whole);
            }
        }
    }
}

#[test]
fn an_answer_is_continued_many_times() {
    let mut worker = Worker::with_model(512);
    let question = questions(&mut worker, 30).remove(0);
    let whole = told(&[], &worker.answer(generate(Prompt::Chat(asked(&question)), 30)));
    let mut so_far = told(&[], &worker.answer(generate(Prompt::Chat(asked(&question)), 1)));
    for _ in 1..30 {
        let request = continuing(&question, &so_far.1, &so_far.0, 1);
        so_far = told(&so_far.1, &worker.answer(request));
    }
    assert_eq!(so_far, whole);
}

/// The parts stay, and its text is the prompt's end, whatever the tokens are said to be.
#[test]
fn an_answer_whose_tokens_are_unknown_is_continued_by_its_text() {
    let mut worker = Worker::with_model(512);
    let question = &questions(&mut worker, 20)[0];
    for text in ["Once upon a time", " a b ", "Ends with é", "<think>no thought", "x"] {
        let begun = vec![Part::Text { text: text.into() }];
        let first = told(&begun, &worker.answer(continuing(question, &begun, &[], 8)));
        assert!(!first.0.is_empty(), "the ids have those of the beginning");
        let Some(Part::Text { text: whole }) = first.1.first() else {
            panic!("no text: {:?}", first.1)
        };
        assert!(whole.starts_with(text), "{whole:?}");
        for wrong in [vec![1, 2, 3], vec![u32::MAX], vec![999_999; 3]] {
            let again = told(&begun, &worker.answer(continuing(question, &begun, &wrong, 8)));
            assert_eq!(again, first, "{wrong:?}");
        }
    }
}

fn model_that_thinks(folder: &tempfile::TempDir, opening: &str) -> PathBuf {
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
    let mut worker = Worker::with(model_that_thinks(&folder, "\n<think>\n"), 512);
    let question = questions(&mut worker, 24).remove(0);
    let whole = told(&[], &worker.answer(generate(Prompt::Chat(asked(&question)), 24)));
    assert!(matches!(whole.1[..], [Part::Thinking { .. }]), "{:?}", whole.1);
    let (ids, begun, _) = told(&[], &worker.answer(generate(Prompt::Chat(asked(&question)), 9)));
    assert_eq!(
        told(&begun, &worker.answer(continuing(&question, &begun, &ids, 15))),
        whole
    );
    let kinds = |events: &[Event]| -> Vec<TextKind> {
        let kind = |event: &Event| match event {
            Event::Text { kind, .. } => Some(*kind),
            _ => None,
        };
        events.iter().filter_map(kind).collect()
    };
    // Without tokens, as after an edit by the user.
    let thought = [Part::Thinking {
        text: "Let me see".into(),
    }];
    let events = worker.answer(continuing(&question, &thought, &[], 9));
    assert!(
        kinds(&events).iter().all(|kind| *kind == TextKind::Thinking),
        "{events:?}"
    );
    // A text after a thought is a text, also where the template opens a thought.
    let said = Part::Text { text: "It is".into() };
    for parts in [vec![thought[0].clone(), said.clone()], vec![said]] {
        let events = worker.answer(continuing(&question, &parts, &[], 9));
        assert!(kinds(&events).iter().all(|kind| *kind == TextKind::Text), "{events:?}");
        let events = worker.answer(continuing(&question, &parts, &finished(&events).ids, 3));
        assert!(kinds(&events).iter().all(|kind| *kind == TextKind::Text), "{events:?}");
    }
}

#[test]
fn a_full_context_drops_turns_and_then_refuses() {
    let mut worker = Worker::with_model(128);
    let long = "x ".repeat(20);
    let older = [message(Role::User, &long), message(Role::Assistant, &long)];
    let answer = |length: usize| Message::of_text(Role::Assistant, "y ".repeat(length));
    let ask = |worker: &mut Worker, messages: Vec<Message>| {
        worker.answer(generate(
            Prompt::Continue {
                messages,
                ids: Vec::new(),
            },
            4,
        ))
    };
    let fits = [&older[..], &[message(Role::User, "Go on."), answer(25)]].concat();
    let events = ask(&mut worker, fits.clone());
    let started = |events: &[Event]| match events.first() {
        Some(Event::Started { left_out, .. }) => left_out.map_or(0, |left| left.messages),
        other => panic!("not started: {other:?}"),
    };
    assert_eq!(started(&events), 2, "{events:?}");
    let events = ask(&mut worker, vec![message(Role::User, "Go on."), answer(200)]);
    let (code, why) = failed(&events);
    assert_eq!(code, ProblemCode::PromptTooLong);
    assert!(why.contains("larger context"), "{why}");
}

#[test]
fn only_an_answer_can_be_continued() {
    let mut worker = Worker::with_model(128);
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
        asked("Who?"),
        vec![message(Role::Assistant, "I.")],
        asked("Who?").into_iter().chain([with_image]).collect(),
    ] {
        let events = worker.answer(generate(Prompt::Continue { messages, ids: vec![5] }, 4));
        assert_eq!(failed(&events).0, ProblemCode::BadRequest);
    }
}

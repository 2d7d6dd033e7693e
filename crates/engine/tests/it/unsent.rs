//! The tokens of a message that is being written are the prompt tokens of the answer to it.

use crate::common::*;
use hearth_protocol::{
    ConversationBefore, CountUnsent, Event, FinishReason, GenerateRequest, MAX_UNSENT_BYTES, Message, Part,
    ProblemCode, Prompt, Request, Role, TextChange, Thinking, UnsentTokens,
};
use std::path::{Path, PathBuf};

/// Trims, and writes the first message differently.
const TEMPLATE: &str = "{% for m in messages %}{% if loop.first %}({{ m.content | trim }}){% else %}\
                        <|im_start|>{{ m.role }}: {{ m.content | trim }}<|im_end|>{% endif %}{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant:{% endif %}";

/// A template whose length depends on the message's, so that nothing can be counted in parts.
const UPPER: &str = "{% for m in messages %}{{ m.content | upper }}{% endfor %}";

fn change(base: Option<u32>, revision: u32, start: u32, removed: u32, inserted: &str) -> TextChange {
    TextChange {
        base,
        revision,
        start,
        removed,
        inserted: inserted.to_owned(),
    }
}

fn count(messages: Option<&[Message]>, text: TextChange, files: Option<Vec<Part>>) -> Request {
    Request::CountUnsent(Box::new(CountUnsent {
        conversation: 7,
        before: messages.map(|messages| ConversationBefore {
            messages: messages.to_vec(),
            thinking: Thinking::default(),
        }),
        text,
        files,
    }))
}

fn counted(event: Event) -> Option<UnsentTokens> {
    match event {
        Event::UnsentCounted { tokens } => tokens,
        event => panic!("{event:?}"),
    }
}

fn file(text: &str) -> Part {
    Part::File {
        name: "notes.txt".into(),
        media_type: "text/plain".into(),
        text: text.into(),
    }
}

/// The prompt tokens of an answer.
fn prompt_tokens(worker: &mut Worker, messages: Vec<Message>) -> u32 {
    let events = worker.answer(generate(Prompt::Chat(messages), 1));
    summary(&events).prompt_tokens
}

/// Compares the counts of a message that is being written with the prompts of answers.
fn check(model: PathBuf) {
    let name = model.display().to_string();
    let mut worker = Worker::load(model, 2048);
    let conversations = [
        vec![],
        vec![message(Role::System, "Be brief.")],
        vec![message(Role::User, "Hello"), message(Role::Assistant, "Hi there.")],
        vec![message(Role::User, "An answer failed.")],
    ];
    for messages in conversations {
        let mut revision = 0;
        let mut text = String::new();
        let changes: [(u32, u32, &str, Option<Vec<Part>>); 8] = [
            (0, 0, "Once upon a time, there was a cat.", None),
            (34, 0, " 日本語 😀 the end <|im_end|>", None),
            (0, 4, "T", Some(vec![file("A line.\n\nAnd another.")])),
            (33, 0, "\n\n", None),
            (0, 2, "", Some(vec![file("A line."), file("More.")])),
            (3, 1, "x", Some(vec![])),
            // The markers of a prompt without them.
            (0, 0, "<|im_end|>\u{fdd0} \u{fdd1}", None),
            (0, 12, "", None),
        ];
        let mut files = Vec::new();
        for (start, removed, inserted, new_files) in changes {
            let mut units: Vec<u16> = text.encode_utf16().collect();
            units.splice(start as usize..(start + removed) as usize, inserted.encode_utf16());
            text = String::from_utf16(&units).expect("whole characters");
            let base = (revision > 0).then_some(revision);
            revision += 1;
            let before = base.is_none().then_some(&*messages);
            let request = count(
                before,
                change(base, revision, start, removed, inserted),
                new_files.clone(),
            );
            let tokens = counted(worker.call(request)).expect("a count");
            files = new_files.unwrap_or(files);
            let parts = files
                .iter()
                .cloned()
                .chain([Part::Text { text: text.clone() }])
                .collect();
            let mut prompt = messages.clone();
            match prompt.last_mut() {
                Some(last) if last.role == Role::User => last.parts.extend(parts),
                _ => prompt.push(Message {
                    role: Role::User,
                    parts,
                }),
            }
            assert_eq!(tokens.total, prompt_tokens(&mut worker, prompt), "{name}: {text:?}");
            assert!(tokens.conversation < tokens.total, "{name}: {tokens:?}");
        }
    }
    worker.close();
}

#[test]
fn the_count_is_the_prompt_of_the_answer_that_follows() {
    let folder = tempfile::tempdir().expect("a folder");
    let with = |template: &str, name: &str| {
        let path = folder.path().join(name);
        write_model(&path, template);
        path
    };
    for model in [
        with(TEMPLATE, "trims.gguf"),
        with(UPPER, "upper.gguf"),
        model(),
        fixture("models/gemma3.gguf"),
    ] {
        check(model);
    }
}

#[test]
fn the_count_is_the_prompt_of_the_bundled_model() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/SmolLM2-135M-Instruct.Q4_1.gguf");
    check(model);
}

#[test]
fn a_text_or_conversation_that_is_not_known_has_to_be_sent_in_full() {
    let mut worker = Worker::load_llama(2048);
    let mut call = |request| counted(worker.call(request));
    assert_eq!(
        call(count(Some(&[]), change(Some(1), 2, 0, 0, "a"), None)),
        None,
        "no text"
    );
    assert_eq!(
        call(count(None, change(None, 1, 0, 0, "a"), None)),
        None,
        "no conversation"
    );
    assert!(call(count(Some(&[]), change(None, 1, 0, 0, "Ab"), None)).is_some());
    assert!(call(count(None, change(Some(1), 2, 2, 0, "c"), None)).is_some());
    assert_eq!(
        call(count(None, change(Some(1), 3, 0, 0, "x"), None)),
        None,
        "an older text"
    );
    assert_eq!(
        call(count(None, change(Some(2), 3, 0, 0, "x"), None)),
        None,
        "it was dropped"
    );
    for (start, removed) in [(4, 0), (0, 9), (1, 0), (0, 1)] {
        assert!(call(count(Some(&[]), change(None, 1, 0, 0, "😀"), None)).is_some());
        assert_eq!(
            call(count(None, change(Some(1), 2, start, removed, ""), None)),
            None,
            "{start}"
        );
    }
}

#[test]
fn a_message_beyond_the_limit_is_not_counted() {
    let mut worker = Worker::load_llama(2048);
    let mut call = |text, files| counted(worker.call(count(Some(&[]), text, files)));
    let half = "x".repeat(MAX_UNSENT_BYTES / 2);
    assert_eq!(call(change(None, 1, 0, 0, &format!("{half}{half}x")), None), None);
    assert_eq!(call(change(None, 1, 0, 0, &half), Some(vec![file(&half)])), None);
    assert_eq!(
        call(change(None, 1, 0, 0, ""), Some(vec![file(&"`".repeat(6 << 20))])),
        None
    );
    assert!(call(change(None, 1, 0, 0, "x"), None).is_some());
}

#[test]
fn counting_delays_no_answer_and_a_newer_count_cancels_an_older() {
    let mut worker = Worker::load_llama(1 << 16);
    let request = GenerateRequest {
        ignore_end: true,
        ..generate(raw("Once upon a time"), 60_000)
    };
    let answer = worker.send(Request::Generate(request));
    while !matches!(worker.event(answer), Event::Text { .. }) {}
    let long = "many words ".repeat(1 << 19);
    let first = worker.send(count(Some(&[]), change(None, 1, 0, 0, &long), None));
    // The change of the cancelled count is applied.
    let second = worker.send(count(None, change(Some(1), 2, 0, 4, "more"), None));
    let cancelled = failed(&[worker.last_event(first)]).0;
    assert_eq!(cancelled, ProblemCode::Cancelled);
    let tokens = counted(worker.last_event(second)).expect("a count");
    assert!(tokens.total > 1 << 19, "{tokens:?}");
    worker.send(Request::Cancel { request: answer });
    assert_eq!(summary(&worker.events(answer)).finish_reason, FinishReason::Cancelled);
    worker.close();
}

#[test]
fn a_template_that_fails_fails_the_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("strict.gguf");
    write_model(&path, "{{ raise_exception('No.') }}");
    let mut worker = Worker::load(path, 64);
    let event = worker.call(count(Some(&[]), change(None, 1, 0, 0, "a"), None));
    assert_eq!(failed(&[event]).0, ProblemCode::Template);
    assert_eq!(worker.call(Request::Unload), Event::Done);
    let event = worker.call(count(Some(&[]), change(None, 1, 0, 0, "a"), None));
    assert_eq!(failed(&[event]).0, ProblemCode::NoModel);
}

//! Tests the end of answers that repeat themselves, with the worker's real protocol.

use crate::common::*;
use hearth_protocol::{FinishReason, GenerateRequest, LogitBias, Message, Prompt, Role};

const LIMIT: u32 = 20;

/// A request whose answer is the letter a, again and again.
fn loop_of_a(prompt: Prompt, max_repeated: Option<u32>) -> GenerateRequest {
    let mut request = GenerateRequest {
        max_repeated,
        ignore_end: true,
        ..generate(prompt, 100)
    };
    request.sampling.logit_bias = vec![bias("a")];
    request
}

fn bias(text: &str) -> LogitBias {
    LogitBias::Text {
        text: text.to_owned(),
        bias: Some(500.0),
    }
}

fn chat(text: &str) -> Vec<Message> {
    vec![message(Role::User, text)]
}

#[test]
fn a_loop_ends_at_the_limit_and_goes_on_for_as_many_tokens() {
    let mut worker = Worker::load_llama(512);
    let question = "Tell me a tale.";
    let events = worker.answer(loop_of_a(Prompt::Chat(chat(question)), Some(LIMIT)));
    let ended = summary(&events);
    assert_eq!(
        (ended.finish_reason, ended.tokens),
        (FinishReason::Repetition, LIMIT + 1)
    );
    let parts = parts(&[], &events);
    let answer = Message {
        role: Role::Assistant,
        parts,
    };
    let messages = chat(question).into_iter().chain([answer]).collect();
    let ids = ended.ids.clone();
    let events = worker.answer(loop_of_a(Prompt::Continue { messages, ids }, Some(LIMIT)));
    let more = summary(&events);
    assert_eq!((more.finish_reason, more.tokens), (FinishReason::Repetition, LIMIT));
    assert_eq!(more.ids.len(), ended.ids.len() + LIMIT as usize);
}

#[test]
fn without_a_limit_a_loop_goes_on() {
    let mut worker = Worker::load_llama(512);
    let events = worker.answer(loop_of_a(Prompt::Chat(chat("Tell me a tale.")), None));
    assert_eq!(
        (summary(&events).finish_reason, summary(&events).tokens),
        (FinishReason::Length, 100)
    );
}

#[test]
fn a_repetition_that_the_prompt_asks_for_goes_on() {
    let mut worker = Worker::load_llama(512);
    let mut end = |question: &str| {
        let events = worker.answer(loop_of_a(Prompt::Chat(chat(question)), Some(LIMIT)));
        (summary(&events).finish_reason, summary(&events).tokens)
    };
    assert_eq!(end("Say a 50 times."), (FinishReason::Repetition, 51));
    assert_eq!(end("Say a 1,000 times."), (FinishReason::Length, 100));
    assert_eq!(end("Shout: aaaaaaaaaaaaaaaa!"), (FinishReason::Length, 100));
}

#[test]
fn an_unbounded_string_or_array_of_a_schema_ends_at_the_limit() {
    let mut worker = Worker::load_llama(512);
    for (schema, letters, repeated) in [
        (r#"{"type": "string"}"#, &["a"][..], "aaaaaaaaaa"),
        (r#"{"type": "array", "items": {"const": 1}}"#, &["1", ","], "1,1,1,1,1,"),
    ] {
        let mut request = GenerateRequest {
            json_schema: Some(schema.to_owned()),
            max_repeated: Some(LIMIT),
            ..generate(Prompt::Chat(chat("Tell me a tale.")), 100)
        };
        request.sampling.logit_bias = letters.iter().map(|letter| bias(letter)).collect();
        let events = worker.answer(request);
        assert_eq!(summary(&events).finish_reason, FinishReason::Repetition, "{schema}");
        assert!(text(&events).contains(repeated), "{schema}: {}", text(&events));
    }
}

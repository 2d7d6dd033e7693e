//! Tests background answers: they run behind all others, and drop no session.

use crate::common::*;
use hearth_protocol::{Event, FinishReason, GenerateRequest, Prompt, Request};

/// Tokens of a prompt.
fn tokens(count: u32, seed: u32) -> Vec<u32> {
    (0..count).map(|position| 20 + (position * 7 + seed) % 90).collect()
}

fn request(ids: &[u32], max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        ignore_end: true,
        ..generate(Prompt::Tokens(ids.to_vec()), max_tokens)
    }
}

fn in_background(ids: &[u32], max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        background: true,
        ..request(ids, max_tokens)
    }
}

/// Tokens of a prompt that were in the KV cache.
fn cached(events: &[Event]) -> usize {
    let Event::Started { cached_tokens, .. } = events[0] else {
        panic!("not started: {:?}", events[0]);
    };
    cached_tokens as usize
}

#[test]
fn a_background_answer_shares_a_session_and_keeps_none() {
    let mut worker = Worker::load_llama(1024);
    let first = tokens(150, 1);
    let answer = worker.answer(request(&first, 20));
    let talk = [first, summary(&answer).ids.clone()].concat();

    let title = [&talk[..], &tokens(30, 2)].concat();
    let events = worker.answer(in_background(&title, 24));
    assert!(cached(&events) >= talk.len() - 1, "{}", cached(&events));
    assert_eq!(summary(&events).ids.len(), 24);
    assert_eq!(summary(&events).draft, None);
    let other = tokens(60, 3);
    assert_eq!(cached(&worker.answer(in_background(&other, 4))), 0);

    // The session of the conversation is unchanged, and there is no other.
    let next = [&talk[..], &tokens(10, 4)].concat();
    let events = worker.answer(request(&next, 20));
    assert!(cached(&events) >= talk.len() - 1, "{}", cached(&events));
    assert_eq!(
        summary(&events).ids,
        summary(&Worker::load_llama(1024).answer(request(&next, 20))).ids
    );
    assert_eq!(cached(&worker.answer(request(&other, 1))), 0);
}

#[test]
fn a_background_answer_without_room_ends_and_drops_no_session() {
    let mut worker = Worker::load_llama(512);
    let first = tokens(400, 1);
    worker.answer(request(&first, 20));
    let events = worker.answer(in_background(&tokens(300, 2), 24));
    assert_eq!(events.len(), 1);
    assert_eq!(summary(&events).finish_reason, FinishReason::Cancelled);
    assert_eq!(cached(&worker.answer(request(&first, 1))), first.len() - 1);
    // Another answer drops it.
    assert_eq!(cached(&worker.answer(request(&tokens(300, 2), 24))), 0);
}

#[test]
fn a_background_answer_does_not_read_a_long_prompt() {
    let mut worker = Worker::load_llama(4096);
    let long = tokens(1200, 1);
    let events = worker.answer(in_background(&long, 24));
    assert_eq!(summary(&events).finish_reason, FinishReason::Cancelled);
    worker.answer(request(&long, 1));
    assert_eq!(cached(&worker.answer(in_background(&long, 24))), long.len() - 1);
}

#[test]
fn a_background_answer_begins_once_no_other_waits_or_runs() {
    let mut worker = Worker::load_llama(2048);
    let first = worker.send(Request::Generate(request(&tokens(20, 1), 1000)));
    while !matches!(worker.event(first), Event::Text { .. }) {}
    let background = worker.send(Request::Generate(in_background(&tokens(20, 2), 5)));
    let second = worker.send(Request::Generate(request(&tokens(20, 3), 200)));
    let mut ends = Vec::new();
    while ends.len() < 3 {
        let (id, event) = worker.next_event();
        assert!(id != background || ends.len() == 2, "{event:?}");
        if event.is_last() {
            ends.push(id);
        }
    }
    assert!(ends.contains(&first) && ends.contains(&second));
}

#[test]
fn an_answer_preempts_a_background_answer_which_then_continues() {
    let mut worker = Worker::load_llama(4096);
    let prompt = tokens(20, 1);
    let background = worker.send(Request::Generate(in_background(&prompt, 1500)));
    while !matches!(worker.event(background), Event::Text { .. }) {}
    let answer = worker.send(Request::Generate(request(&tokens(20, 2), 30)));
    while !matches!(worker.next_event(), (id, Event::Started { .. }) if id == answer) {}
    loop {
        let (id, event) = worker.next_event();
        assert_eq!(id, answer, "{event:?}");
        if event.is_last() {
            break;
        }
    }
    let events = worker.events(background);
    let alone = Worker::load_llama(4096).answer(request(&prompt, 1500));
    assert_eq!(summary(&events).ids, summary(&alone).ids);
}

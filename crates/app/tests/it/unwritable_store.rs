//! A store that the app cannot write: on a full disk, or locked by another connection or app.

use crate::harness::{Harness, failure, options};
use hearth_app::{
    App,
    wire::{Event, MessageState, NewConversation, ProblemCode},
};
use std::time::Duration;

/// Locks the store from another connection, until that is dropped or commits.
fn lock_store(harness: &Harness) -> rusqlite::Connection {
    // A shorter timeout, for a quicker test.
    harness.store().set_busy_timeout(Duration::from_millis(200)).unwrap();
    let other = rusqlite::Connection::open(harness.store().path()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    other
}

/// Reads the message's row of the store.
fn read_message(harness: &Harness, id: i64) -> hearth_app::store::message::Message {
    let get = |t: &rusqlite::Transaction<'_>| hearth_app::store::message::get(t, id);
    harness.store().read(get).unwrap().expect("a message")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_fails_the_answer_but_not_the_text() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let sent = harness.say(None, "flood").await;
    let id = sent.conversation.id;
    harness.streaming(sent.answer.id).await;
    harness.store().limit_size(Some(0)).unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(failure(&answer).code, ProblemCode::DiskFull);
    assert!(answer.text().starts_with("word "));
    let shown = harness.conversation(id).await.messages[1].clone();
    assert!(
        shown.text().starts_with(&answer.text()),
        "the text in memory is complete"
    );
    let refused = harness
        .send(None, None, "x".repeat(1 << 16), Vec::new(), NewConversation::default())
        .await;
    assert_eq!(refused.unwrap_err().code, ProblemCode::DiskFull);

    harness.store().limit_size(None).unwrap();
    assert_eq!(harness.answer("say again").await.text(), "again");
    let harness = harness.again().await;
    let kept = harness.conversation(id).await.messages[1].clone();
    assert_eq!(failure(&kept).code, ProblemCode::DiskFull);
    assert!(kept.text().starts_with(&answer.text()), "saved once there is space");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_store_does_not_end_an_answer() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let other = lock_store(&harness);
    let locked =
        |expected| move |event| matches!(event, Event::StoreLocked { locked } if locked == expected).then_some(());
    harness.next(locked(true)).await;
    for _ in 0..20 {
        harness.streaming(sent.answer.id).await;
    }
    harness.stop(sent.conversation.id).await.unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(answer.state, MessageState::Stopped, "the lock does not change its end");
    let shown = harness.conversation(sent.conversation.id).await.messages[1].clone();
    assert_eq!(shown, answer);
    assert!(
        read_message(&harness, answer.id).text().len() < answer.text().len(),
        "the text waits in memory"
    );
    other.execute_batch("COMMIT").unwrap();
    harness.next(locked(false)).await;
    assert_eq!(read_message(&harness, answer.id).text(), answer.text());
    let harness = harness.again().await;
    assert_eq!(harness.conversation(sent.conversation.id).await.messages[1], answer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_transaction_of_hearth_is_not_reported_as_another_program() {
    let mut harness = Harness::tiny();
    harness.store().set_busy_timeout(Duration::from_millis(200)).unwrap();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let app = harness.app.clone();
    let (begun, begins) = std::sync::mpsc::channel();
    // As long as an import of many conversations, or a check of a backup.
    let importing = std::thread::spawn(move || {
        let wait = |_: &rusqlite::Transaction<'_>| {
            begun.send(()).unwrap();
            std::thread::sleep(Duration::from_secs(3));
            Ok(())
        };
        app.store().write(wait).unwrap();
    });
    begins.recv().unwrap();
    let before = tokio::time::Instant::now();
    while before.elapsed() < Duration::from_secs(4) {
        let streams = |event: &Event| matches!(event, Event::MessageDelta { .. });
        let event = harness.next(|event| {
            assert!(!matches!(event, Event::StoreLocked { .. }), "no other program has it");
            streams(&event).then_some(event)
        });
        event.await;
    }
    importing.join().unwrap();
    harness.stop(sent.conversation.id).await.unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(read_message(&harness, answer.id).text(), answer.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_waits_for_a_lock_on_the_store() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let other = lock_store(&harness);
    for _ in 0..20 {
        harness.streaming(sent.answer.id).await;
    }
    let streamed = harness.conversation(sent.conversation.id).await.messages[1]
        .text()
        .clone();
    let app = harness.app.clone();
    let closing = tokio::spawn(async move { app.shut_down().await });
    let ended = harness.ended(sent.answer.id).await;
    assert!(!closing.is_finished() && ended.text().starts_with(&streamed));
    other.execute_batch("COMMIT").unwrap();
    closing.await.unwrap().unwrap();
    let harness = harness.again().await;
    assert_eq!(harness.conversation(sent.conversation.id).await.messages[1], ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_app_is_refused() {
    let harness = Harness::tiny();
    let second = App::open(options(&harness.folder), |_| {});
    assert_eq!(
        second.err().map(|problem| problem.code),
        Some(ProblemCode::AlreadyRunning)
    );
}

//! Titles that the model writes after the first answer of a conversation: a real store and the fake
//! worker.

use crate::harness::Harness;
use hearth_app::library::catalog;
use hearth_app::wire::{Event, KvType, MessageState, ModelState, ProblemCode, Sent, Settings};
use std::{path::PathBuf, time::Duration};

/// The next title of a conversation that differs from `before`.
async fn next_title(harness: &mut Harness, id: i64, before: &str) -> String {
    harness
        .next(|event| match event {
            Event::ConversationChanged { conversation, .. }
                if conversation.id == id && conversation.title != before =>
            {
                Some(conversation.title)
            }
            _ => None,
        })
        .await
}

async fn title(harness: &Harness, id: i64) -> String {
    harness.conversation(id).await.title
}

/// The number of requests for titles so far. Waits until another one is in progress, because it is
/// sent after them.
async fn requested(harness: &mut Harness) -> u32 {
    let held = Held::new(harness);
    harness.answer(&held.message("Held")).await;
    held.begun().await;
    let count: u32 = harness.answer("background").await.text().parse().expect("a number");
    count - 1
}

/// A file that exists while the worker holds a title back.
struct Held(PathBuf);

impl Held {
    fn new(harness: &Harness) -> Self {
        Self(harness.folder.path().join("held"))
    }

    /// The message whose title is held back.
    fn message(&self, title: &str) -> String {
        format!("hold {} {title}", self.0.display())
    }

    /// Waits until the worker has the request.
    async fn begun(&self) {
        while !self.0.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn release(&self) {
        std::fs::remove_file(&self.0).expect("a title that is held back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_titles_a_conversation_after_its_first_answer() {
    let mut harness = Harness::tiny();
    let first = harness.answer("title **Title:** \"Rain at night.\"").await;
    let id = first.conversation;
    let before = title(&harness, id).await;
    let after = match before.as_str() {
        "Rain at night" => before,
        before => next_title(&mut harness, id, before).await,
    };
    assert_eq!(after, "Rain at night");
    // A later answer requests no title, nor does another answer to the first message.
    let sent = harness.say(Some(id), "title Something else").await;
    harness.ended(sent.answer.id).await;
    let sent = harness.regenerate(first.id, None).await.expect("it begins");
    harness.ended(sent.answer.id).await;
    assert_eq!(requested(&mut harness).await, 1);
    let harness = harness.again().await;
    assert_eq!(title(&harness, id).await, "Rain at night");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_title_is_requested_if_the_setting_is_off_or_the_answer_failed() {
    let mut harness = Harness::tiny();
    let failed = harness.answer("fail").await;
    assert!(matches!(failed.state, MessageState::Failed { .. }));
    assert_eq!(requested(&mut harness).await, 0);
    let mut harness = Harness::tiny();
    let settings = Settings {
        generated_titles: false,
        ..Settings::default()
    };
    harness.set_settings(settings).await.expect("they are saved");
    let answer = harness.answer("title Rain").await;
    assert_eq!(harness.answer("background").await.text(), "0");
    assert_eq!(title(&harness, answer.conversation).await, "title Rain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_the_user_named_is_not_titled() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let id = sent.conversation.id;
    // The user gives the title that it has.
    harness
        .rename_conversation(id, "slow".into())
        .await
        .expect("it is renamed");
    harness.stop(id).await.expect("it stops");
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    assert_eq!(requested(&mut harness).await, 0);
}

/// Starts a conversation and waits until its title is being generated, which is held.
async fn begin_title(harness: &mut Harness) -> (Held, Sent) {
    let held = Held::new(harness);
    let sent = harness.say(None, &held.message("Rain")).await;
    harness.ended(sent.answer.id).await;
    held.begun().await;
    (held, sent)
}

/// Lets the title end. Returns the conversation's title then.
async fn title_after(held: Held, harness: &Harness, conversation: i64) -> String {
    held.release();
    // Time for the title to arrive, which nothing announces.
    tokio::time::sleep(Duration::from_millis(100)).await;
    title(harness, conversation).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_whose_titles_mislead_writes_none() {
    let base = &catalog::entries()[0];
    let mut harness = Harness::new(&[&base.file]);
    harness.answer("title Rain").await;
    // Time for a request, which nothing announces.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(harness.answer("background").await.text(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_that_the_user_gives_during_a_title_stays() {
    let mut harness = Harness::tiny();
    let (held, sent) = begin_title(&mut harness).await;
    let id = sent.conversation.id;
    harness
        .rename_conversation(id, "Mine".into())
        .await
        .expect("it is renamed");
    assert_eq!(title_after(held, &harness, id).await, "Mine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_words_stay_if_the_first_answer_is_deleted_during_its_title() {
    let mut harness = Harness::tiny();
    let (held, sent) = begin_title(&mut harness).await;
    let id = sent.conversation.id;
    let before = title(&harness, id).await;
    harness.delete_message(sent.answer.id).await.expect("it is deleted");
    assert_eq!(title_after(held, &harness, id).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_words_stay_if_the_title_repeats_itself() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("title rain rain rain").await;
    assert!(requested(&mut harness).await >= 1);
    assert_eq!(title(&harness, answer.conversation).await, "title rain rain rain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_goes_before_a_title() {
    let mut harness = Harness::tiny();
    let held = Held::new(&harness);
    let first = harness.say(None, &held.message("Rain")).await;
    harness.ended(first.answer.id).await;
    held.begun().await;
    let id = first.conversation.id;
    assert!(harness.snapshot().await.expect("a snapshot").answering.is_empty());
    // The title is cancelled, and requested again once the answer has ended.
    let second = harness.say(Some(id), "slow").await;
    harness.streaming(second.answer.id).await;
    held.release();
    harness.stop(id).await.expect("it stops");
    harness.ended(second.answer.id).await;
    held.begun().await;
    let before = title(&harness, id).await;
    assert_ne!(before, "Rain");
    held.release();
    assert_eq!(next_title(&mut harness, id, &before).await, "Rain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_measurement_goes_before_a_title() {
    let mut harness = Harness::tiny();
    // The fake worker measures this model until cancelled.
    let endless = Settings {
        kv: KvType::Q8_0,
        ..Settings::default()
    };
    harness.set_settings(endless).await.expect("they are saved");
    let held = Held::new(&harness);
    let answer = harness.answer(&held.message("Rain")).await;
    held.begun().await;
    let app = harness.app.clone();
    let measuring = tokio::spawn(async move { app.measure().await });
    harness
        .next(|event| matches!(event, Event::MeasureProgress { .. }).then_some(()))
        .await;
    held.release();
    harness.stop_measuring().await.expect("it stops");
    let stopped = measuring.await.expect("an outcome").expect_err("it is cancelled");
    assert_eq!(stopped.code, ProblemCode::Cancelled);
    // The title is requested again.
    held.begun().await;
    let before = title(&harness, answer.conversation).await;
    assert_ne!(before, "Rain");
    held.release();
    assert_eq!(next_title(&mut harness, answer.conversation, &before).await, "Rain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_was_unloaded_is_not_loaded_for_a_title() {
    let mut harness = Harness::tiny();
    // The title waits for the other answer.
    let other = harness.say(None, "slow").await;
    harness.streaming(other.answer.id).await;
    let answer = harness.answer("title Rain").await;
    harness.unload_model().await.expect("it is unloaded");
    harness.model_state(|state| *state == ModelState::None).await;
    let snapshot = harness.snapshot().await.expect("a snapshot");
    assert_eq!(
        (snapshot.live_models, snapshot.model_state),
        (Vec::new(), ModelState::None)
    );
    assert_eq!(title(&harness, answer.conversation).await, "title Rain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_during_a_title_changes_no_message() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "break it").await;
    let answer = harness.ended(sent.answer.id).await;
    harness
        .next(|event| matches!(event, Event::WorkerDied { .. }).then_some(()))
        .await;
    let conversation = harness.conversation(answer.conversation).await;
    assert_eq!(conversation.title, "break it");
    assert_eq!(conversation.messages[1], answer);
    assert_eq!(harness.answer("say on").await.text(), "on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_during_a_title_keeps_the_first_words() {
    let mut harness = Harness::tiny();
    let held = Held::new(&harness);
    let first = harness.say(None, &held.message("Rain")).await;
    let answer = harness.ended(first.answer.id).await;
    held.begun().await;
    let before = title(&harness, answer.conversation).await;
    let harness = harness.again().await;
    let conversation = harness.conversation(answer.conversation).await;
    assert_eq!((conversation.title, &conversation.messages[1]), (before, &answer));
}

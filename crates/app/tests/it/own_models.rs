//! Models of single conversations: they answer there, and are selected for no other conversation.

use crate::harness::{Harness, failure};
use hearth_app::wire::{ConversationSettings, Event, Message, MessageState, ModelState, NewConversation, ProblemCode};

fn own(model: &str) -> ConversationSettings {
    ConversationSettings {
        model: Some(model.to_owned()),
        ..ConversationSettings::default()
    }
}

/// Sends a message in a new conversation with this model, and waits for the end of the answer.
async fn answer_by(harness: &mut Harness, model: &str) -> Message {
    let fresh = NewConversation {
        settings: own(model),
        ..NewConversation::default()
    };
    let sent = harness.send(None, None, "say one".into(), Vec::new(), fresh).await;
    harness.ended(sent.expect("it is sent").answer.id).await
}

/// Ids of the models that are loaded.
async fn loaded(harness: &Harness) -> Vec<String> {
    let states = harness.snapshot().await.expect("a snapshot").live_models;
    let mut models: Vec<_> = states
        .into_iter()
        .map(|state| match state {
            ModelState::Ready { model, .. } => model,
            other => panic!("not ready: {other:?}"),
        })
        .collect();
    models.sort();
    models
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_of_a_conversation_answers_there_and_nowhere_else() {
    let mut harness = Harness::with_two_models();
    harness.load_model("tiny".into()).await.expect("it is loaded");
    let first = answer_by(&mut harness, "other").await;
    assert_eq!(first.model.as_deref(), Some("Another model"));
    let elsewhere = harness.answer("say two").await;
    assert_eq!(elsewhere.model.as_deref(), Some("A tiny model"));
    for (model, name) in [("tiny", "A tiny model"), ("other", "Another model")] {
        harness
            .set_conversation_settings(first.conversation, own(model))
            .await
            .expect("it is set");
        let sent = harness.say(Some(first.conversation), "say more").await;
        assert_eq!(harness.ended(sent.answer.id).await.model.as_deref(), Some(name));
        let snapshot = harness.snapshot().await.expect("a snapshot");
        assert!(
            matches!(&snapshot.model_state, ModelState::Ready { model, .. } if model == "tiny"),
            "{:?}",
            snapshot.model_state
        );
        assert_eq!(snapshot.settings.last_model.as_deref(), Some("tiny"));
    }
    harness
        .set_conversation_settings(first.conversation, own("gone"))
        .await
        .expect("it is set");
    let sent = harness.say(Some(first.conversation), "say more").await;
    assert_eq!(
        failure(&harness.ended(sent.answer.id).await).code,
        ProblemCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_of_the_first_conversation_is_not_the_one_of_the_second() {
    let mut harness = Harness::with_two_models();
    let default = harness.snapshot().await.expect("a snapshot").default_model;
    let names = [("tiny", "A tiny model"), ("other", "Another model")];
    let (own, default) = match default.as_deref() {
        Some("tiny") => (names[1], names[0]),
        _ => (names[0], names[1]),
    };
    assert_eq!(answer_by(&mut harness, own.0).await.model.as_deref(), Some(own.1));
    let snapshot = harness.snapshot().await.expect("a snapshot");
    assert_eq!(
        (snapshot.model_state, snapshot.settings.last_model),
        (ModelState::None, None)
    );
    assert_eq!(harness.answer("say two").await.model.as_deref(), Some(default.1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_states_of_all_live_models_reach_the_window() {
    let mut harness = Harness::with_two_models();
    harness.load_model("tiny".into()).await.expect("it is loaded");
    harness
        .model_state(|state| matches!(state, ModelState::Ready { .. }))
        .await;
    answer_by(&mut harness, "other").await;
    assert_eq!(loaded(&harness).await, ["other", "tiny"]);
    // A model that is no longer selected stays loaded, and its state known.
    harness.load_model("other".into()).await.expect("it is loaded");
    harness
        .model_state(|state| matches!(state, ModelState::Ready { model, .. } if model == "other"))
        .await;
    assert_eq!(loaded(&harness).await, ["other", "tiny"]);
    harness.unload_model().await.expect("they are unloaded");
    let mut unloaded = Vec::new();
    harness
        .next(|event| {
            if let Event::LiveModel {
                model,
                state: ModelState::None,
            } = event
            {
                unloaded.push(model);
            }
            (unloaded.len() == 2).then_some(())
        })
        .await;
    assert_eq!(loaded(&harness).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unloading_stops_the_answers_of_all_models() {
    let mut harness = Harness::with_two_models();
    harness.load_model("tiny".into()).await.expect("it is loaded");
    let fresh = NewConversation {
        settings: own("other"),
        ..NewConversation::default()
    };
    let sent = harness.send(None, None, "slow".into(), Vec::new(), fresh).await;
    let sent = sent.expect("it is sent");
    harness.streaming(sent.answer.id).await;
    harness.unload_model().await.expect("they are unloaded");
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    assert_eq!(loaded(&harness).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_failed_load_of_a_conversations_model_is_shown_until_all_are_unloaded() {
    let mut harness = Harness::new(&["tiny.gguf", "refuse.gguf"]);
    let fresh = NewConversation {
        settings: own("refuse"),
        ..NewConversation::default()
    };
    let sent = harness.send(None, None, "say one".into(), Vec::new(), fresh).await;
    sent.expect("it is sent");
    harness
        .next(|event| match event {
            Event::LiveModel {
                model,
                state: ModelState::Failed { problem, .. },
            } if model == "refuse" => Some(problem),
            _ => None,
        })
        .await;
    harness.unload_model().await.expect("it is unloaded");
    harness
        .next(|event| match event {
            Event::LiveModel {
                model,
                state: ModelState::None,
            } if model == "refuse" => Some(()),
            _ => None,
        })
        .await;
    assert_eq!(loaded(&harness).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_progress_of_a_conversations_model_reaches_the_window() {
    let mut harness = Harness::new(&["tiny.gguf", "slow.gguf"]);
    harness.load_model("tiny".into()).await.expect("it is loaded");
    let fresh = NewConversation {
        settings: own("slow"),
        ..NewConversation::default()
    };
    let sent = harness.send(None, None, "say one".into(), Vec::new(), fresh).await;
    let sent = sent.expect("it is sent");
    harness
        .next(|event| match event {
            Event::LiveModel {
                model,
                state: ModelState::Loading { fraction, .. },
            } if model == "slow" && fraction > 0.0 => Some(()),
            Event::ModelState {
                state: ModelState::Loading { model, .. },
            } if model == "slow" => panic!("it is not selected"),
            _ => None,
        })
        .await;
    harness.stop(sent.conversation.id).await.expect("it is stopped");
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
}

//! Models of the app: added, loaded, reloaded with other settings, unloaded and removed.

use crate::{
    harness::{Harness, OTHER_BUILD, failure, under_way},
    support,
};
use hearth_app::wire::{GpuLayers, LoadSettings, MessageState, ModelState, NewConversation, ProblemCode, Settings};
use std::{fs, path::PathBuf};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_are_added_and_removed() {
    let harness = Harness::tiny();
    let path = support::model(harness.folder.path(), "mine.gguf");
    let model = harness.add_model(path.clone()).await.unwrap();
    assert_eq!(
        (model.name.as_str(), model.architecture.as_str(), model.context_trained),
        ("A tiny model", "llama", 2048)
    );
    assert_eq!(harness.add_model(path.clone()).await.unwrap().id, model.id);
    assert_eq!(harness.snapshot().await.unwrap().models.len(), 2);
    let garbage = harness.folder.path().join("garbage.gguf");
    fs::write(&garbage, "not a model").unwrap();
    assert_eq!(
        harness.add_model(garbage).await.unwrap_err().code,
        ProblemCode::FileInvalid
    );
    assert_eq!(
        harness.add_model(PathBuf::from("nowhere.gguf")).await.unwrap_err().code,
        ProblemCode::FileUnreadable
    );

    let harness = harness.again().await;
    assert_eq!(harness.snapshot().await.unwrap().models.len(), 2);
    harness.remove_model(model.id.clone()).await.unwrap();
    assert!(path.exists(), "an added file is not deleted");
    assert_eq!(harness.snapshot().await.unwrap().models.len(), 1);
    assert_eq!(
        harness.remove_model(model.id).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    assert_eq!(
        harness.remove_model("tiny".into()).await.unwrap_err().code,
        ProblemCode::BadRequest,
        "a bundled model"
    );
    let downloads = harness.folder.path().join("data/models");
    let downloaded = support::model(&downloads, "qwen2.5-0.5b-instruct-q4_k_m.gguf");
    let by_hand = support::model(&downloads, "other.gguf");
    harness.remove_model("qwen2.5-0.5b-instruct".into()).await.unwrap();
    assert!(!downloaded.exists());
    assert_eq!(
        harness.remove_model("other".into()).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
    assert!(by_hand.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_another_model_and_unload() {
    let mut harness = Harness::new(&["a-slow.gguf", "b.gguf", "c.gguf"]);
    let ready =
        |id: &'static str| move |state: &ModelState| matches!(state, ModelState::Ready { model, .. } if model == id);
    harness.load_model("a-slow".into()).await.unwrap();
    harness
        .model_state(|state| matches!(state, ModelState::Loading { fraction, .. } if *fraction > 0.0))
        .await;
    harness.load_model("b".into()).await.unwrap();
    harness.model_state(ready("b")).await;
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    harness.load_model("c".into()).await.unwrap();
    harness.model_state(ready("c")).await;
    harness.streaming(sent.answer.id).await;
    let other = harness.answer("say two").await;
    assert_eq!(
        (other.text().as_str(), other.model.as_deref()),
        ("two", Some("A tiny model"))
    );
    harness.streaming(sent.answer.id).await;
    harness.stop(sent.conversation.id).await.unwrap();
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    harness.unload_model().await.unwrap();
    harness.model_state(|state| *state == ModelState::None).await;
    assert_eq!(
        harness.snapshot().await.unwrap().settings.last_model.as_deref(),
        Some("c")
    );
    harness.say(None, "say one").await;
    harness.model_state(ready("c")).await;
    assert_eq!(
        harness.load_model("nothing".into()).await.unwrap_err().code,
        ProblemCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_loads_and_stops_at_once_leave_nothing_stuck() {
    let mut harness = Harness::new(&["tiny.gguf", "other.gguf"]);
    let mut sent = Vec::new();
    for number in 0..20 {
        let model = ["tiny", "other"][number % 2];
        harness.load_model(model.to_owned()).await.unwrap();
        let message = harness.say(None, "slow").await;
        if number % 3 == 0 {
            harness.stop(message.conversation.id).await.unwrap();
        }
        sent.push(message);
    }
    harness.load_model("tiny".to_owned()).await.unwrap();
    for message in &sent {
        harness.stop(message.conversation.id).await.unwrap();
    }
    for message in &sent {
        let stored = loop {
            let conversation = harness.conversation(message.conversation.id).await;
            if !under_way(&conversation.messages[1]) {
                break conversation.messages[1].clone();
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(stored.state, MessageState::Stopped);
    }
    assert_eq!(harness.answer("say again").await.text(), "again");
    let state = harness.snapshot().await.unwrap().model_state;
    assert!(matches!(state, ModelState::Ready { model, .. } if model == "tiny"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_model_the_message_is_saved() {
    let mut harness = Harness::new(&[]);
    assert_eq!(harness.snapshot().await.unwrap().default_model, None);
    let answer = harness.answer("say one").await;
    assert_eq!(failure(&answer).code, ProblemCode::NoModel);
    let path = support::model(harness.folder.path(), "mine.gguf");
    let model = harness.add_model(path).await.unwrap();
    harness.load_model(model.id).await.unwrap();
    let again = harness.regenerate(answer.id, None).await.unwrap();
    assert_eq!(harness.ended(again.answer.id).await.text(), "one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_deleted_while_loaded() {
    let mut harness = Harness::tiny();
    let path = support::model(harness.folder.path(), "mine.gguf");
    let model = harness.add_model(path.clone()).await.unwrap();
    harness.load_model(model.id.clone()).await.unwrap();
    assert_eq!(harness.answer("say one").await.text(), "one");
    fs::remove_file(&path).unwrap();
    assert_eq!(
        harness.answer("say two").await.text(),
        "two",
        "the loaded model stays loaded"
    );
    let listed = harness
        .snapshot()
        .await
        .unwrap()
        .models
        .into_iter()
        .find(|listed| listed.id == model.id)
        .unwrap();
    let problem = listed.problem.expect("the file is gone");
    assert!(problem.to_string().contains("mine.gguf"), "{problem}");
    harness.unload_model().await.unwrap();
    let answer = harness.answer("say three").await;
    assert_eq!(failure(&answer).code, ProblemCode::FileUnreadable);
    assert_eq!(
        harness.load_model(model.id).await.unwrap_err().code,
        ProblemCode::FileUnreadable
    );
    harness.load_model("tiny".into()).await.unwrap();
    let again = harness.regenerate(answer.id, None).await.unwrap();
    assert_eq!(harness.ended(again.answer.id).await.text(), "three");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_loaded_in_the_requested_build() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let mut settings = harness.snapshot().await.unwrap().settings;
    for (build, switched) in [(Some("cuda"), true), (None, false)] {
        settings.build = build.map(str::to_owned);
        harness.set_settings(settings.clone()).await.unwrap();
        let state = harness
            .model_state(|state| matches!(state, ModelState::Ready { .. }))
            .await;
        let ModelState::Ready { info, .. } = state else {
            unreachable!()
        };
        let notices: Vec<String> = info.notices.iter().map(ToString::to_string).collect();
        assert_eq!(notices.iter().any(|notice| notice == OTHER_BUILD), switched);
        assert_eq!(harness.answer("say two").await.state, MessageState::Complete);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_gpu_layers_reload_the_model_and_the_conversation_continues() {
    let mut harness = Harness::tiny();
    let before = harness.answer("say one").await;
    harness
        .set_settings(Settings {
            gpu_layers: GpuLayers::All,
            ..harness.snapshot().await.unwrap().settings
        })
        .await
        .unwrap();
    let state = harness
        .model_state(|state| matches!(state, ModelState::Ready { .. }))
        .await;
    let ModelState::Ready { info, .. } = state else {
        unreachable!()
    };
    assert_eq!((info.gpu_layers, info.layers_total), (31, 31));
    let placed = harness
        .plan(
            "tiny".into(),
            LoadSettings {
                gpu_layers: GpuLayers::All,
                ..LoadSettings::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(info.placement, placed.devices, "the placement is the plan's");
    let again = harness
        .send(
            Some(before.conversation),
            Some(before.id),
            "say two".into(),
            Vec::new(),
            NewConversation::default(),
        )
        .await
        .unwrap();
    assert_eq!(harness.ended(again.answer.id).await.text(), "two");
}

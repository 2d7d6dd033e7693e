//! Devices: their list, plans of models on them, measurements and the report.

use crate::harness::Harness;
use hearth_app::wire::{
    Event, GpuLayers, KvType, LoadSettings, MessageState, ModelState, ProblemCode, Settings, Verdict,
};

/// The default settings with this number of layers on the GPU.
fn with_gpu_layers(count: u32) -> LoadSettings {
    LoadSettings {
        gpu_layers: GpuLayers::Count(count),
        ..LoadSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_are_listed() {
    let harness = Harness::new(&[]);
    let (first, second) = tokio::join!(harness.devices(), harness.devices());
    assert_eq!(
        (first.unwrap()[0].id.as_str(), second.unwrap()[0].id.as_str()),
        ("cpu", "cpu")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_are_checked() {
    let harness = Harness::new(&[]);
    let (first, second) = tokio::join!(harness.check_device("gpu0".into()), harness.check_device("gpu0".into()));
    assert_eq!(
        (first.unwrap()[0].id.as_str(), second.unwrap()[0].id.as_str()),
        ("cpu", "cpu")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_plan_of_a_model_is_made() {
    let harness = Harness::new(&["tiny.gguf", "invalid.gguf"]);
    let (_, newest, refused) = tokio::join!(
        harness.plan("tiny".into(), with_gpu_layers(4)),
        harness.plan("tiny".into(), with_gpu_layers(5)),
        harness.plan("invalid".into(), with_gpu_layers(1))
    );
    let newest = newest.unwrap();
    assert_eq!((newest.gpu_layers, newest.devices.len(), newest.fits), (5, 2, true));
    assert_eq!(
        refused.unwrap_err().code,
        ProblemCode::FileInvalid,
        "another model's plan does not replace it"
    );
    let too_many = harness.plan("tiny".into(), with_gpu_layers(11)).await.unwrap();
    assert_eq!(
        (too_many.fits, too_many.verdict, too_many.layers_fit),
        (false, Verdict::WontFit, 10)
    );
    assert_eq!(
        harness.snapshot().await.unwrap().model_state,
        ModelState::None,
        "a plan loads nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_made_while_an_answer_is_generated() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    assert_eq!(
        harness
            .plan("tiny".into(), with_gpu_layers(3))
            .await
            .unwrap()
            .gpu_layers,
        3
    );
    assert_eq!(harness.devices().await.unwrap()[0].id, "cpu");
    assert_eq!(harness.measure().await.unwrap_err().code, ProblemCode::Busy);
    harness.stop(sent.conversation.id).await.unwrap();
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_measurement_is_saved() {
    let mut harness = Harness::tiny();
    assert_eq!(harness.measure().await.unwrap_err().code, ProblemCode::NoModel);
    harness.answer("say one").await;
    let measured = harness.measure().await.unwrap();
    assert_eq!(
        (
            measured.model_name.as_str(),
            measured.gpu_layers,
            measured.tokens_per_second
        ),
        ("A tiny model", 10, 50.0)
    );
    harness
        .next(|event| matches!(event, Event::MeasureProgress { fraction: 0.5 }).then_some(()))
        .await;
    let newer = harness.measure().await.unwrap();
    let harness = harness.again().await;
    assert_eq!(
        harness.measurements().await.unwrap(),
        [newer],
        "it replaces the older one"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_cancels_a_measurement() {
    let mut harness = Harness::tiny();
    // The fake worker measures this model until cancelled.
    let endless = Settings {
        kv: KvType::Q8_0,
        ..Settings::default()
    };
    harness.set_settings(endless).await.unwrap();
    harness.answer("say one").await;
    let app = harness.app.clone();
    let measuring = tokio::spawn(async move { app.measure().await });
    harness
        .next(|event| matches!(event, Event::MeasureProgress { .. }).then_some(()))
        .await;
    assert_eq!(harness.measure().await.unwrap_err().code, ProblemCode::Busy);
    assert_eq!(harness.answer("say two").await.text(), "two");
    assert_eq!(measuring.await.unwrap().unwrap_err().code, ProblemCode::Cancelled);
    assert_eq!(harness.measurements().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_has_no_path() {
    let mut harness = Harness::tiny();
    harness.answer("say a secret").await;
    harness.measure().await.unwrap();
    let report = harness.report().await.unwrap();
    for part in [
        "A CPU",
        "10 of 31 layers",
        "decode 50.0 tokens/s",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(report.contains(part), "no {part} in: {report}");
    }
    let folder = harness.folder.path().display().to_string();
    for secret in ["secret", folder.as_str()] {
        assert!(!report.contains(secret), "{secret} in: {report}");
    }
}

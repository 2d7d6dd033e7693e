//! The app's settings: saved, validated, applied, and read under their keys of earlier versions.

use crate::harness::Harness;
use hearth_app::wire::{
    Contrast, DraftKind, DraftSetting, GpuLayers, KvType, ModelState, Motion, ProblemCode, Settings, Theme,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saved_settings_keep_the_last_loaded_model() {
    let harness = Harness::tiny();
    harness.load_model("tiny".into()).await.unwrap();
    // As a page that was opened before the load sends them.
    let settings = Settings {
        theme: Theme::Dark,
        ..Settings::default()
    };
    harness.set_settings(settings.clone()).await.unwrap();
    let saved = harness.snapshot().await.unwrap().settings;
    assert_eq!(saved.last_model.as_deref(), Some("tiny"));
    assert_eq!(saved.theme, settings.theme);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_last_and_reload() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let settings = Settings {
        theme: Theme::Dark,
        contrast: Contrast::More,
        motion: Motion::Reduce,
        text_size: 150,
        enter_sends: false,
        notifications: false,
        shortcuts: [
            ("search".into(), "Mod+J".into()),
            ("of-another-version".into(), String::new()),
        ]
        .into(),
        threads: Some(3),
        context: Some(1024),
        device: Some("gpu0".into()),
        training_device: Some("cpu".into()),
        gpu_layers: GpuLayers::Count(7),
        kv: KvType::Q8_0,
        drafts: [
            ("tiny".into(), DraftSetting::FirstLayers),
            ("other".into(), DraftSetting::None),
            ("third".into(), DraftSetting::Model { model: "tiny".into() }),
        ]
        .into(),
        prompt_cache_limit: 7_000_000_000,
        ..Settings::default()
    };
    harness.set_settings(settings.clone()).await.unwrap();
    let state = harness
        .model_state(|state| matches!(state, ModelState::Ready { .. }))
        .await;
    assert!(matches!(state, ModelState::Ready { info, .. }
            if (info.threads, info.context, info.gpu_layers, info.kv, info.draft)
                == (3, 1024, 7, KvType::Q8_0, Some(DraftKind::FirstLayers))));
    let foolish: [fn(&mut Settings); 4] = [
        |settings| settings.threads = Some(0),
        |settings| settings.text_size = 0,
        |settings| drop(settings.shortcuts.insert("search".into(), "x".repeat(101))),
        |settings| {
            settings
                .shortcuts
                .extend((0..500).map(|n| (n.to_string(), String::new())));
        },
    ];
    for change in foolish {
        let mut settings = settings.clone();
        change(&mut settings);
        assert_eq!(
            harness.set_settings(settings).await.unwrap_err().code,
            ProblemCode::BadRequest
        );
    }
    let harness = harness.again().await;
    assert_eq!(harness.snapshot().await.unwrap().settings, settings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_read_under_their_old_keys() {
    let harness = Harness::new(&[]);
    let old = |t: &rusqlite::Transaction<'_>| {
        t.execute("DELETE FROM setting WHERE key = 'promptCacheLimit'", [])?;
        hearth_app::store::setting::set(t, "drafts", r#"{"tiny":{"type":"own"}}"#)?;
        hearth_app::store::setting::set(t, "keptBytes", "7000000000")
    };
    harness.store().write(old).unwrap();
    let harness = harness.again().await;
    let settings = harness.snapshot().await.unwrap().settings;
    assert_eq!(settings.prompt_cache_limit, 7_000_000_000);
    assert_eq!(settings.drafts["tiny"], DraftSetting::FirstLayers);
    let new = Settings {
        prompt_cache_limit: 5_000_000_000,
        ..settings
    };
    harness.set_settings(new.clone()).await.unwrap();
    let harness = harness.again().await;
    assert_eq!(harness.snapshot().await.unwrap().settings, new, "the new key wins");
}

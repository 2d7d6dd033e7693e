//! Stores of every released version, with their conversations, runs and adapters.

use crate::{
    harness::{Harness, fixtures, runs::steps},
    support,
};
use hearth_app::wire::{GpuLayers, KvType, MessageState, RunState, Schedule, SearchFilter, Settings, Theme};
use std::fs;

/// The contents of each version's store are described in `tests/fixtures/v0/make.py`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_every_released_version_are_read() {
    for version in 1..=14 {
        let folder = tempfile::tempdir().unwrap();
        support::model(&folder.path().join("bundled"), "tiny.gguf");
        let data = folder.path().join("data");
        fs::create_dir_all(&data).unwrap();
        let fixture = fixtures().join(format!("v0/store/{version}.db"));
        fs::copy(fixture, data.join("hearth.db")).unwrap();
        let harness = Harness::open(folder);

        let snapshot = harness.snapshot().await.unwrap();
        let titles: Vec<_> = snapshot
            .conversations
            .iter()
            .map(|conversation| conversation.title.as_str())
            .collect();
        assert_eq!(titles, ["Of cormorants"], "version {version}");
        let conversation = harness.open_conversation(1).await.unwrap();
        assert_eq!(conversation.system_prompt.as_deref(), Some("Be brief."));
        assert_eq!(conversation.adapters.len(), usize::from(version >= 11));
        let messages: Vec<_> = conversation
            .messages
            .iter()
            .map(|message| (message.text(), message.state.clone()))
            .collect();
        match version {
            1 => assert!(messages.is_empty()),
            _ => assert_eq!(
                messages,
                [
                    ("What is a cormorant?".to_owned(), MessageState::Complete),
                    ("A seabird.".to_owned(), MessageState::Complete),
                    ("A bird that".to_owned(), MessageState::Stopped),
                ]
            ),
        }
        if version >= 2 {
            let answer = &conversation.messages[1];
            assert_eq!((conversation.leaf, answer.parent), (Some(2), Some(1)));
            assert_eq!(
                answer.stats.as_ref().map(|stats| (stats.tokens, stats.draft)),
                Some((3, None))
            );
            assert_eq!(
                answer.rating.is_some() && answer.adapters[0].scale == 0.5,
                version >= 12
            );
        }
        assert_eq!(
            harness
                .search("seabird".into(), SearchFilter::default())
                .await
                .unwrap()
                .len(),
            usize::from(version >= 2)
        );
        let set = Settings {
            theme: Theme::Dark,
            threads: Some(3),
            context: Some(4096),
            device: Some("gpu0".into()),
            build: Some("vulkan".into()),
            gpu_layers: GpuLayers::Count(7),
            kv: KvType::Q8_0,
            last_model: Some("tiny".into()),
            prompt_cache_limit: 1_000_000,
            ..Settings::default()
        };
        let expected = if version >= 4 { set } else { Settings::default() };
        assert_eq!(snapshot.settings, expected, "version {version}");
        let models = harness.store().read(|t| hearth_app::store::model::list(t)).unwrap();
        assert_eq!(models.len(), usize::from(version >= 5));
        let datasets = harness.datasets().await.unwrap();
        assert_eq!(
            datasets.iter().map(|dataset| dataset.examples).collect::<Vec<_>>(),
            vec![Some(12); usize::from(version >= 6)]
        );
        check_released_runs(&harness, version).await;
        let measured = harness
            .store()
            .read(|t| hearth_app::store::measurement::list(t, 9))
            .unwrap();
        // Version 14 dropped and recreated the table of version 13: measurements can be repeated.
        assert_eq!(measured.len(), usize::from(version >= 14));
    }
}

/// Checks the runs and adapters of a version's store.
async fn check_released_runs(harness: &Harness, version: u32) {
    let runs = harness.runs().await.unwrap();
    assert_eq!(runs.len(), if version >= 7 { 2 } else { 0 }, "version {version}");
    if let [cut_off, done] = &runs[..] {
        assert!(matches!(cut_off.state, RunState::Interrupted { .. }) && cut_off.checkpoint == Some(2));
        assert_eq!(
            (&done.state, done.adapter),
            (&RunState::Finished, (version >= 10).then_some(1))
        );
        assert_eq!((done.settings.rank, done.settings.schedule), (8, Schedule::Linear));
        assert_eq!(
            (done.settings.seed, &done.settings.targets[..]),
            (7, &["q_proj".to_owned()][..])
        );
        assert_eq!(done.outcome.as_ref().and_then(|outcome| outcome.eval_loss), Some(1.25));
        let curves = harness.run_points(1).await.unwrap();
        assert_eq!(steps(&curves), if version >= 8 { vec![1, 2, 3] } else { vec![] });
        assert_eq!(curves.evaluations.len(), usize::from(version >= 9));
    }
    let adapters = harness.adapters().await.unwrap();
    let names: Vec<_> = adapters.iter().map(|adapter| (&*adapter.name, adapter.run)).collect();
    let both = [("Theirs", None), ("Tales on tiny", Some(1))];
    assert_eq!(names, both[..if version >= 10 { 2 } else { 0 }]);
}

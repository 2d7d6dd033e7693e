//! The queue of downloads, and remote models, over a local hub.

use crate::harness::{self, Harness};
use crate::support::{
    self,
    hub::{FakeHub, Reply, repository},
};
use hearth_app::{
    store::now,
    wire::{CatalogModel, Download, DownloadState, Event, HubKind, HubSort, ProblemCode, Settings, Source, Verdict},
};
use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

/// Bytes of a model that takes several messages of a connection.
fn model() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = support::write(folder.path(), "a.gguf", &support::metadata(), "weight", 500_000);
    fs::read(path).expect("a file")
}

fn hub(replies: &'static [Reply]) -> FakeHub {
    FakeHub::with(repository("o/Tiny-GGUF", &[("Tiny-Q4_K_M.gguf", model())]), replies)
}

async fn use_hub(harness: &Harness, hub: &FakeHub, offline: bool) {
    use_endpoint(harness, &hub.hub.endpoint, offline).await;
}

async fn use_endpoint(harness: &Harness, endpoint: &str, offline: bool) {
    let settings = Settings {
        hub_endpoint: Some(endpoint.to_owned()),
        offline,
        ..Settings::default()
    };
    harness.set_settings(settings).await.expect("a mirror on this machine");
}

/// Waits until the state of a download is expected. Returns the download.
async fn until(harness: &mut Harness, is_expected: impl Fn(&DownloadState) -> bool) -> Download {
    harness
        .next(|event| match event {
            Event::DownloadsChanged { downloads } => {
                downloads.into_iter().find(|download| is_expected(&download.state))
            }
            _ => None,
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downloaded_model_joins_the_library() {
    let (mut harness, hub) = (Harness::tiny(), hub(&[Reply::Good]));
    use_hub(&harness, &hub, false).await;
    let started = harness
        .start_download("https://huggingface.co/o/Tiny-GGUF".into())
        .await
        .unwrap();
    assert_eq!(started.source, "hf.co/o/Tiny-GGUF");
    let done = until(&mut harness, |state| matches!(state, DownloadState::Done { .. })).await;
    assert_eq!((done.name.as_str(), Some(done.done)), ("Tiny Q4_K_M", done.total));
    let DownloadState::Done { model: Some(id), .. } = done.state else {
        panic!("{:?}", done.state)
    };
    let models = harness.snapshot().await.unwrap().models;
    let model = models.iter().find(|model| model.id == id).expect("it is listed");
    assert_eq!((model.source, model.is_deletable), (Source::Catalog, true));
    assert_eq!(model.license.as_deref(), Some("mit"));
    assert_eq!(model.downloaded_from.as_deref(), Some("hf.co/o/Tiny-GGUF:Q4_K_M"));

    let actual = harness.hub_repository("o/Tiny-GGUF".into()).await.unwrap();
    assert_eq!(actual.variants.len(), 1);
    assert_eq!(actual.variants[0].model.as_ref(), Some(&id));

    harness.remove_model(id.clone()).await.unwrap();
    assert!(
        harness
            .snapshot()
            .await
            .unwrap()
            .models
            .iter()
            .all(|model| model.id != id)
    );
    let downloads = harness.downloads().await.unwrap();
    assert_eq!(
        downloads[0].state,
        DownloadState::Done {
            model: None,
            adapter: None
        }
    );
    // It can be had again.
    harness.start_download("hf.co/o/Tiny-GGUF".into()).await.unwrap();
    until(&mut harness, |state| {
        matches!(state, DownloadState::Done { model: Some(_), .. })
    })
    .await;
    harness.remove_download(done.id).await.unwrap();
    assert_eq!(harness.downloads().await.unwrap(), []);
    assert!(
        harness
            .snapshot()
            .await
            .unwrap()
            .models
            .iter()
            .any(|model| model.id == id)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_download_says_why_and_is_resumed_after_a_restart() {
    let mut harness = Harness::tiny();
    let broken = hub(&[Reply::Good, Reply::Broken(1000), Reply::Status(404)]);
    use_hub(&harness, &broken, false).await;
    let id = harness.start_download("o/Tiny-GGUF".into()).await.unwrap().id;
    let failed = until(&mut harness, |state| matches!(state, DownloadState::Failed { .. })).await;
    assert_eq!((failed.id, failed.done), (id, 1000));
    let DownloadState::Failed { problem } = failed.state else {
        unreachable!("it was waited for")
    };
    assert_eq!(problem.code, ProblemCode::Download);

    let mut harness = harness.again().await;
    let listed = harness.downloads().await.unwrap();
    assert!(matches!(listed[0].state, DownloadState::Failed { .. }) && listed[0].done == 1000);
    let good = hub(&[Reply::Good]);
    use_hub(&harness, &good, false).await;
    harness.resume_download(id).await.unwrap();
    until(&mut harness, |state| {
        matches!(state, DownloadState::Done { model: Some(_), .. })
    })
    .await;
    assert!(
        good.requests()
            .last()
            .unwrap()
            .to_lowercase()
            .contains("range: bytes=1000-")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_without_a_network_says_why_and_when_it_is_tried_again() {
    let mut harness = Harness::tiny();
    use_endpoint(&harness, &support::hub::unreachable().endpoint, false).await;
    let before = now();
    let id = harness.start_download("o/Tiny-GGUF".into()).await.unwrap().id;
    let is_waiting = |state: &DownloadState| matches!(state, DownloadState::Waiting { .. });
    let waiting = until(&mut harness, is_waiting).await;
    let DownloadState::Waiting { problem, retry_at } = &waiting.state else {
        unreachable!("it was waited for")
    };
    assert_eq!(problem.code, ProblemCode::Download);
    assert!(problem.to_string().contains("check the connection"), "{problem}");
    assert!((before..before + 60_000).contains(retry_at), "{retry_at}");
    assert_eq!(waiting.bytes_per_second, 0.0);

    // A pause ends the wait, and no attempt follows.
    harness.pause_download(id).await.unwrap();
    until(&mut harness, |state| *state == DownloadState::Paused).await;
    harness.resume_download(id).await.unwrap();
    until(&mut harness, is_waiting).await;

    // So does a restart, which tries at once.
    let mut harness = harness.again().await;
    until(&mut harness, is_waiting).await;

    let good = hub(&[Reply::Good]);
    use_hub(&harness, &good, false).await;
    let is_done = |state: &DownloadState| matches!(state, DownloadState::Done { model: Some(_), .. });
    let begin = Instant::now();
    harness.resume_download(id).await.unwrap();
    until(&mut harness, is_done).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "not when the delay is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_is_tried_again_waits_for_two_others() {
    let mut harness = Harness::tiny();
    use_endpoint(&harness, &support::hub::unreachable().endpoint, false).await;
    let first = harness.start_download("o/Tiny-GGUF".into()).await.unwrap().id;
    until(&mut harness, |state| matches!(state, DownloadState::Waiting { .. })).await;

    let files = ["o/A-GGUF", "o/B-GGUF", "o/Tiny-GGUF"].map(|id| repository(id, &[("Tiny-Q4_K_M.gguf", model())]));
    // More bytes than a description has, and fewer than a file.
    let hub = FakeHub::with(files.into_iter().flatten().collect(), &[Reply::Stalled(1000)]);
    use_hub(&harness, &hub, false).await;
    let mut others = Vec::new();
    for id in ["o/A-GGUF", "o/B-GGUF"] {
        others.push(harness.start_download(id.into()).await.unwrap().id);
    }
    harness.resume_download(first).await.unwrap();
    let states = |downloads: Vec<Download>| -> HashMap<i64, DownloadState> {
        downloads
            .into_iter()
            .map(|download| (download.id, download.state))
            .collect()
    };
    // Longer than a waiting download takes to see that it is due.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let actual = states(harness.downloads().await.unwrap());
    assert_eq!(actual[&first], DownloadState::Queued);
    assert!(
        others.iter().all(|id| actual[id] == DownloadState::Running),
        "{actual:?}"
    );

    harness.pause_download(others[0]).await.unwrap();
    harness
        .next(|event| match event {
            Event::DownloadsChanged { downloads } => {
                (states(downloads)[&first] == DownloadState::Running).then_some(())
            }
            _ => None,
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_download_leaves_no_bytes() {
    let mut harness = Harness::tiny();
    let broken = hub(&[Reply::Good, Reply::Broken(1000), Reply::Status(404)]);
    use_hub(&harness, &broken, false).await;
    let id = harness.start_download("o/Tiny-GGUF".into()).await.unwrap().id;
    until(&mut harness, |state| matches!(state, DownloadState::Failed { .. })).await;
    let partial = harness
        .folder
        .path()
        .join("data/models/o/Tiny-GGUF/Tiny-Q4_K_M.gguf.partial");
    assert!(partial.exists());
    harness.remove_download(id).await.unwrap();
    assert!(!partial.exists());
    assert_eq!(harness.downloads().await.unwrap(), []);
    assert!(
        harness.pause_download(id).await.is_ok() && harness.remove_download(id).await.is_ok(),
        "it is gone"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_is_removed_and_added_again_at_once_completes() {
    // The second time also by another name for the same file.
    for again in ["o/Tiny-GGUF", "o/Tiny-GGUF:Q4_K_M"] {
        let mut harness = Harness::tiny();
        let hub = hub(&[Reply::Good, Reply::Stalled(300_000), Reply::Good]);
        use_hub(&harness, &hub, false).await;
        let id = harness.start_download("o/Tiny-GGUF".into()).await.unwrap().id;
        harness
            .next(|event| matches!(event, Event::DownloadProgress { done, .. } if done > 0).then_some(()))
            .await;
        harness.remove_download(id).await.unwrap();
        let added = harness.start_download(again.into()).await.unwrap();
        assert_ne!(added.id, id);
        let ended = until(&mut harness, |state| {
            matches!(state, DownloadState::Done { .. } | DownloadState::Failed { .. })
        })
        .await;
        assert!(
            ended.id == added.id && matches!(ended.state, DownloadState::Done { model: Some(_), .. }),
            "{ended:?}"
        );
        // Once for each, and once more after the first has stopped.
        let requests = hub.requests();
        let asked = requests
            .iter()
            .filter(|request| request.contains("/api/models/"))
            .count();
        assert!(asked <= 3, "{asked}: {requests:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offline_nothing_is_requested() {
    let (mut harness, hub) = (Harness::tiny(), hub(&[Reply::Good]));
    use_hub(&harness, &hub, true).await;
    let problem = harness.start_download("o/Tiny-GGUF".into()).await.unwrap_err();
    assert!(problem.to_string().contains("Offline"), "{problem}");
    assert!(
        harness
            .search_hub("tiny".into(), HubSort::Trending, HubKind::Models)
            .await
            .is_err()
    );
    assert!(harness.inspect_remote("o/Tiny-GGUF".into()).await.is_err());
    assert_eq!(hub.requests(), [] as [&str; 0]);
    assert_eq!(harness.downloads().await.unwrap(), []);
    // A queued download waits until the network is switched on.
    use_hub(&harness, &hub, false).await;
    harness.start_download("o/Tiny-GGUF".into()).await.unwrap();
    until(&mut harness, |state| matches!(state, DownloadState::Done { .. })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_model_is_refused() {
    let harness = Harness::tiny();
    for text in [
        "",
        "nothing",
        "file:///etc/passwd",
        "http://example.org/a.gguf",
        "../../x",
    ] {
        let problem = harness.start_download(text.into()).await.unwrap_err();
        assert!(problem.to_string().ends_with('.'), "{text}: {problem}");
    }
    let mirror = |text: &str| Settings {
        hub_endpoint: Some(text.to_owned()),
        ..Settings::default()
    };
    for bad in ["http://example.org", "example.org", "", "https://a b"] {
        assert!(harness.set_settings(mirror(bad)).await.is_err(), "{bad}");
    }
    assert_eq!(harness.downloads().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_of_other_programs_are_listed_and_never_deleted() {
    let harness = Harness::tiny();
    let folder = tempfile::tempdir().expect("a folder");
    let path = support::model(&folder.path().join("owner/repo"), "theirs.gguf");
    support::model(&folder.path().join("owner/repo"), "mmproj-theirs.gguf");
    fs::write(folder.path().join("broken.gguf"), "no model").unwrap();
    let with = Settings {
        model_folders: vec![folder.path().to_string_lossy().into_owned()],
        ..Settings::default()
    };
    harness.set_settings(with).await.unwrap();
    let models = harness.snapshot().await.unwrap().models;
    let theirs: Vec<_> = models.iter().filter(|model| model.source == Source::Folder).collect();
    assert_eq!(theirs.len(), 1, "{theirs:?}");
    assert!(!theirs[0].is_deletable);
    let problem = harness.remove_model(theirs[0].id.clone()).await.unwrap_err();
    assert!(problem.to_string().contains("another program"), "{problem}");
    assert!(path.exists());
    fs::remove_file(path).unwrap();
    let models = harness.rescan_models().await.unwrap();
    assert!(
        models.iter().all(|model| model.source != Source::Folder),
        "the drive is gone"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_catalog_says_what_each_model_would_be_like_here() {
    let harness = Harness::new(&["SmolLM2-135M-Instruct.Q4_1.gguf"]);
    let catalog = harness.catalog().await.unwrap();
    assert!(catalog.len() > 6);
    assert!(
        catalog
            .iter()
            .any(|model| model.model.as_deref() == Some("smollm2-135m-instruct"))
    );
    // The recommended ones are before the bundled one. The machine has 1 GB.
    let bundled = catalog.iter().position(|model| model.model.is_some()).unwrap();
    assert!(bundled >= 1);
    assert!(
        catalog[..bundled]
            .iter()
            .all(|model| model.expectation.verdict == Verdict::Fits)
    );
    for model in &catalog {
        let speed = model.expectation.tokens_per_second;
        assert_eq!(
            speed.is_none(),
            model.expectation.verdict == Verdict::WontFit,
            "{}",
            model.id
        );
        assert!(
            !model.quantization.is_empty() && !model.license.is_empty(),
            "{}",
            model.id
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_was_busy_is_measured_again_once_it_is_idle() {
    let folder = tempfile::tempdir().expect("a folder");
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let mut options = harness::options(&folder);
    options.worker.arguments = vec!["busy".into()];
    let mut harness = Harness::with(folder, options);
    let busy = harness.catalog().await.unwrap();
    let is_marked = |model: &CatalogModel| model.expectation.is_measured && model.expectation.was_busy;
    assert!(busy.iter().all(is_marked), "{busy:?}");
    harness
        .next(|event| matches!(event, Event::DevicesMeasured).then_some(()))
        .await;
    let idle = harness.catalog().await.unwrap();
    assert!(!idle.iter().any(is_marked), "{idle:?}");
    // The order of the models depends on the speed.
    let speed = |models: &[CatalogModel]| {
        let model = models.iter().find(|model| model.id == busy[0].id);
        model.and_then(|model| model.expectation.tokens_per_second)
    };
    assert!(speed(&idle) > speed(&busy), "{idle:?} {busy:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_is_not_here_is_planned_from_its_header() {
    let (harness, hub) = (Harness::tiny(), hub(&[Reply::Good]));
    use_hub(&harness, &hub, false).await;
    let actual = harness.inspect_remote("hf.co/o/Tiny-GGUF".into()).await.unwrap();
    assert_eq!(
        (actual.name.as_str(), actual.architecture.as_str()),
        ("A tiny model", "llama")
    );
    assert_eq!((actual.parameters, actual.context_trained), (500_000, 2048));
    assert_eq!(actual.file_size, model().len() as u64);
    let left = fs::read_dir(harness.folder.path().join("data/models")).unwrap().count();
    assert_eq!(left, 0, "the header is removed");
}

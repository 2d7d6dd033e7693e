//! Newer versions of downloaded models, which are looked for by a click.

use crate::harness::Harness;
use crate::support::{
    self,
    hub::{FakeHub, Reply, repository},
};
use hearth_app::{
    library::{Hub, Library, Progress, Reader, Untold, Update},
    wire::{DownloadState, Event, Settings, UpdateState},
};
use std::{collections::HashMap, fs, ops::ControlFlow, path::Path};

const COMMIT: &str = "0123456789abcdef";
const NEXT: &str = "fedcba9876543210";

fn proceed(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A model whose last byte is this one.
fn model(last: u8) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = support::model(folder.path(), "a.gguf");
    let mut bytes = fs::read(path).expect("a file");
    *bytes.last_mut().expect("bytes") = last;
    bytes
}

/// The repository `o/n` with one file, at a commit that begins like this.
fn at(commit: &str, bytes: &[u8]) -> HashMap<String, Vec<u8>> {
    let moved = repository("o/n", &[("n-Q8_0.gguf", bytes.to_vec())]).into_iter();
    let moved = moved.map(|(path, body)| {
        let text = String::from_utf8(body.clone()).map(|text| text.replace(COMMIT, commit));
        (path.replace(COMMIT, commit), text.map_or(body, String::into_bytes))
    });
    moved.collect()
}

fn library_at(folder: &Path) -> Library {
    Library::new(Vec::new(), folder, Reader::InProcess, None)
}

fn update(library: &Library, hub: &Hub) -> Update {
    let models = library.list(&[]);
    library.update(hub, &models[0], "hf.co/o/n:Q8_0").expect("it is asked")
}

#[test]
fn a_server_says_whether_a_model_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = library_at(folder.path());
    let (old, new) = (model(1), model(2));
    let hub = FakeHub::with(at(COMMIT, &old), &[Reply::Good]);
    let path = library.pull(&hub.hub, "o/n", &mut proceed).expect("a model");
    for (bodies, expected) in [
        (at(COMMIT, &old), Update::Current),
        (at(NEXT, &old), Update::Current),
        (at(NEXT, &new), Update::Available),
        (at(NEXT, &new[..new.len() - 1]), Update::Available),
    ] {
        let hub = FakeHub::with(bodies, &[Reply::Good]);
        assert_eq!(update(&library, &hub.hub), expected);
        assert_eq!(hub.requests().len(), 1, "nothing is downloaded");
    }
    // As an earlier Hearth recorded it.
    let record = path.with_file_name("n-Q8_0.gguf.origin.json");
    let mut saved: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert!(
        saved["files"][0]["sha256"]
            .as_str()
            .is_some_and(|hash| hash.len() == 64)
    );
    saved.as_object_mut().unwrap().remove("files");
    fs::write(&record, saved.to_string()).unwrap();
    for (bodies, expected) in [
        (at(COMMIT, &old), Update::Current),
        (at(NEXT, &old), Update::Unknown(Untold::NoHashes)),
        (at(NEXT, &new[..new.len() - 1]), Update::Available),
    ] {
        let hub = FakeHub::with(bodies, &[Reply::Good]);
        assert_eq!(update(&library, &hub.hub), expected);
    }
}

#[test]
fn a_file_at_an_address_is_compared_by_its_version() {
    const A: &str = "ETag: \"a\"";
    let cases: [(&'static [Reply], Update); 3] = [
        (&[Reply::Versioned(A, usize::MAX)], Update::Current),
        (
            &[
                Reply::Versioned(A, usize::MAX),
                Reply::Versioned(A, usize::MAX),
                Reply::Versioned("ETag: \"b\"", usize::MAX),
            ],
            Update::Available,
        ),
        (&[Reply::Good], Update::Unknown(Untold::NoVersion)),
    ];
    for (replies, expected) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let library = library_at(folder.path());
        let hub = FakeHub::with(HashMap::from([("/own.gguf".to_owned(), model(1))]), replies);
        let url = hub.hub.endpoint.replace("127.0.0.1", "localhost") + "/own.gguf";
        library.pull(&hub.hub, &url, &mut proceed).expect("a model");
        let models = library.list(&[]);
        let actual = library.update(&hub.hub, &models[0], &url).expect("it is asked");
        assert_eq!(actual, expected, "{replies:?}");
        // Its address without the query is the address of another file here.
        let other = library
            .update(&hub.hub, &models[0], &format!("{url}?key=1"))
            .expect("it is asked");
        assert_eq!(other, Update::Unknown(Untold::NoQuery));
    }
}

/// Waits until the download of a source is done.
async fn done(harness: &mut Harness, source: &str) {
    harness
        .next(|event| match event {
            Event::DownloadsChanged { downloads } => downloads
                .iter()
                .any(|download| download.source == source && matches!(download.state, DownloadState::Done { .. }))
                .then_some(()),
            _ => None,
        })
        .await;
}

async fn use_hub(harness: &Harness, hub: &FakeHub) {
    let settings = Settings {
        hub_endpoint: Some(hub.hub.endpoint.clone()),
        ..Settings::default()
    };
    harness.set_settings(settings).await.expect("settings");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_is_asked_once_and_the_others_too() {
    let mut harness = Harness::tiny();
    let mut bodies = at(COMMIT, &model(1));
    bodies.extend(repository("o/m", &[("m-Q8_0.gguf", model(3))]));
    let hub = FakeHub::with(bodies, &[Reply::Good]);
    use_hub(&harness, &hub).await;
    let other = FakeHub::with(
        HashMap::from([("/own.gguf".to_owned(), model(4))]),
        &[Reply::Versioned("ETag: \"a\"", usize::MAX)],
    );
    let url = other.hub.endpoint.replace("127.0.0.1", "localhost") + "/own.gguf";
    for source in ["o/n", "o/m", &url] {
        let source = harness.start_download(source.into()).await.unwrap().source;
        done(&mut harness, &source).await;
    }
    let failing = FakeHub::with(
        HashMap::from([
            ("/api/models/o/n/revision/main".to_owned(), Vec::new()),
            ("/api/models/o/m/revision/main".to_owned(), Vec::new()),
        ]),
        &[Reply::Status(503)],
    );
    use_hub(&harness, &failing).await;
    let actual = harness.check_updates().await.expect("an answer for each");
    let unknown = actual.iter().filter_map(|update| match &update.state {
        UpdateState::Unknown { problem } => Some(problem.to_string()),
        _ => None,
    });
    let unknown: Vec<String> = unknown.collect();
    assert!(
        unknown.len() == 2 && unknown.iter().all(|why| why.contains("503")),
        "{actual:?}"
    );
    let current = actual.iter().find(|update| update.state == UpdateState::Current);
    assert_eq!(current.map(|update| update.source.as_str()), Some(url.as_str()));
    let requests = failing.requests();
    let asks = |name: &str| requests.iter().any(|request| request.contains(name));
    assert!(asks("o/n") != asks("o/m"), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_is_being_downloaded_is_not_deleted() {
    let mut harness = Harness::tiny();
    let hub = FakeHub::with(at(COMMIT, &model(1)), &[Reply::Good]);
    use_hub(&harness, &hub).await;
    harness.start_download("o/n".into()).await.unwrap();
    done(&mut harness, "hf.co/o/n").await;
    let id = harness.check_updates().await.unwrap()[0].model.clone();

    let stalled = FakeHub::with(at(NEXT, &model(2)), &[Reply::Good, Reply::Stalled(100)]);
    use_hub(&harness, &stalled).await;
    let download = harness.start_download("o/n".into()).await.unwrap().id;
    harness
        .next(|event| match event {
            Event::DownloadProgress { done, .. } => (done == 100).then_some(()),
            _ => None,
        })
        .await;
    let problem = harness.remove_model(id.clone()).await.unwrap_err();
    assert!(problem.to_string().contains("is being downloaded"), "{problem}");
    harness.remove_download(download).await.unwrap();
    // It ends on its own time.
    while harness.remove_model(id.clone()).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let models = harness.snapshot().await.unwrap().models;
    assert!(models.iter().all(|model| model.id != id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_are_looked_for_by_a_click_and_downloaded_by_another() {
    let mut harness = Harness::tiny();
    let (old, new) = (model(1), model(2));
    let first = FakeHub::with(at(COMMIT, &old), &[Reply::Good]);
    use_hub(&harness, &first).await;
    harness.start_download("o/n".into()).await.unwrap();
    done(&mut harness, "hf.co/o/n").await;

    let hub = FakeHub::with(at(NEXT, &new), &[Reply::Good]);
    use_hub(&harness, &hub).await;
    let mut harness = harness.again().await;
    harness.rescan_models().await.unwrap();
    assert_eq!(hub.requests(), [] as [&str; 0], "a start asks nothing");
    let actual = harness.check_updates().await.unwrap();
    assert_eq!(actual.len(), 1);
    assert_eq!(actual[0].state, UpdateState::Available);
    assert_eq!(hub.requests().len(), 1);

    harness.start_download(actual[0].source.clone()).await.unwrap();
    done(&mut harness, &actual[0].source).await;
    let models = harness.snapshot().await.unwrap().models;
    let model = models
        .iter()
        .find(|model| model.id == actual[0].model)
        .expect("it is the same model");
    assert!(fs::read(&model.path).unwrap() == new);
    assert_eq!(harness.check_updates().await.unwrap()[0].state, UpdateState::Current);
}

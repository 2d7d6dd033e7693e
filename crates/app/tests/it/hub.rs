//! The hub: repositories, search, headers by ranges, and what a hub may do wrong.

use crate::support::{
    self,
    hub::{FakeHub, Reply, repository},
};
use hearth_app::{
    library::{
        self, Hub, Library, LibraryError, Progress, Reader,
        hub::{HeaderFile, Reference, Remote},
    },
    wire::{HubKind, HubSort},
};
use std::{collections::HashMap, fs, ops::ControlFlow, path::Path};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The bytes of a model with this many parameters.
fn model(parameters: usize) -> Vec<u8> {
    let folder = folder();
    let path = support::write(folder.path(), "a.gguf", &support::metadata(), "weight", parameters);
    fs::read(path).expect("a file")
}

fn remote(hub: &Hub, source: &str) -> Result<Remote, LibraryError> {
    library::remote(hub, &Reference::parse(source, hub)?)
}

fn library_at(folder: &Path) -> Library {
    Library::new(Vec::new(), folder, Reader::InProcess, None)
}

fn proceed(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_model_of_a_repository_is_pulled_listed_and_deleted() {
    let folder = folder();
    let library = library_at(folder.path());
    let files = [("Tiny-Q8_0.gguf", model(64)), ("sub/Tiny-Q4_K_M.gguf", model(32))];
    let hub = FakeHub::with(repository("o/Tiny-GGUF", &files), &[Reply::Good]);
    let path = library
        .pull(&hub.hub, "hf.co/o/Tiny-GGUF", &mut proceed)
        .expect("a model");
    assert_eq!(path, library.folder().join("o/Tiny-GGUF/sub/Tiny-Q4_K_M.gguf"));
    assert!(fs::read(&path).unwrap() == files[1].1);
    let eight = library
        .pull(&hub.hub, "o/Tiny-GGUF:q8_0", &mut proceed)
        .expect("a model");

    let models = library.list(&[]);
    assert_eq!(models.len(), 2);
    let actual = models.iter().find(|model| model.path == path).expect("it is listed");
    assert_eq!(actual.license().as_deref(), Some("mit"));
    assert_eq!(
        actual.origin.as_ref().map(|origin| origin.source.as_str()),
        Some("hf.co/o/Tiny-GGUF:Q4_K_M")
    );
    assert!(actual.is_deletable());
    library.delete(actual).expect("it is deleted");
    assert!(!path.exists() && !path.parent().unwrap().exists() && eight.exists());
    // What is complete is not requested again, but for the description.
    let before = hub.requests().len();
    library
        .pull(&hub.hub, "hf.co/o/Tiny-GGUF:Q8_0", &mut proceed)
        .expect("it is there");
    assert_eq!(hub.requests().len(), before + 1);
}

#[test]
fn a_split_model_resumes_where_it_ended() {
    let folder = folder();
    let [first, second] = support::split_model(folder.path(), "big").map(|path| fs::read(path).unwrap());
    let files = [
        ("big-00001-of-00002.gguf", first.clone()),
        ("big-00002-of-00002.gguf", second),
    ];
    let bodies = repository("o/big", &files);
    let library = library_at(&folder.path().join("data"));
    let broken = FakeHub::with(
        bodies.clone(),
        &[Reply::Good, Reply::Good, Reply::Broken(10), Reply::Status(403)],
    );
    let error = library.pull(&broken.hub, "o/big", &mut proceed).expect_err("it breaks");
    assert!(error.to_string().contains("login"), "{error}");
    assert!(library.list(&[])[0].metadata.is_err(), "its second part is missing");
    let good = FakeHub::with(bodies, &[Reply::Good]);
    library.pull(&good.hub, "o/big", &mut proceed).expect("a model");
    let last = good.requests().last().unwrap().to_lowercase();
    assert!(last.contains("range: bytes=10-") && last.contains("00002-of"), "{last}");
    let models = library.list(&[]);
    assert!(models.len() == 1 && models[0].metadata.is_ok());
}

#[test]
fn a_model_of_ollama_and_one_at_an_address_are_pulled() {
    use sha2::Digest;
    let (folder, bytes) = (folder(), model(8));
    let library = library_at(folder.path());
    let hash = hearth_formats::hex(sha2::Sha256::digest(&bytes));
    let manifest = format!(
        r#"{{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {{"mediaType": "application/vnd.docker.container.image.v1+json", "digest": "sha256:00", "size": 5}},
        "layers": [{{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:{hash}", "size": {}}},
        {{"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:11", "size": 7}}]}}"#,
        bytes.len()
    );
    let hub = FakeHub::with(
        HashMap::from([
            ("/v2/library/tiny/manifests/1b".to_owned(), manifest.into_bytes()),
            (format!("/v2/library/tiny/blobs/sha256:{hash}"), bytes.clone()),
            ("/files/own.gguf".to_owned(), bytes.clone()),
        ]),
        &[Reply::Good],
    );
    let path = library
        .pull(&hub.hub, "ollama://tiny:1b", &mut proceed)
        .expect("a model");
    assert_eq!(path, library.folder().join("ollama.com/library/tiny/1b/tiny-1b.gguf"));
    let url = hub.hub.endpoint.replace("127.0.0.1", "localhost") + "/files/own.gguf?x=1";
    let path = library.pull(&hub.hub, &url, &mut proceed).expect("a model");
    assert!(fs::read(path).unwrap() == bytes);
    let error = library
        .pull(&hub.hub, "ollama://nothing", &mut proceed)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("nothing:latest: ") && error.contains("does not have it"),
        "{error}"
    );
}

#[test]
fn a_header_is_read_without_the_weights() {
    let (folder, bytes) = (folder(), model(2_000_000));
    let hub = FakeHub::with(
        repository("o/n", &[("n-Q8_0.gguf", bytes.clone())]),
        &[Reply::Good, Reply::Status(500), Reply::Broken(100), Reply::Good],
    );
    let remote = remote(&hub.hub, "o/n").expect("a model");
    let header = HeaderFile::fetch(&hub.hub, &remote, folder.path()).expect("a header");
    let path = header.path().to_owned();
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes.len() as u64);
    let library = library_at(folder.path());
    let metadata = library.by_path(&path).metadata.expect("a model");
    assert_eq!((metadata.parameters, metadata.context_trained), (2_000_000, 2048));
    drop(header);
    assert!(!path.exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    let ranged = hub.requests();
    assert!(
        ranged[1..]
            .iter()
            .all(|request| request.to_lowercase().contains("range: bytes=")),
        "{ranged:?}"
    );
}

#[test]
fn what_is_no_model_has_no_header() {
    let folder = folder();
    for (file, expected) in [
        (b"<!doctype html>".to_vec(), "a web page came instead"),
        (b"no model".to_vec(), "not a GGUF file"),
        (b"GGUF\x03\0\0\0".to_vec(), "longer than the file"),
    ] {
        let hub = FakeHub::with(repository("o/n", &[("n.gguf", file)]), &[Reply::Good]);
        let remote = remote(&hub.hub, "o/n").expect("a file");
        let error = HeaderFile::fetch(&hub.hub, &remote, folder.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_search_is_read_and_what_is_malformed_is_left_out() {
    let rows = br#"[{"_id": "1", "id": "o/a-GGUF", "downloads": 12, "likes": 3, "gated": false,
        "lastModified": "2026-01-02T03:04:05.000Z", "gguf": {"total": 5, "architecture": "llama"}},
        {"id": 7}, {"id": "no-owner"}, {"id": "o/b", "gguf": {"architecture": "mamba9"}, "gated": "auto"}]"#;
    let hub = FakeHub::with(
        HashMap::from([("/api/models".to_owned(), rows.to_vec())]),
        &[Reply::Good],
    );
    let actual = hub
        .hub
        .search("smol & co/", HubSort::Downloads, HubKind::Models)
        .expect("a list");
    let summary: Vec<_> = actual
        .iter()
        .map(|result| (result.id.as_str(), result.is_supported, result.is_gated))
        .collect();
    assert_eq!(summary, [("o/a-GGUF", Some(true), false), ("o/b", Some(false), true)]);
    let request = hub.requests().remove(0);
    assert!(
        request.contains("search=smol%20%26%20co%2F&filter=gguf&sort=downloads"),
        "{request}"
    );
    assert!(
        !request.to_lowercase().contains("secret"),
        "no token without encryption"
    );
}

#[test]
fn originals_and_their_conversions_are_found() {
    let rows = br#"[{"id": "meta/a", "safetensors": {"total": 7}}]"#;
    let hub = FakeHub::with(
        HashMap::from([("/api/models".to_owned(), rows.to_vec())]),
        &[Reply::Good],
    );
    let actual = hub.hub.search("a", HubSort::Likes, HubKind::Originals).expect("a list");
    assert_eq!((actual[0].parameters, actual[0].is_supported), (Some(7), None));
    hub.hub.conversions("meta/a").expect("a list");
    let requests = hub.requests();
    for (request, expected) in requests.iter().zip([
        "search=a&filter=safetensors&pipeline_tag=text-generation&sort=likes",
        "filter=gguf&filter=base_model%3Aquantized%3Ameta%2Fa&sort=downloads",
    ]) {
        assert!(request.contains(expected), "{request}");
    }
}

#[test]
fn a_hub_that_misbehaves_is_reported_in_a_sentence() {
    let cases: [(&'static [Reply], &str, usize); 8] = [
        (&[Reply::Status(500)], "responded with 500", 3),
        (&[Reply::Status(429), Reply::Garbage], "expected form", 2),
        (&[Reply::Portal], "log in first", 1),
        (&[Reply::Circle], "in circles", 6),
        (&[Reply::Status(401)], "sent only to an address with https://", 1),
        (&[Reply::Status(404)], "check the name", 1),
        (&[Reply::Status(418)], "responded with 418", 1),
        (&[Reply::Redirect("ftp://127.0.0.1/")], "", 1),
    ];
    for (replies, expected, requests) in cases {
        let hub = FakeHub::with(repository("o/n", &[]), replies);
        let error = remote(&hub.hub, "o/n").unwrap_err().to_string();
        assert!(
            error.starts_with("o/n: ") && error.contains(expected),
            "{replies:?}: {error}"
        );
        assert!(hub.requests().len() >= requests, "{replies:?}");
    }
    let error = remote(&support::hub::unreachable(), "o/n").unwrap_err().to_string();
    assert!(error.starts_with("o/n: "), "{error}");
}

#[test]
fn files_of_one_name_at_two_addresses_are_two_files() {
    let (folder, one, two) = (folder(), model(8), model(8 + 8));
    let library = library_at(folder.path());
    let bodies = HashMap::from([
        ("/a/m.gguf".to_owned(), one.clone()),
        ("/b/m.gguf".to_owned(), two.clone()),
    ]);
    let hub = FakeHub::with(bodies, &[Reply::Good]);
    let other = hub.hub.endpoint.replace("127.0.0.1", "localhost");
    let pull = |name: &str| {
        library
            .pull(&hub.hub, &format!("{other}/{name}/m.gguf"), &mut proceed)
            .unwrap()
    };
    let (first, second) = (pull("a"), pull("b"));
    assert!(fs::read(first).unwrap() == one && fs::read(second).unwrap() == two);
}

#[test]
fn a_model_that_changed_on_the_hub_is_downloaded_again() {
    let folder = folder();
    let library = library_at(folder.path());
    let (old, mut new) = (model(64), model(64));
    *new.last_mut().unwrap() = 1;
    let pull = |bytes: &[u8], commit: &str| {
        let bodies = repository("o/n", &[("n.gguf", bytes.to_vec())]);
        // The same files at another commit.
        let moved = bodies.into_iter().map(|(path, body)| {
            let text = String::from_utf8(body.clone()).map(|text| text.replace("0123456789abcdef", commit));
            (
                path.replace("0123456789abcdef", commit),
                text.map_or(body, String::into_bytes),
            )
        });
        let hub = FakeHub::with(moved.collect(), &[Reply::Good]);
        let path = library.pull(&hub.hub, "o/n", &mut proceed).unwrap();
        (fs::read(path).unwrap(), hub.requests().len())
    };
    assert!(pull(&old, "0123456789abcdef") == (old.clone(), 2));
    assert!(
        pull(&old, "fedcba9876543210") == (old.clone(), 1),
        "its hash is the same"
    );
    assert!(pull(&new, "aaaaaaaaaaaaaaaa") == (new.clone(), 2));
}

#[test]
fn what_arrived_of_a_split_model_is_discarded_with_its_complete_parts() {
    let folder = folder();
    let parts = support::split_model(folder.path(), "big").map(|path| fs::read(path).unwrap());
    let [first, second] = parts;
    let files = [("big-00001-of-00002.gguf", first), ("big-00002-of-00002.gguf", second)];
    let downloads = folder.path().join("downloads");
    let hub = FakeHub::with(
        repository("o/big", &files),
        &[Reply::Good, Reply::Good, Reply::Broken(10), Reply::Status(404)],
    );
    let remote = remote(&hub.hub, "o/big").unwrap();
    library::download(&hub.hub, &remote, &downloads, &mut proceed).expect_err("it breaks");
    assert!(library::arrived(&remote, &downloads) > 10);
    library::discard(&remote, &downloads).unwrap();
    assert_eq!(library::arrived(&remote, &downloads), 0);
}

#[test]
fn another_file_with_a_name_of_the_catalog_is_not_that_model() {
    let folder = folder();
    let library = library_at(&folder.path().join("data"));
    let name = "Qwen3-0.6B-Q4_K_M.gguf";
    let path = support::model(&folder.path().join("data/models/someone"), name);
    let models = library.list(&[]);
    assert_eq!(models.len(), 1);
    assert!(
        models[0].entry.is_none() && !models[0].is_deletable(),
        "{:?}",
        models[0]
    );
    assert!(library.delete(&models[0]).is_err() && path.exists());
}

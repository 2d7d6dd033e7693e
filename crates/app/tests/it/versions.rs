//! Downloads from servers whose file changes, is incomplete, or is none; and files that were cut
//! there.

use crate::support::{
    self,
    hub::{FakeHub, Reply, repository},
};
use hearth_app::library::{
    self, Flaw, Kept, Library, LibraryError, Progress, Reader,
    hub::{Kind, Origin, Remote, RemoteFile, ServerInfo},
};
use hearth_protocol::sentence::sentence;
use std::{
    collections::HashMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const NAME: &str = "model.gguf";
/// Where the first try breaks.
const BROKEN: usize = 1000;
const WHOLE: usize = usize::MAX;

const A: &str = "ETag: \"a\"";
const B: &str = "ETag: \"b\"";
const WEAK: &str = "ETag: W/\"a\"";
const OLD: &str = "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT";
const NEW: &str = "Last-Modified: Thu, 22 Oct 2015 07:28:00 GMT";
/// It is as old as the response, so it may change again with the same time.
const JUST: &str = "Last-Modified: Sat, 28 Nov 2026 10:00:00 GMT";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn proceed(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn library_at(folder: &Path) -> Library {
    Library::new(Vec::new(), folder, Reader::InProcess, None)
}

/// A model of 4 kB whose weights begin with this byte.
fn model(weight: u8) -> Vec<u8> {
    let folder = folder();
    let path = support::write(folder.path(), "a.gguf", &support::metadata(), "weight", 1000);
    let mut bytes = fs::read(path).expect("a file");
    let start = bytes.len() - 4000;
    bytes[start..].fill(weight);
    bytes
}

/// A file without a published hash.
fn unhashed(hub: &FakeHub, size: usize) -> Remote {
    Remote {
        name: "A model".into(),
        files: vec![RemoteFile {
            name: NAME.into(),
            url: format!("{}/{NAME}", hub.hub.endpoint),
            path: NAME.into(),
            size: size as u64,
            sha256: None,
            parts: Vec::new(),
            server_info: ServerInfo::default(),
        }],
        origin: Origin {
            source: "test".into(),
            revision: Some("a commit".into()),
            license: None,
        },
        kind: Kind::default(),
    }
}

fn download(hub: &FakeHub, remote: &Remote, folder: &Path) -> Result<PathBuf, LibraryError> {
    library::download(&hub.hub, remote, folder, &mut proceed)
}

/// The value of a header in a request, or an empty text.
fn header(request: &str, name: &str) -> String {
    let mut headers = request.lines().filter_map(|line| line.split_once(": "));
    let actual = headers.find(|(header, _)| header.eq_ignore_ascii_case(name));
    actual.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// The address of a file of a hub, written as an address of another server.
fn address(hub: &FakeHub, path: &str) -> String {
    hub.hub.endpoint.replace("127.0.0.1", "localhost") + path
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().is_dir() {
                open.push(entry.path())
            } else {
                names.push(entry.file_name().to_string_lossy().into_owned())
            }
        }
    }
    names.sort();
    names
}

#[test]
fn a_resume_never_joins_two_versions() {
    // What the server says at first, then, whether its file changed, and the version that the rest
    // is requested of (empty: the whole file is requested).
    let same = |header: &'static str| (Reply::Versioned(header, BROKEN), Reply::Versioned(header, WHOLE));
    let cases: [((Reply, Reply), bool, &str); 9] = [
        (same(A), false, "\"a\""),
        (same(OLD), false, "Wed, 21 Oct 2015 07:28:00 GMT"),
        (same(WEAK), true, ""),
        (same(JUST), true, ""),
        ((Reply::Broken(BROKEN), Reply::Good), true, ""),
        ((Reply::Versioned(A, BROKEN), Reply::Versioned(B, WHOLE)), true, "\"a\""),
        (
            (Reply::Versioned(OLD, BROKEN), Reply::Versioned(NEW, WHOLE)),
            true,
            "Wed, 21 Oct 2015 07:28:00 GMT",
        ),
        // These ignore the version, and say or do not say which one they send.
        ((Reply::Versioned(A, BROKEN), Reply::Tagged("\"b\"")), true, "\"a\""),
        ((Reply::Versioned(A, BROKEN), Reply::Good), true, "\"a\""),
    ];
    for ((first, then), changes, version) in cases {
        let (folder, old, new) = (folder(), model(1), model(2));
        let replies: &'static [Reply] = vec![first, Reply::Status(503)].leak();
        let broken = FakeHub::new(old.clone(), replies);
        let size = old.len();
        download(&broken, &unhashed(&broken, size), folder.path()).expect_err("it breaks");

        let file = if changes { new } else { old };
        let hub = FakeHub::new(file.clone(), vec![then].leak());
        let path = download(&hub, &unhashed(&hub, size), folder.path()).expect("a file");
        assert!(fs::read(path).unwrap() == file, "{first:?}, {then:?}");
        let first_request = hub.requests().remove(0);
        assert_eq!(header(&first_request, "if-range"), version, "{first:?}, {then:?}");
        let range = if version.is_empty() { "" } else { "bytes=1000-" };
        assert_eq!(header(&first_request, "range"), range, "{first:?}, {then:?}");
        assert_eq!(names(folder.path()), [NAME, "model.gguf.origin.json"]);
    }
}

#[test]
fn a_retry_never_joins_two_versions() {
    for (replies, ranges) in [
        (
            &[Reply::Versioned(A, BROKEN), Reply::Versioned(A, WHOLE)][..],
            &["", "bytes=1000-"][..],
        ),
        (&[Reply::Broken(BROKEN), Reply::Good], &["", ""]),
        (
            &[Reply::Versioned(WEAK, BROKEN), Reply::Versioned(WEAK, WHOLE)],
            &["", ""],
        ),
        (
            &[
                Reply::Versioned(A, BROKEN),
                Reply::Versioned(B, BROKEN),
                Reply::Versioned(B, WHOLE),
            ],
            &["", "bytes=1000-", "bytes=1000-"],
        ),
    ] {
        let (folder, file) = (folder(), model(1));
        let hub = FakeHub::new(file.clone(), replies);
        let path = download(&hub, &unhashed(&hub, file.len()), folder.path()).expect("a file");
        assert!(fs::read(path).unwrap() == file, "{replies:?}");
        let asked: Vec<String> = hub.requests().iter().map(|request| header(request, "range")).collect();
        assert_eq!(asked, ranges, "{replies:?}");
    }
}

#[test]
fn what_arrived_is_recorded_with_its_commit_hash_and_version() {
    let (folder, file) = (folder(), model(1));
    let bodies = repository("o/n", &[("n.gguf", file)]);
    let hub = FakeHub::with(bodies, &[Reply::Good, Reply::Versioned(A, BROKEN), Reply::Status(404)]);
    let library = library_at(folder.path());
    library.pull(&hub.hub, "o/n", &mut proceed).expect_err("it breaks");
    let record = library.folder().join("o/n/n.gguf.partial.ranges");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    assert_eq!(record["commit"], "0123456789abcdef0123456789abcdef01234567");
    assert_eq!(record["version"], "\"a\"");
    assert_eq!(record["done"], serde_json::json!([[0, BROKEN]]));
    assert!(
        record["sha256"].as_str().is_some_and(|hash| hash.len() == 64),
        "{record}"
    );
}

#[test]
fn what_arrived_of_another_commit_is_not_continued_without_a_hash() {
    let (folder, file) = (folder(), model(1));
    let hub = FakeHub::new(file.clone(), &[Reply::Versioned(A, BROKEN), Reply::Status(503)]);
    let mut remote = unhashed(&hub, file.len());
    download(&hub, &remote, folder.path()).expect_err("it breaks");
    assert_eq!(library::arrived(&remote, folder.path()), BROKEN as u64);
    remote.origin.revision = Some("another commit".into());
    assert_eq!(library::arrived(&remote, folder.path()), 0);
}

#[test]
fn a_download_promises_to_resume_only_if_its_server_does() {
    let cases: [(&'static [Reply], bool); 4] = [
        (&[Reply::Versioned(A, WHOLE)], true),
        (&[Reply::Versioned(OLD, WHOLE)], true),
        (&[Reply::Versioned(WEAK, WHOLE)], false),
        (&[Reply::NoRanges], false),
    ];
    for (replies, expected) in cases {
        let (folder, file) = (folder(), model(1));
        let hub = FakeHub::with(HashMap::from([("/own.gguf".to_owned(), file)]), replies);
        let own = library::hub::Reference::parse(&address(&hub, "/own.gguf"), &hub.hub).unwrap();
        let remote = library::remote(&hub.hub, &own).expect("a file");
        assert_eq!(library::resumes(&remote, folder.path()), expected, "{replies:?}");
        let stopped = library::download(&hub.hub, &remote, folder.path(), &mut |progress| match progress {
            Progress::Loading { done, .. } if done > 0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert!(matches!(stopped, Err(LibraryError::Cancelled)), "{stopped:?}");
        assert_eq!(library::resumes(&remote, folder.path()), expected, "{replies:?}");
    }
}

#[test]
fn a_failed_download_says_what_became_of_what_arrived() {
    let cases: [(&'static [Reply], Kept, &str); 3] = [
        (
            &[
                Reply::Versioned(A, WHOLE),
                Reply::Versioned(A, BROKEN),
                Reply::Status(404),
            ],
            Kept::Resumes,
            "is saved; try again to resume it.",
        ),
        (
            &[Reply::Versioned(WEAK, WHOLE), Reply::LongUnsized],
            Kept::Restarts,
            "the download may start from the beginning",
        ),
        (
            &[Reply::Versioned(A, WHOLE), Reply::Status(404)],
            Kept::Nothing,
            "Nothing has arrived yet",
        ),
    ];
    for (replies, expected, text) in cases {
        let (folder, file) = (folder(), model(1));
        let hub = FakeHub::with(HashMap::from([("/own.gguf".to_owned(), file)]), replies);
        let error = library_at(folder.path()).pull(&hub.hub, &address(&hub, "/own.gguf"), &mut proceed);
        let error = error.expect_err("it fails");
        let LibraryError::Download { kept, .. } = &error else {
            panic!("{replies:?}: {error}")
        };
        assert_eq!(*kept, expected, "{replies:?}: {error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_file_that_changed_at_its_address_is_pulled_again() {
    let folder = folder();
    let library = library_at(folder.path());
    let pull = |bytes: Vec<u8>, replies: &'static [Reply], url: &mut Option<String>| {
        let hub = FakeHub::with(HashMap::from([("/own.gguf".to_owned(), bytes)]), replies);
        // One address, whatever the port.
        let own = address(&hub, "/own.gguf");
        let remote = library::remote(&hub.hub, &library::hub::Reference::parse(&own, &hub.hub).unwrap());
        let mut remote = remote.expect("a file");
        let first = url.get_or_insert_with(|| remote.files[0].path.to_string_lossy().into_owned());
        remote.files[0].path = PathBuf::from(&*first);
        let mut changed = 0;
        let done = library::download(&hub.hub, &remote, library.folder(), &mut |progress| {
            changed += usize::from(progress == Progress::Changed);
            ControlFlow::Continue(())
        });
        (done.map(|path| fs::read(path).unwrap()), changed, hub.requests().len())
    };
    let (old, new) = (model(1), model(2));
    let mut url = None;
    let (first, changed, _) = pull(old.clone(), &[Reply::Versioned(A, WHOLE)], &mut url);
    assert!(first.unwrap() == old && changed == 0);
    let (again, changed, requests) = pull(old.clone(), &[Reply::Versioned(A, WHOLE)], &mut url);
    assert!(again.unwrap() == old && (changed, requests) == (0, 1), "it is the same");
    // A new version that does not arrive replaces nothing.
    let half = &[
        Reply::Versioned(B, WHOLE),
        Reply::Versioned(B, BROKEN),
        Reply::Status(404),
    ];
    let (failed, changed, _) = pull(new.clone(), half, &mut url);
    assert!(failed.is_err() && changed == 1);
    let own = library.folder().join(url.clone().unwrap());
    assert!(fs::read(&own).unwrap() == old);
    let (done, changed, requests) = pull(new.clone(), &[Reply::Versioned(B, WHOLE)], &mut url);
    assert!(done.unwrap() == new && (changed, requests) == (1, 2));
}

#[test]
fn a_file_that_changes_while_it_is_pulled_is_pulled_once_more() {
    // Its size was told, and is another one now.
    let (folder, file) = (folder(), model(1));
    let hub = FakeHub::with(
        HashMap::from([("/own.gguf".to_owned(), file.clone())]),
        &[Reply::OtherTotal, Reply::Versioned(A, WHOLE)],
    );
    let library = library_at(folder.path());
    let path = library.pull(&hub.hub, &address(&hub, "/own.gguf"), &mut proceed);
    assert!(fs::read(path.expect("a file")).unwrap() == file);
    assert_eq!(hub.requests().len(), 4);
}

#[test]
fn what_is_no_model_has_its_own_message() {
    let cases: [(Vec<u8>, &'static [Reply], Flaw); 4] = [
        (Vec::new(), &[Reply::NoRange], Flaw::Empty),
        (Vec::new(), &[Reply::NoRanges], Flaw::Empty),
        (b"PK\x03\x04 an archive".to_vec(), &[Reply::Good], Flaw::NotGguf),
        (
            b"<!doctype html><title>Log in</title>".to_vec(),
            &[Reply::Good],
            Flaw::WebPage,
        ),
    ];
    for (file, replies, flaw) in cases {
        let folder = folder();
        let hub = FakeHub::with(HashMap::from([("/own.gguf".to_owned(), file)]), replies);
        let library = library_at(folder.path());
        let error = library.pull(&hub.hub, &address(&hub, "/own.gguf"), &mut proceed);
        let text = error.expect_err("no model").to_string();
        let expected = match flaw {
            Flaw::WebPage => "a web page came instead".to_owned(),
            flaw => sentence("flaw", &flaw),
        };
        assert!(
            text.contains(&expected) && text.contains("own.gguf"),
            "{replies:?}: {text}"
        );
        assert!(!text.contains("sha256") && !text.contains("is saved"), "{text}");
    }
    // With a published hash, too.
    let (folder, file) = (folder(), model(1));
    let hub = FakeHub::with(repository("o/n", &[("n.gguf", file)]), &[Reply::Good, Reply::Disguised]);
    let error = library_at(folder.path()).pull(&hub.hub, "o/n", &mut proceed);
    assert!(
        error
            .expect_err("a page")
            .to_string()
            .contains("a web page came instead")
    );
    let hub = FakeHub::with(repository("o/n", &[("n.gguf", Vec::new())]), &[Reply::Good]);
    let error = library_at(folder.path()).pull(&hub.hub, "o/n", &mut proceed);
    assert!(error.expect_err("nothing").to_string().contains("is empty (0 bytes)"));
}

#[test]
fn a_file_of_its_promised_length_that_lacks_tensors_is_incomplete() {
    let whole = model(1);
    let cut = whole[..whole.len() - 1].to_vec();
    let folder = folder();
    let [first, second] = support::split_model(folder.path(), "big").map(|path| fs::read(path).unwrap());
    let short = second[..second.len() - 1].to_vec();
    let split = [("big-00001-of-00002.gguf", first), ("big-00002-of-00002.gguf", short)];
    let mut bodies = repository("o/n", &[("n.gguf", cut.clone())]);
    bodies.extend(repository("o/big", &split));
    bodies.insert("/own.gguf".to_owned(), cut);
    let hub = FakeHub::with(bodies, &[Reply::Good]);
    let library = library_at(&folder.path().join("data"));
    for source in ["o/n", "o/big", &address(&hub, "/own.gguf")] {
        let error = library
            .pull(&hub.hub, source, &mut proceed)
            .expect_err("it is incomplete");
        let is_incomplete = matches!(
            error,
            LibraryError::Flawed {
                flaw: Flaw::MissingTensors { .. },
                ..
            }
        );
        assert!(
            is_incomplete && error.to_string().contains("Choose another file"),
            "{source}: {error}"
        );
    }
    let left = names(library.folder());
    assert_eq!(left, ["big-00001-of-00002.gguf"], "the whole shard alone");
}

const FIRST: &str = "o/big/big-00001-of-00002.gguf";
const SECOND: &str = "o/big/big-00002-of-00002.gguf";

/// The parts of a split model, whose last bytes are this one.
fn split(byte: u8) -> [Vec<u8>; 2] {
    let folder = folder();
    support::split_model(folder.path(), "big").map(|path| {
        let mut bytes = fs::read(path).unwrap();
        *bytes.last_mut().unwrap() = byte;
        bytes
    })
}

/// The repository `o/big` with these parts, at a commit that begins like this.
fn bodies(parts: &[Vec<u8>; 2], commit: &str) -> HashMap<String, Vec<u8>> {
    let [first, second] = parts.clone();
    let files = [("big-00001-of-00002.gguf", first), ("big-00002-of-00002.gguf", second)];
    let moved = repository("o/big", &files).into_iter().map(|(path, body)| {
        let text = String::from_utf8(body.clone()).map(|text| text.replace("0123456789abcdef", commit));
        let body = text.map_or(body, String::into_bytes);
        (path.replace("0123456789abcdef", commit), body)
    });
    moved.collect()
}

fn parts_in(library: &Library) -> [Vec<u8>; 2] {
    [FIRST, SECOND].map(|part| fs::read(library.folder().join(part)).unwrap())
}

fn remote_of(hub: &FakeHub, source: &str) -> Remote {
    let reference = library::hub::Reference::parse(source, &hub.hub).unwrap();
    library::remote(&hub.hub, &reference).expect("a model")
}

/// A library with a split model, in its folder.
fn library_with_split(folder: &Path, parts: &[Vec<u8>; 2]) -> Library {
    let library = library_at(folder);
    let hub = FakeHub::with(bodies(parts, "0123456789abcdef"), &[Reply::Good]);
    library.pull(&hub.hub, "o/big", &mut proceed).expect("a model");
    library
}

#[test]
fn a_complete_part_that_waits_for_the_others_is_nobody_elses() {
    let folder = folder();
    let (old, new, other) = (split(1), split(2), split(3));
    let library = library_with_split(folder.path(), &old);
    let hub = FakeHub::with(bodies(&new, "fedcba9876543210"), &[Reply::Good]);
    let others = FakeHub::with(bodies(&other, "aaaaaaaaaaaaaaaa"), &[Reply::Good]);
    let (remote, theirs) = (remote_of(&hub, "o/big"), remote_of(&others, "o/big"));
    let mut tried = 0;
    let done = library::download(&hub.hub, &remote, library.folder(), &mut |progress| {
        if matches!(progress, Progress::Loading { done, .. } if done >= remote.files[0].size) {
            let second = library::download(&others.hub, &theirs, library.folder(), &mut proceed);
            assert!(matches!(second, Err(LibraryError::AlreadyDownloading(_))), "{second:?}");
            let removed = library::discard(&theirs, library.folder());
            assert!(
                matches!(removed, Err(LibraryError::AlreadyDownloading(_))),
                "{removed:?}"
            );
            tried += 1;
        }
        ControlFlow::Continue(())
    });
    done.expect("a model");
    assert!(tried > 0);
    assert!(parts_in(&library) == new);
}

// Other systems refuse to change a locked file.
#[cfg(unix)]
#[test]
fn a_complete_part_that_another_program_changes_replaces_nothing() {
    for what in ["cut", "removed", "replaced"] {
        let folder = folder();
        let (old, new) = (split(1), split(2));
        let library = library_with_split(folder.path(), &old);
        let hub = FakeHub::with(bodies(&new, "fedcba9876543210"), &[Reply::Good]);
        let remote = remote_of(&hub, "o/big");
        let partial = library.folder().join(format!("{FIRST}.partial"));
        let mut is_changed = false;
        let done = library::download(&hub.hub, &remote, library.folder(), &mut |progress| {
            if matches!(progress, Progress::Loading { done, .. } if done > remote.files[0].size) && !is_changed {
                is_changed = true;
                match what {
                    "cut" => fs::File::options()
                        .write(true)
                        .open(&partial)
                        .unwrap()
                        .set_len(10)
                        .unwrap(),
                    _ => fs::remove_file(&partial).unwrap(),
                }
                if what == "replaced" {
                    fs::write(&partial, vec![7; remote.files[0].size as usize]).unwrap();
                }
            }
            ControlFlow::Continue(())
        });
        let error = done.expect_err(what).to_string();
        assert!(error.contains("another program"), "{what}: {error}");
        assert!(parts_in(&library) == old, "{what}");
        if what == "replaced" {
            let wrong = library.pull(&hub.hub, "o/big", &mut proceed);
            assert!(matches!(wrong, Err(LibraryError::HashMismatch { .. })), "{wrong:?}");
        }
        library.pull(&hub.hub, "o/big", &mut proceed).expect(what);
        assert!(parts_in(&library) == new, "{what}");
    }
}

#[test]
fn an_interrupted_replacement_is_of_no_version_and_is_repaired() {
    let (old, new) = (split(1), split(2));
    for (source, commit) in [(&old, "0123456789abcdef"), (&new, "fedcba9876543210")] {
        // What a kill leaves after the first file was replaced; the second is complete beside it.
        let folder = folder();
        let library = library_with_split(folder.path(), &old);
        let hub = FakeHub::with(bodies(&new, "fedcba9876543210"), &[Reply::Good]);
        let remote = remote_of(&hub, "o/big");
        let record = library.folder().join(format!("{FIRST}.origin.json"));
        // A folder in the place of the second file: its replacement fails.
        let second = library.folder().join(SECOND);
        fs::remove_file(&second).unwrap();
        fs::create_dir(&second).unwrap();
        library::download(&hub.hub, &remote, library.folder(), &mut proceed).expect_err("it is interrupted");
        fs::remove_dir(&second).unwrap();
        fs::write(&second, &old[1]).unwrap();
        let saved: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        assert_eq!(saved["updating"], true);
        assert!(
            saved["revision"].is_null() && saved["files"][0]["sha256"].is_null(),
            "{saved}"
        );
        assert!(fs::read(library.folder().join(FIRST)).unwrap() == new[0]);

        // The server may have either version by now.
        let hub = FakeHub::with(bodies(source, commit), &[Reply::Good]);
        let models = library.list(&[]);
        assert_eq!(
            library.update(&hub.hub, &models[0], "hf.co/o/big").unwrap(),
            library::Update::Available
        );
        library.pull(&hub.hub, "o/big", &mut proceed).expect("a model");
        assert!(parts_in(&library) == *source);
        let models = library.list(&[]);
        assert_eq!(
            library.update(&hub.hub, &models[0], "hf.co/o/big").unwrap(),
            library::Update::Current
        );
        assert!(!fs::read_to_string(&record).unwrap().contains("updating"));
    }
}

#[test]
fn what_arrived_of_a_file_with_a_hash_goes_on_in_any_version() {
    for (first, then) in [(A, B), (OLD, NEW), (A, OLD), (WEAK, A)] {
        let (folder, file) = (folder(), model(1));
        let broken = FakeHub::new(
            file.clone(),
            vec![Reply::Versioned(first, BROKEN), Reply::Status(503)].leak(),
        );
        let hashed = |hub: &FakeHub| {
            let mut remote = unhashed(hub, file.len());
            remote.files[0].sha256 = Some(hearth_formats::hex(<sha2::Sha256 as sha2::Digest>::digest(&file)));
            remote
        };
        download(&broken, &hashed(&broken), folder.path()).expect_err("it breaks");
        let hub = FakeHub::new(file.clone(), vec![Reply::Versioned(then, WHOLE)].leak());
        let path = download(&hub, &hashed(&hub), folder.path()).expect("a file");
        assert!(fs::read(path).unwrap() == file);
        let requests = hub.requests();
        assert_eq!(requests.len(), 1, "{first}, {then}");
        assert_eq!(header(&requests[0], "range"), "bytes=1000-");
        assert_eq!(header(&requests[0], "if-range"), "", "{first}, {then}");
    }
}

#[test]
fn a_file_at_an_address_that_an_earlier_version_recorded_is_here() {
    let (folder, file) = (folder(), model(1));
    let hub = FakeHub::with(
        HashMap::from([("/own.gguf".to_owned(), file)]),
        &[Reply::Versioned(A, WHOLE)],
    );
    let library = library_at(folder.path());
    let url = address(&hub, "/own.gguf");
    let path = library.pull(&hub.hub, &url, &mut proceed).expect("a model");
    let record = path.with_file_name("own.gguf.origin.json");
    // Early versions of Hearth wrote the license under another name.
    let old = format!(r#"{{"source": "{url}", "revision": null, "licence": "MIT"}}"#);
    fs::write(&record, &old).unwrap();
    assert_eq!(library.list(&[])[0].license().as_deref(), Some("MIT"));
    let before = hub.requests().len();
    library.pull(&hub.hub, &url, &mut proceed).expect("it is here");
    assert_eq!(hub.requests().len(), before + 1, "it is asked for, and not downloaded");
    let actual = library.update(&hub.hub, &library.list(&[])[0], &url).unwrap();
    assert_eq!(actual, library::Update::Unknown(library::Untold::NoRecordedVersion));
}

#[test]
fn a_model_that_is_deleted_meanwhile_is_not_put_back() {
    let folder = folder();
    let (old, new) = (split(1), split(2));
    let library = library_with_split(folder.path(), &old);
    let hub = FakeHub::with(bodies(&new, "fedcba9876543210"), &[Reply::Good]);
    let remote = remote_of(&hub, "o/big");
    let mut is_deleted = false;
    let done = library::download(&hub.hub, &remote, library.folder(), &mut |progress| {
        if matches!(progress, Progress::Loading { done, .. } if done > remote.files[0].size) && !is_deleted {
            is_deleted = true;
            let refused = library.delete(&library.list(&[])[0]);
            assert!(matches!(refused, Err(LibraryError::Loading(_))), "{refused:?}");
            // Another program deletes without a check.
            for name in [FIRST, SECOND, "o/big/big-00001-of-00002.gguf.origin.json"] {
                fs::remove_file(library.folder().join(name)).unwrap();
            }
        }
        ControlFlow::Continue(())
    });
    let error = done.expect_err("it was deleted").to_string();
    assert!(is_deleted && error.contains("it was deleted"), "{error}");
    assert!(library.list(&[]).is_empty());
}

#[test]
fn bytes_of_another_version_have_not_arrived() {
    let folder = folder();
    let (old, new) = (split(1), split(2));
    let library = library_with_split(folder.path(), &old);
    let mixed = [old[0].clone(), new[1].clone()];
    let cases = [
        (&old, "0123456789abcdef", old[0].len() + old[1].len()),
        (&old, "fedcba9876543210", old[0].len() + old[1].len()),
        (&mixed, "fedcba9876543210", old[0].len()),
        (&new, "fedcba9876543210", 0),
    ];
    for (parts, commit, expected) in cases {
        let hub = FakeHub::with(bodies(parts, commit), &[Reply::Good]);
        let remote = remote_of(&hub, "o/big");
        assert_eq!(library::arrived(&remote, library.folder()), expected as u64, "{commit}");
    }
}

#[test]
fn a_new_version_of_a_split_model_replaces_its_parts_together() {
    let folder = folder();
    let library = library_at(&folder.path().join("data"));
    let (old, new) = (split(1), split(2));
    let read = || parts_in(&library);
    let hub = FakeHub::with(bodies(&old, "0123456789abcdef"), &[Reply::Good]);
    library.pull(&hub.hub, "o/big", &mut proceed).expect("a model");
    // The second part does not arrive: the model stays what it was.
    let half = FakeHub::with(
        bodies(&new, "fedcba9876543210"),
        &[Reply::Good, Reply::Good, Reply::Broken(10), Reply::Status(404)],
    );
    library.pull(&half.hub, "o/big", &mut proceed).expect_err("it breaks");
    assert!(read() == old);
    let hub = FakeHub::with(bodies(&new, "fedcba9876543210"), &[Reply::Good]);
    library.pull(&hub.hub, "o/big", &mut proceed).expect("a model");
    assert!(read() == new);
    assert_eq!(hub.requests().len(), 2, "the first part had arrived");
    assert!(names(library.folder()).iter().all(|name| !name.contains("partial")));
}

/// A repository with a model in three parts of bytes, and the model.
fn cut_model() -> (Vec<u8>, HashMap<String, Vec<u8>>) {
    let file = model(9);
    let third = file.len() / 3;
    let parts = [&file[..third], &file[third..2 * third], &file[2 * third..]];
    let named: Vec<(String, Vec<u8>)> = (1..=3)
        .zip(parts)
        .map(|(part, bytes)| (format!("n.Q6_K.gguf.part{part}of3"), bytes.to_vec()))
        .collect();
    let files: Vec<(&str, Vec<u8>)> = named
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.clone()))
        .collect();
    (file, repository("o/n", &files))
}

#[test]
fn a_file_that_was_cut_is_joined_and_resumes_between_its_parts() {
    let folder = folder();
    let (file, bodies) = cut_model();
    let library = library_at(folder.path());
    let broken = FakeHub::with(
        bodies.clone(),
        &[Reply::Good, Reply::Good, Reply::Broken(10), Reply::Status(404)],
    );
    library.pull(&broken.hub, "o/n", &mut proceed).expect_err("it breaks");
    assert!(library.list(&[]).is_empty(), "nothing is in place");
    let good = FakeHub::with(bodies, &[Reply::Good]);
    let path = library.pull(&good.hub, "o/n:Q6_K", &mut proceed).expect("a model");
    assert_eq!(path, library.folder().join("o/n/n.Q6_K.gguf"));
    assert!(fs::read(&path).unwrap() == file);
    assert_eq!(names(library.folder()), ["n.Q6_K.gguf", "n.Q6_K.gguf.origin.json"]);
    let requests = good.requests();
    let asked: Vec<(bool, String)> = requests[1..]
        .iter()
        .map(|request| (request.contains("part2of3"), header(request, "range")))
        .collect();
    assert_eq!(asked, [(true, "bytes=10-".to_owned()), (false, String::new())]);
    // It is complete, and the same at another commit.
    library.pull(&good.hub, "o/n", &mut proceed).expect("it is there");
    assert_eq!(good.requests().len(), requests.len() + 1);
}

#[test]
fn of_a_file_that_was_cut_only_the_wrong_part_is_requested_again() {
    let folder = folder();
    let (file, bodies) = cut_model();
    let library = library_at(folder.path());
    let wrong = FakeHub::with(bodies.clone(), &[Reply::Good, Reply::Good, Reply::Other]);
    let error = library
        .pull(&wrong.hub, "o/n", &mut proceed)
        .expect_err("a part is wrong");
    assert!(
        matches!(error, LibraryError::HashMismatch { .. }) && error.to_string().contains("part2of3"),
        "{error}"
    );
    let good = FakeHub::with(bodies, &[Reply::Good]);
    let path = library.pull(&good.hub, "o/n", &mut proceed).expect("a model");
    assert!(fs::read(&path).unwrap() == file);
    assert!(good.requests().iter().all(|request| !request.contains("part1of3")));
}

#[test]
fn a_file_that_was_cut_is_checked_when_it_is_joined() {
    let folder = folder();
    let file = model(7);
    let half = file.len() / 2;
    let parts = [
        ("n.gguf.part1of2", file[..half].to_vec()),
        ("n.gguf.part2of2", file[half..file.len() - 1].to_vec()),
    ];
    let hub = FakeHub::with(repository("o/n", &parts), &[Reply::Good]);
    let library = library_at(folder.path());
    let error = library
        .pull(&hub.hub, "o/n", &mut proceed)
        .expect_err("it is incomplete");
    assert!(error.to_string().contains("incomplete"), "{error}");
    assert_eq!(names(library.folder()), [] as [&str; 0]);
}

#[test]
fn the_header_of_a_file_that_was_cut_is_read() {
    let folder = folder();
    let (file, bodies) = cut_model();
    let hub = FakeHub::with(bodies, &[Reply::Good]);
    let reference = library::hub::Reference::parse("o/n", &hub.hub).unwrap();
    let remote = library::remote(&hub.hub, &reference).expect("a model");
    let header = library::hub::HeaderFile::fetch(&hub.hub, &remote, folder.path()).expect("a header");
    assert_eq!(fs::metadata(header.path()).unwrap().len(), file.len() as u64);
    let actual = library_at(folder.path())
        .by_path(header.path())
        .metadata
        .expect("a model");
    assert_eq!(actual.parameters, 1000);
}

//! Large files, which come as ranges in parallel, from servers that misbehave.

use crate::support::hub::{FakeHub, Reply};
use hearth_app::library::{
    self, Hub, LibraryError, Progress,
    hub::{Kind, Origin, Ranges, Remote, RemoteFile, ServerInfo},
};
use hearth_formats::hex;
use sha2::{Digest, Sha256};
use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// Ten ranges of the small hubs.
const SIZE: usize = 100_000;
const RANGE: usize = 10_000;
const NAME: &str = "model.gguf";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A file in which no two ranges are equal.
fn file() -> Vec<u8> {
    let numbers = (1..SIZE as u32 / 4).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes());
    b"GGUF".iter().copied().chain(numbers).collect()
}

fn hub(replies: &'static [Reply]) -> FakeHub {
    let mut hub = FakeHub::new(file(), replies);
    hub.hub.ranges = Ranges {
        min_file_size: SIZE as u64,
        size: RANGE as u64,
        parallel: 4,
    };
    hub
}

fn remote(hub: &Hub, bytes: &[u8]) -> Remote {
    Remote {
        name: "A model".into(),
        files: vec![RemoteFile {
            name: NAME.into(),
            url: format!("{}/{NAME}", hub.endpoint),
            path: NAME.into(),
            size: bytes.len() as u64,
            sha256: Some(hex(Sha256::digest(bytes))),
            parts: Vec::new(),
            server_info: ServerInfo::default(),
        }],
        origin: Origin {
            source: "test".into(),
            revision: None,
            license: None,
        },
        kind: Kind::default(),
    }
}

fn download(hub: &FakeHub, folder: &Path) -> Result<PathBuf, LibraryError> {
    let remote = remote(&hub.hub, &file());
    library::download(&hub.hub, &remote, folder, &mut |_| ControlFlow::Continue(()))
}

/// The requested ranges, with an empty text for a whole file.
fn ranges(hub: &FakeHub) -> Vec<String> {
    let range_of = |request: &String| {
        let lower = request.to_lowercase();
        let range = lower.lines().find_map(|line| line.strip_prefix("range: bytes="));
        range.unwrap_or_default().trim().to_owned()
    };
    hub.requests().iter().map(range_of).collect()
}

/// The names in a folder, but for the record of a model's origin.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder");
    let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".origin.json")).collect();
    names.sort();
    names
}

/// Downloads what is missing from a good hub; the file is right, and alone.
fn resume(folder: &Path) -> Vec<String> {
    let good = hub(&[Reply::Good]);
    let path = download(&good, folder).expect("a good hub");
    assert!(fs::read(path).unwrap() == file());
    assert_eq!(names(folder), [NAME]);
    ranges(&good)
}

#[test]
fn four_ranges_come_at_a_time() {
    let folder = folder();
    let hub = hub(&[
        Reply::Together,
        Reply::Together,
        Reply::Together,
        Reply::Together,
        Reply::Good,
    ]);
    let path = download(&hub, folder.path()).expect("a file");
    assert!(fs::read(path).unwrap() == file());
    let mut ranges = ranges(&hub);
    assert_eq!(ranges[0], "0-9999", "the first one is alone");
    ranges.sort();
    let all = (0..10).map(|at| format!("{}-{}", at * RANGE, (at + 1) * RANGE - 1));
    assert_eq!(ranges, all.collect::<Vec<_>>());
}

#[test]
fn a_file_of_64_mib_comes_in_ranges_and_a_smaller_one_does_not() {
    for (size, expected) in [
        (
            (64 << 20) + 5,
            &["0-33554431", "33554432-67108863", "67108864-67108868"][..],
        ),
        ((64 << 20) - 1, &[""]),
    ] {
        let (folder, bytes) = (folder(), vec![7; size]);
        let hub = FakeHub::new(bytes.clone(), &[Reply::Good]);
        let remote = remote(&hub.hub, &bytes);
        let path = library::download(&hub.hub, &remote, folder.path(), &mut |_| ControlFlow::Continue(()));
        assert!(fs::read(path.expect("a file")).unwrap() == bytes);
        let mut ranges = ranges(&hub);
        ranges.sort();
        assert_eq!(ranges, expected);
    }
}

#[test]
fn a_server_that_misbehaves_gives_the_right_file() {
    // And whether the rest came in one stream.
    let cases: [(&'static [Reply], bool); 12] = [
        (&[Reply::NoRanges], true),
        (&[Reply::Good, Reply::NoRanges], true),
        (&[Reply::OtherRange, Reply::Good], true),
        (&[Reply::Good, Reply::OtherRange, Reply::Good], true),
        (&[Reply::Good, Reply::LongRange, Reply::Good], true),
        // Its hash tells that it is one file nevertheless.
        (&[Reply::Tagged("\"a\""), Reply::Tagged("\"b\"")], false),
        (&[Reply::Broken(100), Reply::Good], false),
        (
            &[
                Reply::Good,
                Reply::Broken(0),
                Reply::Broken(17),
                Reply::Broken(0),
                Reply::Good,
            ],
            false,
        ),
        (
            &[Reply::Status(500), Reply::Good, Reply::Status(503), Reply::Good],
            false,
        ),
        (
            &[Reply::Busy(0), Reply::Good, Reply::Busy(0), Reply::Busy(0), Reply::Good],
            false,
        ),
        (&[Reply::Stalled(0), Reply::Good], false),
        (&[Reply::Good, Reply::Stalled(10), Reply::Good], false),
    ];
    for (replies, one_stream) in cases {
        let (folder, mut hub) = (folder(), hub(replies));
        hub.hub.silence = Duration::from_millis(500);
        let path = download(&hub, folder.path()).unwrap_or_else(|error| panic!("{replies:?}: {error}"));
        assert!(fs::read(path).unwrap() == file(), "{replies:?}");
        assert_eq!(names(folder.path()), [NAME], "{replies:?}");
        let ranges = ranges(&hub);
        // Not necessarily the last: requests that were given up may reach the hub after it.
        let is_stream = ranges.iter().any(|range| range.is_empty() || range.ends_with('-'));
        assert_eq!(is_stream, one_stream, "{replies:?}: {ranges:?}");
    }
}

#[test]
fn a_stalled_range_is_requested_again_alone() {
    let (folder, mut hub) = (folder(), hub(&[Reply::Good, Reply::Stalled(10), Reply::Good]));
    hub.hub.silence = Duration::from_secs(1);
    download(&hub, folder.path()).expect("a file");
    let ranges = ranges(&hub);
    assert_eq!(ranges.len(), 11, "{ranges:?}");
    let last = ranges.last().unwrap();
    assert!(last.contains("0010-"), "from where it stalled: {last}");
}

#[test]
fn what_a_server_refuses_is_said_in_a_sentence_and_the_rest_is_resumed() {
    let cases: [(&'static [Reply], &str, bool); 11] = [
        (&[Reply::NoRange], "shorter than expected", false),
        (&[Reply::Good, Reply::NoRange], "shorter than expected", false),
        (&[Reply::Good, Reply::OtherTotal], "another size", false),
        (&[Reply::Good, Reply::Portal], "log in first", false),
        (&[Reply::Good, Reply::Circle], "in circles", false),
        (&[Reply::Good, Reply::Redirect("ftp://127.0.0.1/")], "is invalid", false),
        (&[Reply::Good, Reply::Status(403)], "requires a login", false),
        (&[Reply::Status(500)], "responded with 500", true),
        (&[Reply::Good, Reply::Good, Reply::Busy(0)], "responded with 429", true),
        (&[Reply::Good, Reply::Long], "another size", false),
        (&[Reply::Good, Reply::LongUnsized], "longer than", false),
    ];
    for (replies, expected, is_temporary) in cases {
        let (folder, hub) = (folder(), hub(replies));
        let error = download(&hub, folder.path()).expect_err("a problem");
        let text = error.to_string();
        assert!(text.contains(expected) && text.ends_with('.'), "{replies:?}: {text}");
        assert_eq!(error.is_temporary(), is_temporary, "{replies:?}: {text}");
        assert!(!folder.path().join(NAME).exists(), "{replies:?}");
        resume(folder.path());
    }
}

#[test]
fn a_server_that_asks_to_wait_for_hours_is_not_waited_for() {
    let (folder, hub) = (folder(), hub(&[Reply::Busy(100_000)]));
    let error = download(&hub, folder.path()).expect_err("it is busy");
    assert!(error.is_temporary() && error.to_string().contains("429"), "{error}");
    assert_eq!(hub.requests().len(), 1);
}

#[test]
fn a_range_of_another_file_is_found_by_the_hash() {
    let (folder, other) = (folder(), hub(&[Reply::Good, Reply::Other, Reply::Good]));
    let error = download(&other, folder.path()).expect_err("it is another file");
    assert!(matches!(error, LibraryError::HashMismatch { .. }), "{error}");
    assert_eq!(names(folder.path()), [] as [&str; 0]);
    resume(folder.path());
}

#[test]
fn without_a_hash_only_ranges_of_one_version_are_joined() {
    let cases: [(&'static [Reply], bool); 5] = [
        (&[Reply::Tagged("\"a\"")], true),
        (&[Reply::Good], false),
        (&[Reply::Tagged("W/\"a\"")], false),
        (&[Reply::Tagged("\"a\""), Reply::Tagged("\"b\"")], false),
        (&[Reply::Tagged("\"a\""), Reply::Tagged("\"a\""), Reply::Good], false),
    ];
    for (replies, in_ranges) in cases {
        let (folder, hub) = (folder(), hub(replies));
        let mut remote = remote(&hub.hub, &file());
        remote.files[0].sha256 = None;
        // Of an earlier version, perhaps.
        fs::write(folder.path().join(format!("{NAME}.partial")), vec![1; 25_000]).unwrap();
        let path = library::download(&hub.hub, &remote, folder.path(), &mut |_| ControlFlow::Continue(()));
        assert!(fs::read(path.expect("a file")).unwrap() == file(), "{replies:?}");
        let ranges = ranges(&hub);
        // A request for a range that was on its way may arrive after it.
        let is_whole = ranges.iter().any(String::is_empty);
        assert_eq!(is_whole, !in_ranges, "{replies:?}: {ranges:?}");
    }
}

/// The first and the last byte of a requested range.
fn parsed(range: &str) -> (usize, usize) {
    let (from, last) = range.split_once('-').expect("a range");
    (from.parse().expect("a number"), last.parse().unwrap_or(SIZE - 1))
}

/// The spans of the record of an unfinished file.
fn recorded(folder: &Path) -> Vec<(usize, usize)> {
    let text = fs::read(folder.join(format!("{NAME}.partial.ranges"))).expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    serde_json::from_value(record["done"].clone()).expect("pairs")
}

#[test]
fn a_download_that_is_killed_anywhere_resumes() {
    // Only the thread that reports writes: what is there at a report is what a kill would leave.
    let (folder, kills) = (folder(), folder());
    let hub = hub(&[Reply::Good, Reply::Broken(3000), Reply::Good]);
    let remote = remote(&hub.hub, &file());
    let mut count = 0;
    let done = library::download(&hub.hub, &remote, folder.path(), &mut |_| {
        let copy = kills.path().join(count.to_string());
        fs::create_dir(&copy).unwrap();
        for name in names(folder.path()) {
            fs::copy(folder.path().join(&name), copy.join(&name)).unwrap();
        }
        count += 1;
        ControlFlow::Continue(())
    });
    done.expect("a file");
    assert!(count > 20, "{count}");
    let mut resumed = 0;
    for kill in 0..count {
        let copy = kills.path().join(kill.to_string());
        let arrived = library::arrived(&remote, &copy) as usize;
        let has_record = copy.join(format!("{NAME}.partial.ranges")).exists();
        let spans = if has_record {
            recorded(&copy)
        } else {
            vec![(0, arrived)]
        };
        assert_eq!(spans.iter().map(|(start, end)| end - start).sum::<usize>(), arrived);
        resumed += usize::from(arrived > 0 && arrived < SIZE);
        for range in resume(&copy) {
            let (from, last) = parsed(&range);
            let is_new = spans.iter().all(|(start, end)| *end <= from || last < *start);
            assert!(is_new, "{range} of {spans:?}");
        }
    }
    assert!(resumed > 5, "{resumed}");
}

#[test]
fn a_record_that_does_not_match_its_file_is_not_believed() {
    let hash = hex(Sha256::digest(file()));
    let record = |size: usize, hash: &str, done: &str| format!(r#"{{"size":{size},"sha256":"{hash}","done":{done}}}"#);
    let cases = [
        (SIZE, String::new()),
        (SIZE, "garbage".into()),
        (SIZE, " ".repeat(100_000)),
        (SIZE, record(SIZE, &hash, "[[0, 10], [5, 20]]")),
        (SIZE, record(SIZE, &hash, "[[20, 10]]")),
        (SIZE, record(SIZE, &hash, &format!("[[0, {}]]", u64::MAX))),
        (SIZE, record(SIZE, "00", "[[0, 50000]]")),
        (SIZE, record(SIZE + 1, &hash, "[[0, 50000]]")),
        // The file was lost, or is shorter than what was written.
        (0, record(SIZE, &hash, "[[0, 50000]]")),
        (49_999, record(SIZE, &hash, "[[0, 10000], [40000, 50000]]")),
    ];
    for (len, text) in cases {
        let folder = folder();
        fs::write(folder.path().join(format!("{NAME}.partial")), vec![0; len]).unwrap();
        fs::write(folder.path().join(format!("{NAME}.partial.ranges")), &text).unwrap();
        let hub = hub(&[Reply::Good]);
        assert_eq!(library::arrived(&remote(&hub.hub, &file()), folder.path()), 0, "{text}");
        assert_eq!(resume(folder.path()).len(), 10, "{text}");
    }
}

#[test]
fn a_partial_file_of_an_earlier_version_goes_on() {
    let folder = folder();
    fs::write(folder.path().join(format!("{NAME}.partial")), &file()[..25_000]).unwrap();
    let ranges = resume(folder.path());
    assert_eq!(ranges[0], "25000-29999");
    assert_eq!(ranges.len(), 8, "{ranges:?}");
    // It was longer than the file: another one's.
    let folder = self::folder();
    fs::write(folder.path().join(format!("{NAME}.partial")), vec![1; SIZE + 1]).unwrap();
    assert_eq!(resume(folder.path()).len(), 10);
}

#[test]
fn a_pause_keeps_what_has_arrived_and_waits_for_nothing() {
    for pause in [0, 1, 3, 6, 10, 15] {
        // All but the first one are silent for longer than anybody waits.
        let (folder, mut hub) = (folder(), hub(&[Reply::Good, Reply::Stalled(10)]));
        hub.hub.silence = Duration::from_secs(1 << 20);
        let remote = remote(&hub.hub, &file());
        let (mut count, mut done) = (0, 0);
        let error = library::download(&hub.hub, &remote, folder.path(), &mut |progress| {
            let Progress::Loading { done: now, total } = progress else {
                panic!("it cannot be complete")
            };
            assert_eq!(total, SIZE as u64);
            done = now;
            count += 1;
            if count > pause {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(matches!(error, Err(LibraryError::Cancelled)), "{error:?}");
        assert_eq!(library::arrived(&remote, folder.path()), done);
        // The connections are still open, but hold no lock.
        resume(folder.path());
    }
}

#[test]
fn one_stream_also_stops_while_the_server_is_silent() {
    let (folder, mut hub) = (folder(), hub(&[Reply::Stalled(4000)]));
    hub.hub.ranges = Ranges::default();
    hub.hub.silence = Duration::from_secs(1 << 20);
    let remote = remote(&hub.hub, &file());
    let error = library::download(&hub.hub, &remote, folder.path(), &mut |progress| match progress {
        Progress::Loading { done: 4000, .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(error, Err(LibraryError::Cancelled)), "{error:?}");
    assert_eq!(resume(folder.path())[0], "4000-9999");
}

#[test]
fn a_discarded_download_leaves_nothing() {
    let (folder, hub) = (folder(), hub(&[Reply::Good]));
    let remote = remote(&hub.hub, &file());
    let hash = hex(Sha256::digest(file()));
    let record = format!(r#"{{"size":{SIZE},"sha256":"{hash}","done":[[0,10000],[20000,30000]]}}"#);
    fs::write(folder.path().join(format!("{NAME}.partial")), vec![0; 30_000]).unwrap();
    fs::write(folder.path().join(format!("{NAME}.partial.ranges")), record).unwrap();
    assert_eq!(library::arrived(&remote, folder.path()), 20_000);
    library::discard(&remote, folder.path()).unwrap();
    assert_eq!(names(folder.path()), [] as [&str; 0]);
    assert_eq!(library::arrived(&remote, folder.path()), 0);
}

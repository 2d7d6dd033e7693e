//! A folder that several processes share is made once, completely, and removed when unused.

use hearth_tests::shared::{Shared, key};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

fn write(folder: &Path, text: &str) {
    fs::write(folder.join("text"), text).expect("a file");
}

fn read(shared: &Shared) -> String {
    fs::read_to_string(shared.path().join("text")).expect("a file")
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_folder_is_made_once() {
    let base = tempfile::tempdir().expect("a folder");
    let calls = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let shared = Shared::folder(base.path(), "thing", "1", |folder| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    write(folder, "one");
                });
                assert_eq!(read(&shared), "one");
            });
        }
    });
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    Shared::folder(base.path(), "thing", "1", |_| panic!("it is kept"));
}

#[test]
fn a_folder_whose_making_failed_is_made_again() {
    let base = tempfile::tempdir().expect("a folder");
    let result = catch_unwind(AssertUnwindSafe(|| {
        Shared::folder(base.path(), "thing", "1", |folder| {
            write(folder, "half");
            panic!("as asked");
        })
    }));
    assert!(result.is_err() && !base.path().join("thing-1").exists());
    let shared = Shared::folder(base.path(), "thing", "1", |folder| {
        assert!(names(folder).is_empty());
        write(folder, "whole");
    });
    assert_eq!(read(&shared), "whole");
}

#[test]
fn a_folder_of_another_key_is_removed_when_it_is_not_in_use() {
    let base = tempfile::tempdir().expect("a folder");
    let make = |name: &str, key: &str| Shared::folder(base.path(), name, key, |folder| write(folder, key));
    drop(make("thing", "1"));
    let other = make("other", "1");
    let used = make("thing", "2");
    // Locks stay, so that no process holds one that another cannot see.
    let folders = || {
        let mut names = names(base.path());
        names.retain(|name| !name.ends_with(".lock"));
        names
    };
    assert_eq!(folders(), ["other-1", "thing-2"]);
    drop(make("thing", "3"));
    assert_eq!(read(&used), "2");
    drop(used);
    drop(make("thing", "4"));
    drop(other);
    assert_eq!(folders(), ["other-1", "thing-4"]);
}

#[test]
fn a_key_depends_on_every_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    };
    let (a, b, ab, empty) = (file("a", "a"), file("b", "b"), file("ab", "ab"), file("empty", ""));
    let keys = [
        key(&[&a, &b], &[]),
        key(&[&b, &a], &[]),
        key(&[&ab, &empty], &[]),
        key(&[&ab], &[]),
        key(&[&a], &["b"]),
        key(&[&a], &["", "b"]),
        key(&[], &["a", "b"]),
    ];
    let mut distinct = keys.to_vec();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), keys.len(), "{keys:?}");
    assert_eq!(key(&[&a], &["b"]), key(&[&file("c", "a")], &["b"]));
}

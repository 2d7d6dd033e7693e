//! The store and its backups.

use hearth_app::store::{Store, StoreError, backups, conversation, now, title_source::TitleSource};
use rusqlite::Connection;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn work(folder: &Path) -> PathBuf {
    folder.join("work")
}

fn file(folder: &Path) -> PathBuf {
    work(folder).join("hearth.db")
}

fn message(error: StoreError) -> String {
    error.to_string()
}

fn begin_in(folder: &Path) -> Result<(), StoreError> {
    let store = Store::open(folder)?;
    store
        .write(|t| conversation::create(t, "Kept", TitleSource::User, now()))
        .map(|_| ())
}

pub fn begin(folder: &Path) -> Result<(), String> {
    begin_in(&work(folder)).map_err(message)
}

/// Titles of conversations, read with SQLite from a store of any version.
fn conversations(file: &Path) -> Vec<String> {
    let connection = Connection::open(file).expect("a store");
    let actual: String = connection
        .pragma_query_value(None, "quick_check", |row| row.get(0))
        .expect("a check");
    assert_eq!(actual, "ok");
    let mut titles = connection.prepare("SELECT title FROM conversation").expect("a table");
    let titles = titles.query_map([], |row| row.get(0)).expect("rows");
    titles.map(|title| title.expect("a title")).collect()
}

pub fn check_begun(folder: &Path, done: bool) {
    if done {
        assert!(!conversations(&file(folder)).is_empty());
    }
    drop(Store::open(&work(folder)).expect("it opens"));
}

/// A store with version 7 of the schema.
pub fn put_older(folder: &Path) {
    let released = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/v0/store/7.db");
    fs::create_dir(work(folder)).expect("it is made");
    fs::copy(released, file(folder)).expect("a copy");
    put_titles(folder);
}

/// Records the titles that must stay.
fn put_titles(folder: &Path) {
    let titles = conversations(&file(folder));
    assert!(!titles.is_empty());
    fs::write(folder.join("titles"), titles.join("\n")).expect("it is written");
}

fn titles(folder: &Path) -> Vec<String> {
    let titles = fs::read_to_string(folder.join("titles")).expect("titles");
    titles.lines().map(str::to_owned).collect()
}

pub fn open(folder: &Path) -> Result<(), String> {
    Store::open(&work(folder)).map(drop).map_err(message)
}

pub fn put_used(folder: &Path) {
    begin_in(&work(folder)).expect("a store");
    put_titles(folder);
}

pub fn copy(folder: &Path) -> Result<(), String> {
    let copied = Store::open(&work(folder)).and_then(|store| store.back_up_daily());
    copied.map_err(message)
}

/// The store and every backup are complete.
pub fn check_copied(folder: &Path, done: bool) {
    assert_eq!(conversations(&file(folder)), titles(folder));
    let copies = backups(&work(folder));
    assert!(!copies.is_empty() || !done, "it was backed up");
    for copy in copies {
        copy.check().expect("a whole copy");
        assert_eq!(conversations(&copy.path), titles(folder));
    }
}

/// A backup, and an unreadable store.
pub fn put_corrupt(folder: &Path) {
    put_used(folder);
    copy(folder).expect("a copy");
    fs::write(file(folder), corrupt()).expect("it is written");
}

fn corrupt() -> Vec<u8> {
    let mut bytes = b"SQLite format 3\0".to_vec();
    bytes.resize(8192, 0xa5);
    bytes
}

pub fn restore(folder: &Path) -> Result<(), String> {
    let copies = backups(&work(folder));
    let replaced = Store::restore(&work(folder), copies.first().expect("a copy"));
    replaced.map(drop).map_err(message)
}

pub fn salvage(folder: &Path) -> Result<(), String> {
    Store::salvage(&work(folder)).map(drop).map_err(message)
}

/// As [`check_replaced`], and the backup has replaced the corrupt store.
pub fn check_restored(folder: &Path, done: bool) {
    check_replaced(folder, done);
    if done {
        assert_eq!(conversations(&file(folder)), titles(folder));
    }
}

/// The corrupt store exists, under its name or another; the store is that one or complete.
pub fn check_replaced(folder: &Path, done: bool) {
    let is_old = fs::read(file(folder)).expect("there is always one") == corrupt();
    assert!(!(is_old && done));
    if !is_old {
        conversations(&file(folder));
    }
    let entries = fs::read_dir(work(folder))
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path());
    let mut aside = entries.filter(|path| path.to_string_lossy().contains("hearth-set-aside"));
    assert!(
        is_old || aside.any(|path| fs::read(path).expect("a file") == corrupt()),
        "the corrupt store still exists"
    );
    for copy in backups(&work(folder)) {
        assert_eq!(conversations(&copy.path), titles(folder));
    }
    if done {
        drop(Store::open(&work(folder)).expect("it opens"));
    }
}

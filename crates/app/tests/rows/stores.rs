//! The store, and its copies.

use hearth_app::store::{Store, StoreError, backups, conversation, now};
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

fn told(error: StoreError) -> String {
    error.to_string()
}

fn begin_in(folder: &Path) -> Result<(), StoreError> {
    let store = Store::open(folder)?;
    store.write(|t| conversation::create(t, "Kept", now())).map(|_| ())
}

pub fn begin(folder: &Path) -> Result<(), String> {
    begin_in(&work(folder)).map_err(told)
}

/// Conversations of the store, as SQLite reads it; a store of any version.
fn conversations(file: &Path) -> Vec<String> {
    let connection = Connection::open(file).expect("a store");
    let found: String = connection
        .pragma_query_value(None, "quick_check", |row| row.get(0))
        .expect("a check");
    assert_eq!(found, "ok");
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

/// A store as version 7 of the schema had it.
pub fn put_older(folder: &Path) {
    let released = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/ba366ad/store/7.db");
    fs::create_dir(work(folder)).expect("it is made");
    fs::copy(released, file(folder)).expect("a copy");
    put_titles(folder);
}

/// Notes what has to stay.
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
    Store::open(&work(folder)).map(drop).map_err(told)
}

pub fn put_used(folder: &Path) {
    begin_in(&work(folder)).expect("a store");
    put_titles(folder);
}

pub fn copy(folder: &Path) -> Result<(), String> {
    let copied = Store::open(&work(folder)).and_then(|store| store.back_up_daily());
    copied.map_err(told)
}

/// The store has everything, and so has every copy.
pub fn check_copied(folder: &Path, done: bool) {
    assert_eq!(conversations(&file(folder)), titles(folder));
    let copies = backups(&work(folder));
    assert!(!copies.is_empty() || !done, "it was copied");
    for copy in copies {
        copy.check().expect("a whole copy");
        assert_eq!(conversations(&copy.path), titles(folder));
    }
}

/// A copy, and a store of which nothing can be read.
pub fn put_damaged(folder: &Path) {
    put_used(folder);
    copy(folder).expect("a copy");
    fs::write(file(folder), damaged()).expect("it is written");
}

fn damaged() -> Vec<u8> {
    let mut bytes = b"SQLite format 3\0".to_vec();
    bytes.resize(8192, 0xa5);
    bytes
}

pub fn restore(folder: &Path) -> Result<(), String> {
    let copies = backups(&work(folder));
    let replaced = Store::restore(&work(folder), copies.first().expect("a copy"));
    replaced.map(drop).map_err(told)
}

pub fn salvage(folder: &Path) -> Result<(), String> {
    Store::salvage(&work(folder)).map(drop).map_err(told)
}

/// As [`check_replaced`], and in the place of the damaged store is the copy.
pub fn check_restored(folder: &Path, done: bool) {
    check_replaced(folder, done);
    if done {
        assert_eq!(conversations(&file(folder)), titles(folder));
    }
}

/// The damaged store is there, under its name or another; in its place is that or a whole one.
pub fn check_replaced(folder: &Path, done: bool) {
    let is_old = fs::read(file(folder)).expect("there is always one") == damaged();
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
        is_old || aside.any(|path| fs::read(path).expect("a file") == damaged()),
        "the damaged store is kept"
    );
    for copy in backups(&work(folder)) {
        assert_eq!(conversations(&copy.path), titles(folder));
    }
    if done {
        drop(Store::open(&work(folder)).expect("it opens"));
    }
}

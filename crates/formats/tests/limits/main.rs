//! Files that are made to take memory, time or the stack: each ends in a sentence, or in examples, within bounds.
//!
//! All memory of this program is counted, so that its tests run one after the other.

mod adapters;
#[path = "../formats/fixtures.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use all of it")]
mod fixtures;
mod headers;
mod memory;
mod parquet_bytes;
mod parquet_files;
mod raw;
mod tables;
mod texts;

use hearth_formats::dataset::{Dataset, ReadOptions};
use std::sync::mpsc;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// What a file is read as: its examples and why reading ended early, or the error. And the bytes it took at the most.
fn read(bytes: Vec<u8>, name: &str) -> (Result<Dataset, String>, usize) {
    let name = name.to_owned();
    memory::watched(move || {
        let read = Dataset::from_bytes(bytes, &name, &ReadOptions::default());
        read.map_err(|error| error.problem.to_string())
    })
}

/// Checks that a file is refused with a sentence that holds this, without taking this much memory.
#[track_caller]
fn refused(bytes: Vec<u8>, name: &str, expected: &str, most: usize) {
    let (read, took) = read(bytes, name);
    let why = read.map(|dataset| dataset.examples.len()).unwrap_err();
    assert!(why.contains(expected), "{why}");
    assert!(took < most, "it took {} MiB", took / MIB);
}

/// Does something in another thread, which has to end in a time that only what is quadratic can take.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        // It may have been given up.
        let _ = send.send(work());
    });
    match receive.recv_timeout(Duration::from_secs(60)) {
        Ok(done) => done,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("it gave no result"),
        },
    }
}

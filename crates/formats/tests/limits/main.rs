//! Files crafted to exhaust memory, time or the stack: each is read or refused with a sentence,
//! within bounds. The memory of the whole process is counted, so the tests run one at a time.

mod adapters;
#[path = "../it/fixtures.rs"]
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

/// Reads a dataset. Returns the dataset or the error message, and the peak memory in bytes.
fn read(bytes: Vec<u8>, name: &str) -> (Result<Dataset, String>, usize) {
    let name = name.to_owned();
    memory::watched(move || {
        let read = Dataset::from_bytes(bytes, &name, &ReadOptions::default());
        read.map_err(|error| error.problem.to_string())
    })
}

/// Asserts that a file is refused with a message containing `expected`, with less than `most` bytes
/// of peak memory.
#[track_caller]
fn refused(bytes: Vec<u8>, name: &str, expected: &str, most: usize) {
    let (read, took) = read(bytes, name);
    let why = read.map(|dataset| dataset.examples.len()).unwrap_err();
    assert!(why.contains(expected), "{why}");
    assert!(took < most, "it took {} MiB", took / MIB);
}

/// Runs `work` in another thread with a timeout that only quadratic algorithms exceed.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        // The receiver may have timed out.
        let _ = send.send(work());
    });
    match receive.recv_timeout(Duration::from_secs(60)) {
        Ok(done) => done,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("timed out"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("no result was sent"),
        },
    }
}

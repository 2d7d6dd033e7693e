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
        let result = Dataset::from_bytes(bytes, &name, &ReadOptions::default());
        result.map_err(|error| error.problem.to_string())
    })
}

/// Asserts that a file is refused with a message containing `expected`, with less than `max_bytes`
/// bytes of peak memory.
#[track_caller]
fn refused(bytes: Vec<u8>, name: &str, expected: &str, max_bytes: usize) {
    let (result, peak_bytes) = read(bytes, name);
    let message = result.map(|dataset| dataset.examples.len()).unwrap_err();
    assert!(message.contains(expected), "{message}");
    assert!(peak_bytes < max_bytes, "it took {} MiB", peak_bytes / MIB);
}

/// Runs `work` in another thread with a timeout that only quadratic algorithms exceed.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        // The receiver may have timed out.
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("timed out"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("no result was sent"),
        },
    }
}

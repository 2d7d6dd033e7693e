//! The order in which a server sends, so that a download makes the same operations each time: one
//! piece after the other, each once the one before is written, by turn from the last and the first
//! of the open connections.

use std::{
    collections::BTreeSet,
    sync::{Condvar, Mutex},
    time::Duration,
};

/// Time after which the order no longer matters: the download has gone another way.
const PATIENCE: Duration = Duration::from_secs(20);

/// The order of a download.
pub struct Pace {
    state: Mutex<State>,
    changed: Condvar,
    /// Requests at a time.
    parallel: usize,
}

struct State {
    /// Requests whose last piece was not sent.
    unfinished: usize,
    /// Requests that wait to send a piece, by their first byte.
    waiting: BTreeSet<usize>,
    /// The bytes that were there before, once that is known.
    before: Option<u64>,
    sent: u64,
    written: u64,
    pieces: usize,
}

impl State {
    /// The request that sends next, if one may.
    fn next(&self, parallel: usize) -> Option<usize> {
        let is_written = self.before.is_some_and(|before| self.written == before + self.sent);
        let are_all_here = self.waiting.len() >= self.unfinished.min(parallel);
        let next = match self.pieces % 2 {
            0 => self.waiting.last(),
            _ => self.waiting.first(),
        };
        next.copied().filter(|_| is_written && are_all_here)
    }
}

impl Pace {
    /// Of a download by this number of requests, of which `parallel` are made at a time.
    pub fn new(requests: usize, parallel: usize) -> Self {
        let state = State {
            unfinished: requests,
            waiting: BTreeSet::new(),
            before: None,
            sent: 0,
            written: 0,
            pieces: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            parallel,
        }
    }

    /// Notes the bytes of the file that have been written.
    pub fn written(&self, bytes: u64) {
        let mut state = self.state.lock().expect("no panic");
        state.before.get_or_insert(bytes);
        state.written = bytes;
        self.changed.notify_all();
    }

    /// Waits until the request from this byte may send a piece.
    pub fn wait(&self, from: usize, bytes: usize, is_last: bool) {
        let mut state = self.state.lock().expect("no panic");
        state.waiting.insert(from);
        self.changed.notify_all();
        let is_not_next = |state: &mut State| state.next(self.parallel) != Some(from);
        let waited = self.changed.wait_timeout_while(state, PATIENCE, is_not_next);
        state = waited.expect("no panic").0;
        state.waiting.remove(&from);
        state.sent += bytes as u64;
        state.pieces += 1;
        state.unfinished = state.unfinished.saturating_sub(usize::from(is_last));
        self.changed.notify_all();
    }
}

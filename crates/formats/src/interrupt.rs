//! Interrupts work on long or hostile text: templates and tokenizers.
//!
//! During [`Interrupt::run`] the work regularly calls a closure that decides whether to interrupt
//! it. Interrupted work returns early, with an error or an incomplete result, and
//! [`Interrupt::run`] returns [`Interrupted`] instead.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The work between two calls of an interrupt's closure, in bytes of text or units of similar cost.
/// An indivisible operation, such as copying a long string, may exceed it.
pub const INTERVAL: u64 = 64 << 10;

thread_local! {
    static CURRENT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
    /// Whether the work on this thread was interrupted.
    static IS_SET: Cell<bool> = const { Cell::new(false) };
    /// Bytes processed since the last poll.
    static BYTES_SINCE_POLL: Cell<u64> = const { Cell::new(0) };
}

/// A closure that is polled once per [`INTERVAL`] and returns whether to interrupt the work.
#[derive(Clone)]
pub struct Interrupt(Arc<dyn Fn() -> bool + Send + Sync>);

/// The work was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl Interrupt {
    /// Interrupts the work once `should_interrupt` returns `true`.
    pub fn new(should_interrupt: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(should_interrupt))
    }

    /// Runs `work` with this interrupt installed on the thread.
    ///
    /// # Errors
    /// If the work was interrupted.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, Interrupted> {
        let installed = Installed::new(Some(self.clone()));
        let result = work();
        let is_set = is_set();
        drop(installed);
        if is_set { Err(Interrupted) } else { Ok(result) }
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Interrupt").finish_non_exhaustive()
    }
}

/// Guard that installs an interrupt on this thread, and restores the previous one when dropped.
pub(crate) struct Installed {
    previous: Option<Interrupt>,
    was_set: bool,
}

impl Installed {
    pub fn new(interrupt: Option<Interrupt>) -> Self {
        BYTES_SINCE_POLL.set(0);
        Self {
            previous: CURRENT.replace(interrupt),
            was_set: IS_SET.replace(false),
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        CURRENT.set(self.previous.take());
        IS_SET.set(self.was_set);
    }
}

/// The interrupt of this thread, to install it on a thread that does part of the work.
pub(crate) fn current() -> Option<Interrupt> {
    CURRENT.with_borrow(Clone::clone)
}

/// Polls the interrupt of this thread.
///
/// # Errors
/// If the work is interrupted now or was before.
pub fn check() -> Result<(), Interrupted> {
    if poll() { Err(Interrupted) } else { Ok(()) }
}

/// Whether the work on this thread was interrupted.
pub(crate) fn is_set() -> bool {
    IS_SET.get()
}

/// Interrupts the work on this thread, after a thread that did part of it was interrupted.
pub(crate) fn set() {
    IS_SET.set(true);
}

/// Counts `bytes` that are processed next, and polls once per [`INTERVAL`]. Returns whether the
/// work is interrupted.
pub(crate) fn step(bytes: u64) -> bool {
    let bytes_since_poll = BYTES_SINCE_POLL.get().saturating_add(bytes);
    BYTES_SINCE_POLL.set(bytes_since_poll);
    if bytes_since_poll > INTERVAL { poll() } else { is_set() }
}

/// Polls the interrupt of this thread. Returns whether the work is interrupted.
pub(crate) fn poll() -> bool {
    BYTES_SINCE_POLL.set(0);
    let should_interrupt = |current: &Option<Interrupt>| {
        current
            .as_ref()
            .is_some_and(|Interrupt(should_interrupt)| should_interrupt())
    };
    if !is_set() && CURRENT.with_borrow(should_interrupt) {
        set();
    }
    is_set()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn work_is_interrupted_once_and_only_inside() {
        let polls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&polls);
        let interrupt = Interrupt::new(move || counter.fetch_add(1, Ordering::Relaxed) == 2);
        let run_steps = |count: usize| (0..count).take_while(|_| !step(INTERVAL)).count();
        assert_eq!(interrupt.run(|| run_steps(2)), Ok(2), "one poll");
        assert_eq!(interrupt.run(|| run_steps(9)), Err(Interrupted), "at the third poll");
        assert_eq!(polls.load(Ordering::Relaxed), 3, "no poll after the interruption");
        assert!(!poll() && !is_set(), "not set outside of the run");
        assert_eq!(interrupt.run(|| run_steps(9)), Ok(9), "not set in the next run");
    }
}

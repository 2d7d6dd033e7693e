//! Interrupting work on long or hostile text: templates and tokenizers.
//!
//! [`Interrupt::run`] runs such work, which regularly calls a closure that says whether to give up.
//! Work that gives up returns early, with an error or an incomplete result; the caller of
//! [`Interrupt::run`] gets [`Interrupted`] instead of the result.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The work after which the question is asked again, in bytes of text or units of similar cost.
/// Work that cannot be divided, such as one copy of a long string, may be more.
pub const INTERVAL: u64 = 64 << 10;

thread_local! {
    static CURRENT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
    static IS_SET: Cell<bool> = const { Cell::new(false) };
    /// Bytes since the last question.
    static DONE: Cell<u64> = const { Cell::new(0) };
}

/// A question that is asked once per [`INTERVAL`]: whether to give up.
#[derive(Clone)]
pub struct Interrupt(Arc<dyn Fn() -> bool + Send + Sync>);

/// The work was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl Interrupt {
    /// Gives up once `question` returns `true`.
    pub fn new(question: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(question))
    }

    /// Runs `work`, which this can interrupt.
    ///
    /// # Errors
    /// If it was interrupted.
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

/// The interrupt of a thread, until it is dropped, also by a panic.
pub(crate) struct Installed {
    before: Option<Interrupt>,
    was_set: bool,
}

impl Installed {
    pub fn new(interrupt: Option<Interrupt>) -> Self {
        DONE.set(0);
        Self {
            before: CURRENT.replace(interrupt),
            was_set: IS_SET.replace(false),
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
        IS_SET.set(self.was_set);
    }
}

/// The interrupt of this thread, for another thread that does part of the work.
pub(crate) fn current() -> Option<Interrupt> {
    CURRENT.with_borrow(Clone::clone)
}

/// Fails if the work on this thread was interrupted, or is now.
///
/// # Errors
/// If so.
pub fn check() -> Result<(), Interrupted> {
    if look() { Err(Interrupted) } else { Ok(()) }
}

/// Whether the work on this thread was interrupted.
pub(crate) fn is_set() -> bool {
    IS_SET.get()
}

/// Interrupts the work on this thread: a thread that did part of it was.
pub(crate) fn set() {
    IS_SET.set(true);
}

/// Records that `bytes` are processed next. Returns whether to give up.
pub(crate) fn step(bytes: u64) -> bool {
    let done = DONE.get().saturating_add(bytes);
    DONE.set(done);
    if done > INTERVAL { look() } else { is_set() }
}

/// Asks now. Returns whether to give up.
pub(crate) fn look() -> bool {
    DONE.set(0);
    if !is_set() && CURRENT.with_borrow(|current| current.as_ref().is_some_and(|Interrupt(question)| question())) {
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
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let third = Interrupt::new(move || count.fetch_add(1, Ordering::Relaxed) == 2);
        let steps = |most: usize| (0..most).take_while(|_| !step(INTERVAL)).count();
        assert_eq!(third.run(|| steps(2)), Ok(2), "one question");
        assert_eq!(third.run(|| steps(9)), Err(Interrupted));
        assert_eq!(asked.load(Ordering::Relaxed), 3, "not asked again");
        assert!(!look() && !is_set());
        assert_eq!(third.run(|| steps(9)), Ok(9), "it does not remember");
    }
}

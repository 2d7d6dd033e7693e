//! The number of threads of the kernels' team.

mod decode_threads;

pub(crate) use decode_threads::{DecodeThreads, StepNumber};
use hearth_kernels::team;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of threads of steps other than decode, if decode may use fewer; 0 otherwise.
static MAX_THREADS: AtomicUsize = AtomicUsize::new(0);
/// Whether decode may be slower if that takes fewer threads.
static ON_BATTERY: AtomicBool = AtomicBool::new(false);

/// Threads for the steps of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// This number, at least 1, for all steps.
    Fixed(usize),
    /// This number, at least 1, for prompts and training; decode, which is bound by memory
    /// bandwidth, uses the fewest that are as fast.
    AtMost(usize),
}

/// Sets the threads.
pub fn set(threads: Threads) {
    let (Threads::Fixed(count) | Threads::AtMost(count)) = threads;
    team::set_threads(count);
    let max = match threads {
        Threads::Fixed(_) => 0,
        // At most the machine's threads.
        Threads::AtMost(_) => team::threads(),
    };
    MAX_THREADS.store(max, Ordering::Relaxed);
}

/// Sets the threads until the guard is dropped.
#[must_use]
pub fn set_until_drop(threads: Threads) -> Restore {
    let before = match MAX_THREADS.load(Ordering::Relaxed) {
        0 => Threads::Fixed(team::threads()),
        max => Threads::AtMost(max),
    };
    set(threads);
    Restore(before)
}

/// Restores the threads that were set before [`set_until_drop`].
#[derive(Debug)]
pub struct Restore(Threads);

impl Drop for Restore {
    fn drop(&mut self) {
        set(self.0);
    }
}

/// Sets whether the machine runs on battery. With [`Threads::AtMost`], decode may then be slower by
/// 15 % if that takes fewer threads.
pub fn set_on_battery(on_battery: bool) {
    ON_BATTERY.store(on_battery, Ordering::Relaxed);
}

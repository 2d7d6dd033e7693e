//! Sets the number of threads of the kernels' team.

mod decode_threads;

pub(crate) use decode_threads::{DecodeThreads, StepNumber};
use hearth_kernels::team;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number in [`Threads::AtMost`]; 0 if the number is fixed.
static MAX_THREADS: AtomicUsize = AtomicUsize::new(0);
/// Whether the machine runs on battery; see [`set_on_battery`].
static ON_BATTERY: AtomicBool = AtomicBool::new(false);

/// The number of threads for the steps of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// This number, at least 1, for all steps.
    Fixed(usize),
    /// This number, at least 1, for prefill and training. Decode, which is bound by memory
    /// bandwidth, uses the smallest number that is as fast.
    AtMost(usize),
}

/// Sets the number of threads.
pub fn set(threads: Threads) {
    let (Threads::Fixed(count) | Threads::AtMost(count)) = threads;
    team::set_threads(count);
    let max = match threads {
        Threads::Fixed(_) => 0,
        // The team has at most the threads of the machine.
        Threads::AtMost(_) => team::threads(),
    };
    MAX_THREADS.store(max, Ordering::Relaxed);
}

/// Sets the number of threads until the guard is dropped.
#[must_use]
pub fn set_until_drop(threads: Threads) -> Restore {
    let previous = match MAX_THREADS.load(Ordering::Relaxed) {
        0 => Threads::Fixed(team::threads()),
        max => Threads::AtMost(max),
    };
    set(threads);
    Restore(previous)
}

/// On drop, restores the number of threads before [`set_until_drop`].
#[derive(Debug)]
pub struct Restore(Threads);

impl Drop for Restore {
    fn drop(&mut self) {
        set(self.0);
    }
}

/// Sets whether the machine runs on battery. With [`Threads::AtMost`], decode may then be up to
/// 15 % slower to use fewer threads.
pub fn set_on_battery(on_battery: bool) {
    ON_BATTERY.store(on_battery, Ordering::Relaxed);
}

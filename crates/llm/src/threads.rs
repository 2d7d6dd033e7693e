//! The number of threads of the kernels' team.

mod decode_threads;

pub(crate) use decode_threads::DecodeThreads;
use hearth_kernels::team;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of threads of steps other than decode, if decode may use fewer; 0 otherwise.
static MOST: AtomicUsize = AtomicUsize::new(0);
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
    let most = match threads {
        Threads::Fixed(_) => 0,
        // At most those of the machine.
        Threads::AtMost(_) => team::threads(),
    };
    MOST.store(most, Ordering::Relaxed);
}

/// The threads as they were set.
pub fn get() -> Threads {
    match MOST.load(Ordering::Relaxed) {
        0 => Threads::Fixed(team::threads()),
        most => Threads::AtMost(most),
    }
}

/// Tells whether the machine runs on battery. With [`Threads::AtMost`], decode may then be slower
/// by 15 % if that takes fewer threads.
pub fn set_on_battery(on_battery: bool) {
    ON_BATTERY.store(on_battery, Ordering::Relaxed);
}

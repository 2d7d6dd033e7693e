//! How many threads the kernels' team has.

use hearth_kernels::team;

/// Gives the team `threads` threads, at least one; it is for the whole process.
pub fn set(threads: usize) {
    team::set_threads(threads.max(1));
}

/// How many threads the team has.
pub fn count() -> usize {
    team::threads()
}

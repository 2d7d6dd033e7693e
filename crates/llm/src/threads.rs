//! The number of threads of the kernels' team.

use hearth_kernels::team;

/// Sets the number of threads of the process's team, at least 1.
pub fn set(threads: usize) {
    team::set_threads(threads.max(1));
}

/// The number of threads of the team.
pub fn count() -> usize {
    team::threads()
}

//! A worker's caches with a fault at every disk operation: packed weights and the prompt cache.
//! There is no fsync, and a loss only costs time: the answer is the same, whatever is left of them.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod fault_cases;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod faults;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "faults/table.rs"]
mod table;

fn main() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        table::work_if_asked(fault_cases::ALL);
        libtest_mimic::run(&libtest_mimic::Arguments::from_args(), table::trials(fault_cases::ALL)).exit();
    }
}

//! Tests a worker's caches, packed weights and the prompt cache, with a fault at every disk
//! operation. Caches are not synced, and a lost cache costs only time: the answers are the same.

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

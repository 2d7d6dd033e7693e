//! What a worker keeps to be quick, with a fault at every operation on the disk: packed weights, and what was read of a conversation.
//! Nothing of either is flushed, and losing it costs time alone: whatever is left of it, the answer is the same.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod faults;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod rows;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "faults/table.rs"]
mod table;

fn main() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        table::work_if_asked(rows::ALL);
        libtest_mimic::run(&libtest_mimic::Arguments::from_args(), table::trials(rows::ALL)).exit();
    }
}

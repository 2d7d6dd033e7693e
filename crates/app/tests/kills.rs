//! What the app writes beside runs, with a fault at every operation on the disk: downloads, the store's copies and the ways back from
//! them, an adapter that is imported. SQLite's own writes are not counted: it proves them itself.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "../../engine/tests/faults/mod.rs"]
mod faults;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod rows;
mod support;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "../../engine/tests/faults/table.rs"]
mod table;

fn main() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        support::probe_if_asked();
        table::work_if_asked(rows::ALL);
        libtest_mimic::run(&libtest_mimic::Arguments::from_args(), table::trials(rows::ALL)).exit();
    }
}

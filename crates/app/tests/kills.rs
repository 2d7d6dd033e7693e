//! Faults at every disk operation of the app, runs excepted: downloads, backups of the store and
//! their restoration, an imported adapter, presets. SQLite's own writes are not counted: SQLite
//! tests them.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod fault_cases;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "../../engine/tests/faults/mod.rs"]
mod faults;
mod support;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "../../engine/tests/faults/table.rs"]
mod table;

fn main() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        table::work_if_asked(fault_cases::ALL);
        libtest_mimic::run(&libtest_mimic::Arguments::from_args(), table::trials(fault_cases::ALL)).exit();
    }
}

//! Tests that change state of the whole process, such as the number of threads.
//!
//! nextest starts each test in a separate process; under `cargo test` such a test starts itself
//! again.

use std::any::type_name;
use std::env;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Environment variable that nextest sets to its mode; [`has_own_process`] sets it too.
const MODE: &str = "NEXTEST_EXECUTION_MODE";
/// The mode in which each test has its own process.
const PROCESS_PER_TEST: &str = "process-per-test";

/// Returns `true` if the calling test, which passes itself, has its own process. Otherwise runs the
/// test in another process and returns `false`.
///
/// # Panics
/// Panics if the test fails in the other process.
#[track_caller]
pub fn has_own_process<Test: Fn()>(_: Test) -> bool {
    if env::var_os(MODE).is_some_and(|mode| mode == PROCESS_PER_TEST) {
        return true;
    }
    let path = type_name::<Test>();
    let (_, name) = path.split_once("::").expect("the executable and the test");
    // One process at a time: each uses all cores.
    static LOCK: Mutex<()> = Mutex::new(());
    let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let output = this_executable(&["--exact", name]).env(MODE, PROCESS_PER_TEST).output();
    drop(guard);
    assert_passed(name, &output.expect("this executable starts"), 1);
    false
}

/// This executable with these arguments, as `cargo test` starts it: with many tests in a process.
pub fn this_executable(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this executable"));
    command.args(arguments).env_remove(MODE);
    command
}

/// Panics unless `count` tests passed and none failed.
#[track_caller]
pub fn assert_passed(name: &str, output: &Output, count: usize) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let is_complete = stdout.contains(&format!(" {count} passed; 0 failed; 0 ignored;"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && is_complete, "{name}:\n{stdout}\n{stderr}");
}

//! Tests that change state of the whole process, such as the number of threads.
//!
//! nextest starts each test in a separate process; under `cargo test` such a test starts itself
//! again.

use std::any::type_name;
use std::env;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Environment variable that nextest sets to its mode; [`is_own`] sets it too.
const MODE: &str = "NEXTEST_EXECUTION_MODE";
const ALONE: &str = "process-per-test";

/// Whether the calling test, which passes itself, has the process to itself. If not, it has been
/// run in another process, and returns.
///
/// # Panics
/// If the test failed there.
#[track_caller]
pub fn is_own<Test: Fn()>(_: Test) -> bool {
    if env::var_os(MODE).is_some_and(|mode| mode == ALONE) {
        return true;
    }
    let path = type_name::<Test>();
    let (_, name) = path.split_once("::").expect("the executable and the test");
    // One at a time: each uses all cores.
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let run = this_executable(&["--exact", name]).env(MODE, ALONE).output();
    drop(guard);
    assert_passed(name, &run.expect("this executable starts"), 1);
    false
}

/// This executable with these arguments, as `cargo test` would start it: many tests in a process.
pub fn this_executable(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this executable"));
    command.args(arguments).env_remove(MODE);
    command
}

/// Panics unless `count` tests passed and none failed.
#[track_caller]
pub fn assert_passed(what: &str, run: &Output, count: usize) {
    let said = String::from_utf8_lossy(&run.stdout);
    let complete = said.contains(&format!(" {count} passed; 0 failed; 0 ignored;"));
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && complete, "{what}:\n{said}\n{errors}");
}

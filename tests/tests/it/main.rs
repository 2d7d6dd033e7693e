//! End-to-end tests of the programs without the window, in one executable: linking one takes longer
//! than most tests.

mod builds;
mod cli;
mod first_minute;
#[cfg(target_os = "linux")]
mod hostile;
mod paths;
mod shared;
mod soak;
mod train;

#[test]
fn every_test_file_is_compiled() {
    hearth_test_parts::assert_all_compiled(env!("CARGO_MANIFEST_DIR"));
}

//! `cargo xtask spirv`: runs the tests of matrix-unit kernels, built for SPIR-V, on a Vulkan driver
//! set by the environment.

use super::suite::suite_of;
use crate::process::{Outcome, run_streaming};
use crate::test::parse_totals;
use std::env;
use std::process::Command;

/// Environment variables that select a driver in the Vulkan loader.
const DRIVER: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// Filter of the tests that need matrix units. A software driver compiles each kernel for seconds,
/// so all tests would take hours.
const TESTS: &str = "matrix_units";

/// Run first: without matrix units the other tests take long and prove nothing.
const PREFLIGHT: &str = "the_driver_lists_matrix_units_if_required";

/// Tests that must have run: of the kernels, the operations and the device check.
const REQUIRED: [&str; 3] = [
    "matrix_units::every_format_is_multiplied_in_shapes_beside_whole_tiles",
    "table::matrix_units_multiply_as_the_cpu_in_every_layout",
    "gemms_on_matrix_units_are_within_tolerance",
];

/// Builds the tests and runs them.
///
/// # Errors
/// If no driver is set, it has no matrix units, or a test failed.
pub fn spirv() -> Outcome {
    if DRIVER.iter().all(|name| env::var_os(name).is_none()) {
        return Err(
            "No Vulkan driver is set. Set VK_DRIVER_FILES to the JSON file of a driver with cooperative matrices: \
             that of a GPU, or \
             lvp_icd.json of lavapipe in Mesa 26.1 or later (Debian: mesa-vulkan-drivers from trixie-backports)."
                .to_owned(),
        );
    }
    let mut listed = false;
    run_streaming(
        "Checking that the driver has matrix units",
        &mut suite(PREFLIGHT),
        |line| {
            listed |= passed_test(line).is_some_and(|test| test.ends_with(PREFLIGHT));
        },
    )?;
    if !listed {
        return Err("The driver has no matrix units, so nothing was tested; see above.".to_owned());
    }
    let (mut failed, mut passed) = (0, Vec::new());
    let ended = run_streaming("Matrix-unit tests in SPIR-V", &mut suite(TESTS), |line| {
        failed += parse_totals(line).map_or(0, |(_, failed)| failed);
        passed.extend(passed_test(line).map(str::to_owned));
    })?;
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|test| !passed.iter().any(|passed| passed == test))
        .collect();
    match (ended, missing.as_slice()) {
        (true, []) => Ok(()),
        (true, missing) => Err(format!("Not run: {}.", missing.join(", "))),
        (false, _) => Err(format!("{} passed, {failed} failed.", passed.len())),
    }
}

/// The same build as that of `cargo xtask gpu --build vulkan`.
fn suite(filter: &str) -> Command {
    let mut command = suite_of("vulkan");
    command.arg("--").arg(filter);
    command
        .env_remove("HEARTH_NO_GPU_TESTS")
        .env("HEARTH_MATRIX_UNITS", "1");
    command
}

/// The name of a passed test from its output line.
fn passed_test(line: &str) -> Option<&str> {
    Some(line.strip_prefix("test ")?.strip_suffix(" ... ok")?.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_tests_match_the_filter() {
        for test in REQUIRED {
            assert!(test.contains(TESTS), "{test}");
        }
        assert_eq!(passed_test("test table::a   ... ok"), Some("table::a"));
        assert_eq!(passed_test("test table::a ... FAILED"), None);
    }
}

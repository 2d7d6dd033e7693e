//! `cargo xtask spirv`: the tests of matrix-unit kernels, built for SPIR-V, on a Vulkan driver that the environment names.

use super::suite::suite_of;
use crate::process::{Outcome, watch};
use crate::test::counted;
use std::env;
use std::process::Command;

/// Variables that name a driver to Vulkan's loader.
const DRIVER: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// The tests that are run: those that need matrix units. A driver in software translates each kernel for seconds, so that all of them would
/// take hours.
const TESTS: &str = "matrix_units";

/// Run before the others, which say nothing, and take long, without matrix units.
const FIRST: &str = "the_driver_lists_matrix_units_where_they_are_demanded";

/// Tests without which the others prove nothing: of the kernels, the operations and the device check.
const PROOF: [&str; 3] = [
    "matrix_units::every_format_is_multiplied_in_shapes_that_fit_no_tile",
    "table::matrix_units_multiply_as_the_cpu_in_every_layout",
    "products_of_matrix_units_are_within_the_bounds_of_the_check",
];

/// Builds the tests and runs them.
///
/// # Errors
/// No driver is named, it has no matrix units, or a test failed.
pub fn spirv() -> Outcome {
    if DRIVER.iter().all(|name| env::var_os(name).is_none()) {
        return Err(
            "No Vulkan driver is named. Set VK_DRIVER_FILES to the JSON file of one that lists cooperative matrices: that of a GPU, or \
             lvp_icd.json of lavapipe in Mesa 26.1 or later (Debian: mesa-vulkan-drivers from trixie-backports)."
                .to_owned(),
        );
    }
    let mut listed = false;
    watch("Whether the driver has matrix units", &mut suite(FIRST), |line| {
        listed |= well(line).is_some_and(|test| test.ends_with(FIRST));
    })?;
    if !listed {
        return Err("The driver that is named has no matrix units, so nothing was tested; see above.".to_owned());
    }
    let (mut failed, mut passed) = (0, Vec::new());
    let ended = watch("The tests of matrix units, in SPIR-V", &mut suite(TESTS), |line| {
        failed += counted(line).map_or(0, |(_, failed)| failed);
        passed.extend(well(line).map(str::to_owned));
    })?;
    let missing: Vec<&str> = PROOF
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

/// The name of a test that passed.
fn well(line: &str) -> Option<&str> {
    Some(line.strip_prefix("test ")?.strip_suffix(" ... ok")?.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_to_pass_is_run() {
        for proof in PROOF {
            assert!(proof.contains(TESTS), "{proof}");
        }
        assert_eq!(well("test table::a   ... ok"), Some("table::a"));
        assert_eq!(well("test table::a ... FAILED"), None);
    }
}

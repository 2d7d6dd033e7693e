//! `cargo xtask spirv`: runs the tests of matrix-unit kernels, built for SPIR-V, on a Vulkan driver
//! set by the environment.

use super::suite::{PREFLIGHT, select};
use crate::junit::TestResults;
use crate::nextest::{nextest, run_nextest};
use crate::process::Outcome;
use std::env;

/// Environment variables that select a driver in the Vulkan loader.
const DRIVER: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// Filter of the tests that need matrix units. A software driver compiles each kernel for seconds,
/// so all tests would take hours.
const TESTS: &str = "matrix_units";

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
    // Without matrix units the other tests take long and prove nothing.
    let preflight = suite("Checking that the driver has matrix units", PREFLIGHT)?;
    if !preflight.failed.is_empty() {
        return Err("The driver has no matrix units, so nothing was tested; see above.".to_owned());
    }
    let results = suite("Matrix-unit tests in SPIR-V", TESTS)?;
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|test| !results.passed.iter().any(|passed| passed.ends_with(test)))
        .collect();
    match (results.failed.as_slice(), missing.as_slice()) {
        ([], []) => Ok(()),
        ([], missing) => Err(format!("Not run: {}.", missing.join(", "))),
        (failed, _) => Err(format!(
            "{} passed. Failed: {}.",
            results.passed.len(),
            failed.join(", ")
        )),
    }
}

/// Runs the tests whose names contain `filter`, in the build of `cargo xtask gpu --build vulkan`.
fn suite(what: &str, filter: &str) -> Outcome<TestResults> {
    let arguments = select("vulkan");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = nextest(&arguments)?;
    // They are ignored where a driver may lack the units.
    command
        .args([filter, "--run-ignored", "all"])
        .env_remove("HEARTH_NO_GPU_TESTS");
    run_nextest(what, &mut command, "spirv")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    #[test]
    fn required_tests_exist_and_match_the_filter() {
        let files = [
            "tests/tests/gpu/matrix_units.rs",
            "crates/llm/tests/gpu/table/mod.rs",
            "crates/engine/tests/gpu.rs",
        ];
        let sources = files.map(|file| std::fs::read_to_string(paths::root().join(file)).expect("a source"));
        for test in REQUIRED.into_iter().chain([PREFLIGHT]) {
            assert!(test.contains(TESTS), "{test}");
            let name = test.rsplit("::").next().unwrap_or(test);
            assert!(
                sources.concat().contains(&format!("fn {name}(")),
                "{test} does not exist"
            );
        }
    }
}

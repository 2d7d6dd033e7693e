//! All tests again on the lower instruction sets of the machine.

use crate::own_process::{assert_passed, this_executable};
use hearth_kernels::Isa;
use hearth_test_parts::Parts;
use std::collections::BTreeMap;
use std::env;

/// Environment variable that names the instruction set of a process, which is chosen once.
const LEVEL: &str = "HEARTH_ISA";

/// The modules of this executable except this one, with their numbers of tests.
fn modules() -> BTreeMap<String, usize> {
    let listed = this_executable(&["--list", "--format", "terse"]).output();
    let listed = String::from_utf8(listed.expect("this executable starts").stdout).expect("a list in UTF-8");
    let mut modules = BTreeMap::new();
    for name in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
        match name.split_once("::") {
            Some((module, _)) if module != "levels" => *modules.entry(module.to_owned()).or_default() += 1,
            _ => {}
        }
    }
    modules
}

/// Each part has each level and each module, but not every pair of them.
#[test]
fn lower_instruction_sets_pass_too() {
    if env::var_os(LEVEL).is_some() {
        return;
    }
    let (parts, modules) = (Parts::from_variable("levels"), modules());
    assert!(modules.len() > 5, "{modules:?}");
    // A run without assertions and one with them select different pairs.
    let (first_index, suffix) = if cfg!(debug_assertions) {
        (2, " with assertions")
    } else {
        (0, "")
    };
    let lower_levels = Isa::available().into_iter().filter(|isa| *isa != Isa::best());
    for (level_index, level) in lower_levels.map(Isa::name).enumerate() {
        for (module_index, (module, count)) in modules.iter().enumerate() {
            let case = format!("levels::lower_instruction_sets_pass_too {module} on {level}{suffix}");
            if !parts.includes(first_index + level_index + module_index, &case) {
                continue;
            }
            let mut command = this_executable(&[&format!("{module}::")]);
            // The process runs all cases of the module: with a part of each part, most pairs would
            // never run.
            command
                .env(LEVEL, level)
                .env_remove("HEARTH_PART_LEVELS")
                .env_remove("HEARTH_CASES");
            assert_passed(&case, &command.output().expect("this executable starts"), *count);
        }
    }
}

//! `cargo xtask test --changed`: the tests most likely to fail after the changes since a commit.
//!
//! It ends at the first failing test, prints what it skipped, and records nothing.

use super::{set_up, stages};
use crate::nextest::Failures;
use crate::process::{Outcome, announce};
use crate::report::Report;
use crate::suites::{Inputs, SUITES, Stage, Suite, Tests, Tree, is_unbuilt};
use crate::{model, style, ui};

/// Folders whose changes the window's tests are run for. Others reach them through `hearth` alone,
/// which the tests of the command line cover.
const WINDOW: &[&str] = &["src-tauri/", "tests/src/", "tests/tests/window/", "crates/app/src/wire"];

/// Folders whose changes the tests on a software GPU driver are run for.
const GPU: &[&str] = &[
    "crates/kernels/src/gpu",
    "crates/engine/src/check/",
    "crates/llm/tests/gpu/",
    "tests/tests/gpu/",
];

/// Tests what changed since the commit `base`.
pub fn test(base: &str) -> Outcome {
    let tree = Tree::read()?;
    let paths = tree.changed_since(base)?;
    let inputs = Inputs::read()?;
    let plan = Plan::new(&paths, &inputs);
    plan.print(&paths, base);
    if paths.is_empty() {
        return Ok(());
    }
    let mut report = Report::begin()?;
    report.step("Set-up", set_up)?;
    let mut all_passed = report.check("Formatting", stages::format) && report.check("Style", style::check);
    if all_passed && let Some(filter) = &plan.filter {
        report.step("Build", stages::build)?;
        model::link_beside_executables()?;
        let variables = quarter();
        let failed = report.tests("Rust tests", || stages::rust(filter, &variables, Failures::EndTheRun));
        all_passed = failed.is_some_and(|failed| failed.is_empty());
    }
    if all_passed && let Some(files) = &plan.ui {
        let failed = report.tests("UI tests", || stages::ui(files, &quarter()));
        all_passed = failed.is_some_and(|failed| failed.is_empty());
    }
    if all_passed {
        report.tests("Tests of xtask and of the pages", stages::xtask);
    }
    if all_passed && plan.filter.is_some() {
        report.check("Lints", stages::lints);
    }
    report.end()
}

/// The variables that select the first part of each suite with parts.
fn quarter() -> Vec<(String, String)> {
    let split = SUITES.iter().filter(|suite| suite.parts > 1);
    split
        .map(|suite| (hearth_test_parts::variable(suite.name), format!("1/{}", suite.parts)))
        .collect()
}

/// The tests to run.
struct Plan {
    /// Filter expression of the Rust tests.
    filter: Option<String>,
    /// UI test files; empty for all.
    ui: Option<Vec<String>>,
    skipped: Vec<String>,
}

impl Plan {
    fn new(paths: &[String], inputs: &Inputs) -> Self {
        let touched = |suite: &Suite| paths.iter().any(|path| inputs.contains(suite, path));
        let in_folders = |folders: &[&str]| {
            paths
                .iter()
                .any(|path| folders.iter().any(|folder| path.starts_with(folder)))
        };
        let mut skipped = vec!["three of four parts of each suite with parts".to_owned()];
        let mut filters = Vec::new();
        for suite in SUITES {
            let runs = suite.stage == Stage::Rust
                && touched(suite)
                && (suite.name != "window" || in_folders(WINDOW))
                && (suite.name != "gpu" || in_folders(GPU));
            if runs {
                filters.extend(suite.tests.iter().map(Tests::filter));
            } else if suite.stage != Stage::Ui {
                skipped.push(suite.name.to_owned());
            }
        }
        let ui_paths: Vec<&String> = paths
            .iter()
            .filter(|path| path.starts_with("ui/") && !is_unbuilt(path))
            .collect();
        let ui_suite = |suite: &&Suite| suite.stage == Stage::Ui && touched(suite);
        let ui = match (ui_paths.as_slice(), SUITES.iter().any(|suite| ui_suite(&suite))) {
            ([], false) => {
                skipped.push("ui".to_owned());
                None
            }
            // Files outside of ui/ that its tests read.
            ([], true) => Some(Vec::new()),
            (paths, _) => Some(ui::affected(paths)),
        };
        Self {
            filter: (!filters.is_empty()).then(|| filters.join(" | ")),
            ui,
            skipped,
        }
    }

    fn print(&self, paths: &[String], base: &str) {
        announce(&format!("{} files differ from {base}", paths.len()));
        for path in paths.iter().take(20) {
            println!("    {path}");
        }
        println!("    Rust tests: {}", self.filter.as_deref().unwrap_or("none"));
        match self.ui.as_deref() {
            None => println!("    UI tests: none"),
            Some([]) => println!("    UI tests: all"),
            Some(files) => println!("    UI tests: {}", files.join(" ")),
        }
        println!("    Skipped: {}.", self.skipped.join(", "));
        println!("    `cargo xtask test` runs what a commit needs.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(paths: &[&str]) -> Plan {
        let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
        Plan::new(&paths, &Inputs::read().expect("this workspace"))
    }

    #[test]
    fn changes_select_their_tests_and_the_rest_is_listed_as_skipped() {
        let page = plan(&["docs/SAFETY.md"]);
        assert!(page.filter.expect("tests of pages").contains("quants_page::") && page.ui.is_none());
        let llm = plan(&["crates/llm/src/lib.rs"]);
        let filter = llm.filter.expect("tests");
        assert!(filter.contains("package(=hearth-llm)") && filter.contains("package(=hearth-engine)"));
        assert!(!filter.contains("package(=hearth-formats)"), "{filter}");
        for suite in ["window", "gpu", "formats", "fuzz", "ui"] {
            assert!(
                llm.skipped.iter().any(|skipped| skipped == suite),
                "{suite}: {:?}",
                llm.skipped
            );
        }
        let fixture = plan(&["tests/fixtures/models/llama.gguf"]).filter.expect("tests");
        assert!(fixture.contains("package(=hearth-formats)") && fixture.contains("package(=hearth-engine)"));
        let gpu = plan(&["crates/kernels/src/gpu/mod.rs"]);
        assert!(gpu.filter.expect("tests").contains("binary(=gpu)"));
    }
}

//! `cargo xtask test --changed`: what the changes since a commit can break first.
//!
//! It ends at the first failing test, prints what it skipped, and records nothing.

use super::{set_up, stages};
use crate::nextest::Failures;
use crate::process::{Outcome, announce};
use crate::report::Report;
use crate::suites::{Inputs, Tree, is_page};
use crate::{model, paths, ui};
use std::collections::BTreeSet;

/// Packages whose programs the end-to-end tests start, so that these depend on everything.
const END_TO_END: &str = "hearth-tests";

/// Folders whose changes the window's tests are run for. Others reach them through `hearth` alone,
/// which the tests of the command line cover.
const WINDOW: [&str; 3] = ["src-tauri/", "tests/", "crates/app/src/wire"];

/// Tests what changed since the commit `base`.
pub fn test(base: &str) -> Outcome {
    let tree = Tree::read()?;
    let paths = tree.changed_since(base)?;
    let inputs = Inputs::read()?;
    let plan = Plan::new(&paths, &inputs);
    plan.print(&paths, base);
    let mut report = Report::begin()?;
    if paths.is_empty() {
        return Ok(());
    }
    report.step("Set-up", set_up)?;
    let mut go_on = report.check("Formatting", stages::format);
    if go_on && let Some(filter) = &plan.filter {
        report.step("Build", stages::build)?;
        model::link_beside_executables()?;
        let variables = quarter();
        let failed = report.tests("Rust tests", || stages::rust(filter, &variables, Failures::EndTheRun));
        go_on = failed.is_some_and(|failed| failed.is_empty());
    }
    if go_on && let Some(files) = &plan.ui {
        let failed = report.tests("UI tests", || stages::ui(files, &quarter()));
        go_on = failed.is_some_and(|failed| failed.is_empty());
    }
    if go_on {
        report.tests("Tests of xtask and of the pages", stages::xtask);
    }
    if go_on && plan.filter.is_some() {
        report.check("Lints", stages::lints);
    }
    report.end()
}

/// Split suites run a quarter here.
fn quarter() -> Vec<(String, String)> {
    let name = |suite: &str| (format!("HEARTH_PART_{}", suite.to_uppercase()), "1/4".to_owned());
    ["gpu", "levels", "faults", "axe"].map(name).into()
}

/// What to run.
struct Plan {
    /// Filter expression of the Rust tests.
    filter: Option<String>,
    /// UI test files; empty for all.
    ui: Option<Vec<String>>,
    skipped: Vec<String>,
}

impl Plan {
    fn new(paths: &[String], inputs: &Inputs) -> Self {
        let mut skipped =
            vec!["three quarters of the suites gpu, levels, faults and axe, assertions, fuzzing".to_owned()];
        let packages: BTreeSet<&str> = inputs
            .packages_of(paths)
            .into_iter()
            .filter(|name| *name != "xtask")
            .collect();
        let ui_paths: Vec<&String> = paths
            .iter()
            .filter(|path| path.starts_with("ui/") && !is_page(path))
            .collect();
        let known = |path: &String| is_page(path) || path.starts_with("ui/") || path.starts_with("xtask/");
        let unknown = paths
            .iter()
            .any(|path| !known(path) && inputs.packages_of(std::slice::from_ref(path)).is_empty());
        let pages = "(package(=hearth-kernels) & test(page::)) | (package(=hearth-formats) & test(readme))";
        let filter = if unknown {
            Some("all()".to_owned())
        } else if !packages.is_empty() {
            let dependents: Vec<String> = packages.iter().map(|name| format!("rdeps(={name})")).collect();
            let mut filter = format!("({})", dependents.join(" | "));
            // What links no changed package but starts its programs.
            filter += &format!(" | package(={END_TO_END})");
            if paths
                .iter()
                .any(|path| WINDOW.iter().any(|folder| path.starts_with(folder)))
            {
                Some(filter)
            } else {
                skipped.push("the window's tests".to_owned());
                Some(format!("({filter}) - (package(={END_TO_END}) & binary(=window))"))
            }
        } else if paths.iter().any(|path| is_page(path)) {
            Some(pages.to_owned())
        } else {
            None
        };
        let ui = if unknown {
            Some(Vec::new())
        } else if ui_paths.is_empty() {
            skipped.push("the UI's tests".to_owned());
            None
        } else {
            Some(ui::affected(&ui_paths))
        };
        Self { filter, ui, skipped }
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
        println!("    Skipped: {}.", self.skipped.join("; "));
        println!(
            "    `cargo xtask test` in {} runs what a commit needs.",
            paths::root().display()
        );
    }
}

//! `cargo xtask test`: runs checks and tests, and prints a report.

mod changed;
mod options;
mod stages;

use crate::measure::landed;
use crate::nextest::{Failures, list_tests};
use crate::process::{Outcome, announce, read};
use crate::report::Report;
use crate::setup::setup;
use crate::suites::{self, Choice, Inputs, Ledger, Mode, Stage, Tests, Tree};
use crate::system::Purpose;
use crate::{cache, cases, fuzz, kept_tree, lock, model, paths, style, system};
use options::Options;
use std::collections::BTreeSet;
use std::process::Command;

/// Runs the tests that these words select. Continues after a failure, so that one run reports
/// everything to fix.
///
/// # Errors
/// Names what failed.
pub fn test(words: &[String]) -> Outcome {
    let options = Options::parse(words)?;
    // Held until the process ends.
    let _lock = lock::take()?;
    match options {
        Options::Changed(base) => changed::test(&base),
        Options::Run(mode) => match kept_tree::wanted() {
            Some(tree) => kept_tree::run_in(&tree, words),
            None => Run::begin(&mode)?.test(),
        },
    }
}

/// One run.
struct Run {
    report: Report,
    tree: Tree,
    choices: Vec<Choice>,
    ledger: Ledger,
}

impl Run {
    /// Sets up, and chooses what to run.
    fn begin(mode: &Mode) -> Outcome<Self> {
        let mut report = Report::begin()?;
        report.step("Set-up", set_up)?;
        let tree = Tree::read().unwrap_or_else(|problem| {
            println!("{problem} Without a git checkout all tests run.");
            Tree::default()
        });
        let mode = if tree.files.is_empty() { &Mode::Complete } else { mode };
        let ledger = Ledger::read(&cache::folder().unwrap_or_else(paths::target));
        let choices = suites::choose(mode, &tree, &Inputs::read()?, &ledger, &environment())?;
        announce("Suites and their parts");
        suites::print(&choices, &ledger);
        Ok(Self {
            report,
            tree,
            choices,
            ledger,
        })
    }

    /// Runs all stages, and prints the report even if one of them fails early.
    fn test(mut self) -> Outcome {
        if let Err(problem) = self.stages() {
            self.report.broken(&problem);
        }
        self.report.end()?;
        // `cargo xtask pairs` compares later builds with it.
        if kept_tree::is_inside()
            && let Err(problem) = landed::keep(&self.tree.commit, &paths::executable("hearth"))
        {
            println!("The executable is not kept: {problem}");
        }
        Ok(())
    }

    fn stages(&mut self) -> Outcome {
        self.report.check("Formatting", stages::format);
        self.report.check("Style", style::check);
        self.report.check("Lints", stages::lints);
        if self.runs(Stage::Ui) {
            self.ui()?;
        }
        self.report.step("Build", stages::build)?;
        model::link_beside_executables()?;
        let names = list_tests()?;
        self.report
            .check("Names of all Rust tests", || cases::compare("rust", &names));
        if self.runs(Stage::Rust) {
            self.rust()?;
        }
        self.report.tests("Tests of xtask and of the pages", stages::xtask);
        if self.runs(Stage::Assertions) {
            self.assertions()?;
        }
        if self.runs(Stage::Fuzz) {
            self.fuzz()?;
        }
        Ok(())
    }

    fn runs(&self, stage: Stage) -> bool {
        self.in_stage(stage).any(Choice::runs)
    }

    fn in_stage(&self, stage: Stage) -> impl Iterator<Item = &Choice> {
        self.choices.iter().filter(move |choice| choice.suite.stage == stage)
    }

    fn choice(&self, name: &str) -> Option<&Choice> {
        self.choices
            .iter()
            .find(|choice| choice.suite.name == name && choice.runs())
    }

    /// The variables that tell test processes which parts to run, and where to list their cases.
    fn variables(&self) -> Vec<(String, String)> {
        let split = self
            .choices
            .iter()
            .filter(|choice| choice.suite.parts > 1 && choice.runs());
        let mut variables: Vec<_> = split
            .map(|choice| (hearth_test_parts::variable(choice.suite.name), choice.variable()))
            .collect();
        variables.push((
            hearth_test_parts::CASES.to_owned(),
            cases::recorded().display().to_string(),
        ));
        variables
    }

    fn ui(&mut self) -> Outcome {
        let runs_whole_suite = self.choice("ui").is_some();
        // Without the whole suite, only the accessibility tests run, a part at a time.
        let files = if runs_whole_suite {
            vec![]
        } else {
            vec!["tests/browser/axe".to_owned()]
        };
        let variables = self.variables();
        let mut names = BTreeSet::new();
        let failed = self.report.tests("UI tests", || {
            let results = stages::ui(&files, &variables)?;
            names = results.names();
            Ok(results)
        });
        let passed = failed.is_some_and(|failed| failed.is_empty());
        let is_complete = !runs_whole_suite
            || self
                .report
                .check("Names of all UI tests", || cases::compare("ui", &names));
        self.record(Stage::Ui, |_| passed && is_complete)
    }

    fn rust(&mut self) -> Outcome {
        let suites = self.in_stage(Stage::Rust).filter(|choice| choice.runs());
        let filters: Vec<String> = suites
            .flat_map(|choice| choice.suite.tests)
            .map(Tests::filter)
            .collect();
        let variables = self.variables();
        let mut names = BTreeSet::new();
        let failed = self.report.tests("Rust tests", || {
            let results = stages::rust(&filters.join(" | "), &variables, Failures::GoOn)?;
            names = results.names();
            Ok(results)
        });
        self.record(Stage::Rust, |choice| {
            let is_of_suite = |name: &&String| {
                let (executable, test) = name.split_once(' ').unwrap_or((name, ""));
                choice.suite.tests.iter().any(|tests| tests.contains(executable, test))
            };
            let failed = failed
                .as_ref()
                .is_none_or(|failed| failed.iter().any(|name| is_of_suite(&name)));
            // A suite of which no test ran has not passed.
            !failed && names.iter().any(|name| is_of_suite(&name))
        })
    }

    fn assertions(&mut self) -> Outcome {
        let failed = self
            .report
            .tests("Kernels and layers, with assertions", stages::assertions);
        let passed = failed.is_some_and(|failed| failed.is_empty());
        self.record(Stage::Assertions, |_| passed)
    }

    fn fuzz(&mut self) -> Outcome {
        if !cfg!(target_os = "linux") {
            announce("Fuzzing is skipped: CI runs it on Linux. The Rust tests replayed its inputs.");
            return Ok(());
        }
        let parts = self.choice("fuzz").map(Choice::variable);
        let mut words = vec!["--seed".to_owned(), "1".to_owned()];
        words.extend(parts.into_iter().flat_map(|parts| ["--parts".to_owned(), parts]));
        let passed = self.report.check("Fuzzing", || fuzz::fuzz(&words));
        self.record(Stage::Fuzz, |_| passed)
    }

    /// Records which parts of a stage's suites passed: their tests passed and, in a suite with
    /// parts, exactly the cases of the chosen parts ran.
    fn record(&mut self, stage: Stage, passed: impl Fn(&Choice) -> bool) -> Outcome {
        let Self {
            report,
            tree,
            choices,
            ledger,
        } = self;
        for choice in choices
            .iter()
            .filter(|choice| choice.suite.stage == stage && choice.runs())
        {
            let name = choice.suite.name;
            let mut passed = passed(choice);
            // A failed test lists no further cases.
            if passed && choice.suite.parts > 1 {
                passed = report.check(&format!("Cases of the suite {name}"), || cases::check(choice));
            }
            let inputs = kept_tree::is_inside().then_some(choice.inputs.as_str());
            for &(part, _) in &choice.parts {
                ledger.set((name, part, choice.suite.parts), passed, &tree.commit, inputs)?;
            }
        }
        Ok(())
    }
}

/// Other dependencies of tests: the compiler, the machine, the browser, and variables.
fn environment() -> String {
    let program = |name: &str| read(Command::new(name).arg("--version")).unwrap_or_default();
    let browser = system::browser()
        .map(|path| program(&path.to_string_lossy()))
        .unwrap_or_default();
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let is_relevant =
        |name: &str| name == "RUSTFLAGS" || (name.starts_with("HEARTH_") && !name.ends_with("_KEPT_TREE"));
    let mut variables: Vec<String> = std::env::vars()
        .filter(|(name, _)| is_relevant(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    variables.sort();
    let compiler = read(Command::new("rustc").arg("-vV")).unwrap_or_default();
    [compiler, program("node"), browser, cpu.to_owned(), variables.join("\n")].join("\n")
}

/// Installs and fetches what tests need.
fn set_up() -> Outcome {
    println!("Tests need more than a build: a browser, a virtual display, the window's WebDriver, and chat templates.");
    setup(Purpose::Test)?;
    if cfg!(target_os = "linux") {
        stages::driver()?;
    }
    Ok(())
}

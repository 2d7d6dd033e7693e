//! Runs a test program that writes a JUnit report, and reads the report.

use crate::process::{Outcome, announce, shown};
use quick_junit::{Report, TestCaseStatus};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Tests that take fewer seconds are not listed with their time.
const MEASURABLE: f64 = 0.01;

/// The tests that were run, as `suite test`.
#[derive(Debug, Default, PartialEq)]
pub struct TestResults {
    pub passed: Vec<String>,
    pub failed: Vec<String>,
    /// Seconds of each test that took a measurable time.
    pub seconds: Vec<(f64, String)>,
}

impl TestResults {
    /// The names of all tests that ran.
    pub fn names(&self) -> BTreeSet<String> {
        self.passed.iter().chain(&self.failed).cloned().collect()
    }

    /// Adds the results of another command.
    pub fn append(&mut self, other: Self) {
        self.passed.extend(other.passed);
        self.failed.extend(other.failed);
        self.seconds.extend(other.seconds);
    }
}

/// Runs `command`, which writes its report to `file`. A failed test is not an error.
///
/// # Errors
/// If the command cannot be started, reports no test, or fails without a failed test: then it
/// ended before all tests had run.
pub fn run_tests(what: &str, command: &mut Command, file: &Path) -> Outcome<TestResults> {
    announce(what);
    // A report of an earlier run must not count if this one ends early.
    if file.exists() {
        fs::remove_file(file).map_err(|error| format!("{} could not be deleted ({error}).", file.display()))?;
    }
    let start = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("{what}: could not start `{}` ({error}).", shown(command)))?;
    println!("    {:.0} s", start.elapsed().as_secs_f64());
    let ended_early = || format!("{what}: ended early ({status}). The command was: {}", shown(command));
    let text = fs::read_to_string(file).map_err(|_| ended_early())?;
    let results = TestResults::read(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    // nextest exits with 100 after failed tests, Vitest with 1; other codes and signals end a run
    // early.
    let is_finished = status.success() || matches!(status.code(), Some(1 | 100));
    match (
        is_finished && status.success(),
        results.passed.len(),
        results.failed.len(),
    ) {
        _ if !is_finished => Err(ended_early()),
        (true, 0, 0) => Err(format!("{what}: no test was run. The command was: {}", shown(command))),
        (false, _, 0) => Err(ended_early()),
        _ => Ok(results),
    }
}

impl TestResults {
    /// Parses a report in the JUnit format of nextest and Vitest.
    fn read(xml: &str) -> Outcome<Self> {
        let report = Report::deserialize_from_str(xml).map_err(|error| error.to_string())?;
        let mut results = Self::default();
        for suite in &report.test_suites {
            for case in &suite.test_cases {
                let name = format!("{} {}", suite.name.as_str(), case.name.as_str());
                let seconds = case.time.map_or(0.0, |time| time.as_secs_f64());
                if seconds >= MEASURABLE {
                    results.seconds.push((seconds, name.clone()));
                }
                match case.status {
                    TestCaseStatus::Success { .. } => results.passed.push(name),
                    TestCaseStatus::NonSuccess { .. } => results.failed.push(name),
                    TestCaseStatus::Skipped { .. } => {}
                }
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_parsed() {
        let nextest = r#"<?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="nextest-run" tests="2" failures="1" errors="0" time="0.1">
                <testsuite name="hearth-llm::gpu" tests="2" disabled="0" errors="0" failures="1">
                    <testcase name="layer::passes" classname="hearth-llm::gpu" time="4.5"/>
                    <testcase name="layer::fails" classname="hearth-llm::gpu" time="0.004">
                        <failure message="panicked at 1 &lt; 2" type="test failure with exit code 101">why</failure>
                        <system-err>why</system-err>
                    </testcase>
                </testsuite>
            </testsuites>"#;
        let vitest = r#"<?xml version="1.0" encoding="UTF-8" ?>
            <testsuites name="vitest tests" tests="2" failures="0" errors="0" time="0.002">
                <testsuite name="tests/unit/format.test.ts" timestamp="2026-01-31T17:31:52.000Z" hostname="host"
                           tests="2" failures="0" errors="0" skipped="1" time="0.001">
                    <testcase classname="tests/unit/format.test.ts" name="sizes &gt; are decimal" time="0.0005">
                    </testcase>
                    <testcase classname="tests/unit/format.test.ts" name="later" time="0"><skipped/></testcase>
                </testsuite>
            </testsuites>"#;
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (xml, passed, failed) in [
            (
                nextest,
                names(&["hearth-llm::gpu layer::passes"]),
                names(&["hearth-llm::gpu layer::fails"]),
            ),
            (
                vitest,
                names(&["tests/unit/format.test.ts sizes > are decimal"]),
                names(&[]),
            ),
        ] {
            let results = TestResults::read(xml).expect("a report");
            assert_eq!((results.passed, results.failed), (passed, failed));
        }
        let seconds = TestResults::read(nextest).expect("a report").seconds;
        assert_eq!(seconds, [(4.5, "hearth-llm::gpu layer::passes".to_owned())]);
        assert!(TestResults::read("<testsuites").is_err());
    }

    #[test]
    fn a_report_of_an_earlier_run_does_not_count() {
        let file = std::env::temp_dir().join(format!("hearth-junit-{}.xml", std::process::id()));
        fs::write(
            &file,
            "<testsuites name=\"old\" tests=\"0\" failures=\"0\" errors=\"0\"/>",
        )
        .expect("a file");
        let result = run_tests("Version", Command::new("cargo").arg("--version"), &file);
        assert!(result.is_err_and(|problem| problem.contains("ended early")));
        assert!(!file.exists());
    }
}

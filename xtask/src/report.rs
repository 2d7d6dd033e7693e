//! The report of a test run: stages, slowest tests, totals. It is printed and written to
//! `target/test-report/`, with the JUnit file of each stage.

use crate::junit::TestResults;
use crate::paths;
use crate::process::{Outcome, announce};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Number of slowest tests that are listed.
const SLOWEST: usize = 25;

/// The folder of reports.
pub fn folder() -> PathBuf {
    paths::target().join("test-report")
}

/// The JUnit file of a stage.
pub fn junit(stage: &str) -> PathBuf {
    folder().join(format!("{stage}.xml"))
}

/// The results of a run so far.
#[derive(Debug)]
pub struct Report {
    started: Instant,
    stages: Vec<Line>,
    slowest: Vec<(f64, String)>,
    broken: Vec<String>,
}

/// A line of the table of stages.
#[derive(Debug)]
struct Line {
    name: String,
    seconds: f64,
    passed: usize,
    failed: usize,
}

impl Report {
    /// Begins a run, without the files of the last one.
    ///
    /// # Errors
    /// If the folder cannot be emptied.
    pub fn begin() -> Outcome<Self> {
        let folder = folder();
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        fs::create_dir_all(&folder).map_err(failed)?;
        Ok(Self::default())
    }

    /// Runs a stage that passes or fails as a whole. Returns whether it passed.
    pub fn check(&mut self, name: &str, run: impl FnOnce() -> Outcome) -> bool {
        let start = Instant::now();
        let outcome = run();
        let passed = outcome.is_ok();
        if let Err(problem) = outcome {
            eprintln!("{problem}");
            self.broken.push(name.to_owned());
        }
        self.line(name, start, usize::from(passed), usize::from(!passed));
        passed
    }

    /// Runs a stage of tests. Returns the failed ones; `None` if it ended early.
    pub fn tests(&mut self, name: &str, run: impl FnOnce() -> Outcome<TestResults>) -> Option<Vec<String>> {
        let start = Instant::now();
        match run() {
            Ok(results) => {
                self.line(name, start, results.passed.len(), results.failed.len());
                if !results.failed.is_empty() {
                    self.broken.push(format!("{name} ({})", results.failed.join(", ")));
                }
                self.slowest.extend(results.seconds);
                Some(results.failed)
            }
            // An early end counts as a failure.
            Err(problem) => {
                self.check(name, || Err(problem));
                None
            }
        }
    }

    /// Runs a step that later stages need. It does not count as a check.
    ///
    /// # Errors
    /// Returns the error of `run`.
    pub fn step<T>(&mut self, name: &str, run: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let start = Instant::now();
        let outcome = run();
        self.line(name, start, 0, 0);
        outcome
    }

    /// Records a problem that ends the run early.
    pub fn broken(&mut self, problem: &str) {
        eprintln!("{problem}");
        self.broken.push(problem.to_owned());
    }

    fn line(&mut self, name: &str, start: Instant, passed: usize, failed: usize) {
        self.stages.push(Line {
            name: name.to_owned(),
            seconds: start.elapsed().as_secs_f64(),
            passed,
            failed,
        });
    }

    /// Prints the report and writes it.
    ///
    /// # Errors
    /// Names what failed.
    pub fn end(mut self) -> Outcome {
        announce("Report");
        let text = self.text();
        print!("{text}");
        let file = folder().join("report.txt");
        if let Err(error) = fs::write(&file, &text) {
            eprintln!("{} could not be written ({error}).", file.display());
        }
        let sum = |count: fn(&Line) -> usize| self.stages.iter().map(count).sum::<usize>();
        announce(&format!(
            "{} passed, {} failed",
            sum(|line| line.passed),
            sum(|line| line.failed)
        ));
        if self.broken.is_empty() {
            Ok(())
        } else {
            Err(format!("Failed: {}.", self.broken.join(", ")))
        }
    }

    /// The tables.
    fn text(&mut self) -> String {
        let mut text = format!("{:<46}{:>7}{:>8}{:>8}\n", "stage", "s", "passed", "failed");
        for line in &self.stages {
            let Line {
                name,
                seconds,
                passed,
                failed,
            } = line;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<46}{seconds:>7.0}{passed:>8}{failed:>8}");
        }
        let _ = writeln!(text, "{:<46}{:>7.0}", "all", self.started.elapsed().as_secs_f64());
        self.slowest.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        if !self.slowest.is_empty() {
            let _ = writeln!(text, "\n{SLOWEST} slowest tests (some run in parallel)");
        }
        for (seconds, name) in self.slowest.iter().take(SLOWEST) {
            let _ = writeln!(text, "{seconds:>7.1} s  {name}");
        }
        text
    }
}

impl Default for Report {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            stages: Vec::new(),
            slowest: Vec::new(),
            broken: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_slowest_tests_are_listed() {
        let mut report = Report::default();
        assert!(report.check("Formatting", || Ok(())));
        let seconds = (0..30).map(|n| (f64::from(n), format!("test {n}"))).collect();
        let results = TestResults {
            passed: vec!["a".to_owned(), "b".to_owned()],
            failed: vec!["c".to_owned()],
            seconds,
        };
        assert_eq!(report.tests("Rust", || Ok(results)), Some(vec!["c".to_owned()]));
        assert_eq!(report.tests("UI", || Err("ended early".to_owned())), None);
        let text = report.text();
        let stage = |name: &str| {
            text.lines()
                .find(|line| line.starts_with(name))
                .expect("a line")
                .to_owned()
        };
        assert!(stage("Formatting").ends_with("1       0"), "{text}");
        assert!(stage("Rust").ends_with("2       1"), "{text}");
        assert!(stage("UI").ends_with("0       1"), "{text}");
        assert!(text.contains("29.0 s  test 29") && !text.contains("test 4\n"), "{text}");
        assert_eq!(report.broken, ["Rust (c)", "UI"]);
    }
}

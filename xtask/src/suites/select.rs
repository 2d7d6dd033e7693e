//! Which parts of which suites a run executes.

use super::inputs::Inputs;
use super::ledger::Ledger;
use super::table::{SUITES, Suite};
use super::tree::Tree;
use crate::process::Outcome;

/// The requested parts of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Changed parts, failed parts, and one part of each split suite.
    Due,
    /// Every part.
    Complete,
    /// Every suite, and this part of the split ones, from 1.
    Part(usize),
}

/// The reason that a run executes a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The options of the run select it.
    Requested,
    /// No record shows that it passed with the present files.
    Changed,
    /// Its last run failed.
    Failed,
    /// It waited longest.
    Turn,
}

impl Reason {
    fn words(self) -> &'static str {
        match self {
            Self::Requested => "asked for",
            Self::Changed => "CI has not passed it with these files",
            Self::Failed => "failed last time",
            Self::Turn => "its turn",
        }
    }
}

/// The parts of a suite that a run executes.
#[derive(Debug)]
pub struct Choice {
    pub suite: &'static Suite,
    /// Numbers from 1, with the reason. Empty if the suite does not run.
    pub parts: Vec<(usize, Reason)>,
    /// Hash of the suite's files and the compiler.
    pub inputs: String,
}

impl Choice {
    /// Whether the suite runs.
    pub fn runs(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The value of the suite's environment variable, such as `2,4/4`.
    pub fn variable(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|(part, _)| part.to_string()).collect();
        format!("{}/{}", parts.join(","), self.suite.parts)
    }
}

/// Chooses the parts of each suite.
///
/// A part runs if no record shows that CI passed it with the same files and compiler, or if its
/// last run failed. Without a record, a split suite counts as changed if recent commits touched it.
/// If anything but pages changed, each other split suite also runs the part that waited longest, or
/// without a record one chosen by the number of commits.
///
/// # Errors
/// If git cannot be run.
pub fn choose(mode: &Mode, tree: &Tree, inputs: &Inputs, ledger: &Ledger, compiler: &str) -> Outcome<Vec<Choice>> {
    let recent = tree.changed_recently();
    let mut choices = Vec::new();
    for suite in SUITES {
        let hash = match tree.files.as_slice() {
            [] => String::new(),
            _ => tree.hash(compiler, |path| inputs.contains(suite, path))?,
        };
        let touched = recent.iter().any(|path| inputs.contains(suite, path));
        let parts = match mode {
            Mode::Complete => (1..=suite.parts).map(|part| (part, Reason::Requested)).collect(),
            Mode::Part(part) => vec![(if suite.parts == 1 { 1 } else { *part }, Reason::Requested)],
            Mode::Due => due(suite, ledger, &hash, touched),
        };
        choices.push(Choice {
            suite,
            parts,
            inputs: hash,
        });
    }
    let pages_only = |choice: &Choice| !choice.runs() || choice.suite.name == "pages";
    if *mode == Mode::Due && !choices.iter().all(pages_only) {
        for choice in choices.iter_mut().filter(|choice| choice.suite.parts > 1) {
            let changed = choice.parts.iter().any(|(_, reason)| *reason == Reason::Changed);
            // A part that fails in every run must not keep the others waiting.
            let chosen: Vec<usize> = choice.parts.iter().map(|&(part, _)| part).collect();
            let next = longest_waiting(choice.suite, &chosen, ledger, tree.count).filter(|_| !changed);
            choice.parts.extend(next.map(|part| (part, Reason::Turn)));
        }
    }
    Ok(choices)
}

/// The parts of a suite that must run.
fn due(suite: &Suite, ledger: &Ledger, inputs: &str, touched: bool) -> Vec<(usize, Reason)> {
    let reason = |part| {
        let record = ledger.record(suite.name, part, suite.parts);
        let recorded = record.and_then(|record| record.inputs.as_deref());
        let is_changed = recorded.map_or(suite.parts == 1 || touched, |recorded| recorded != inputs);
        match record {
            Some(record) if record.failed || record.failed_in_ci => Some(Reason::Failed),
            _ => is_changed.then_some(Reason::Changed),
        }
    };
    (1..=suite.parts)
        .filter_map(|part| Some((part, reason(part)?)))
        .collect()
}

/// The part that is not chosen and passed the longest time ago, or never.
fn longest_waiting(suite: &Suite, chosen: &[usize], ledger: &Ledger, commits: usize) -> Option<usize> {
    // Without records, the number of commits decides which part comes first.
    let first = commits % suite.parts;
    let order = (0..suite.parts).map(|offset| (first + offset) % suite.parts + 1);
    order
        .filter(|part| !chosen.contains(part))
        .min_by_key(|&part| ledger.passed_at(suite.name, part, suite.parts))
}

/// Prints the parts that a run executes, and the age of the last pass of each part.
pub fn print(choices: &[Choice], ledger: &Ledger) {
    for choice in choices {
        let Choice { suite, parts, .. } = choice;
        let mut words = Vec::new();
        for part in 1..=suite.parts {
            let name = if suite.parts == 1 {
                String::new()
            } else {
                format!("{part}/{} ", suite.parts)
            };
            let passed = ledger
                .record(suite.name, part, suite.parts)
                .and_then(|record| record.passed.as_ref());
            let age = passed.map_or("never passed here".to_owned(), |pass| format!("passed {}", pass.age()));
            words.push(match parts.iter().find(|(chosen, _)| *chosen == part) {
                Some((_, reason)) => format!("{name}runs ({}; {age})", reason.words()),
                None if suite.parts == 1 => format!("unchanged ({age})"),
                None => format!("{name}waits ({age})"),
            });
        }
        println!("    {:<12}{}", suite.name, words.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPLIT: &Suite = &Suite {
        name: "split",
        parts: 4,
        stage: super::super::Stage::Rust,
        tests: &[],
        paths: &[],
    };

    fn ledger(name: &str) -> (Ledger, std::path::PathBuf) {
        let folder = std::env::temp_dir().join(format!("hearth-select-{name}-{}", std::process::id()));
        (Ledger::read(&folder), folder)
    }

    #[test]
    fn parts_rotate_and_failed_or_changed_parts_always_run() {
        let (mut ledger, folder) = ledger("turns");
        assert_eq!(longest_waiting(SPLIT, &[], &ledger, 7), Some(4));
        for part in [4, 1, 2] {
            ledger
                .set(("split", part, 4), true, "c", Some("same"))
                .expect("written");
        }
        assert_eq!(longest_waiting(SPLIT, &[], &ledger, 7), Some(3), "never ran");
        ledger.set(("split", 3, 4), true, "c", Some("same")).expect("written");
        assert_eq!(due(SPLIT, &ledger, "same", true), []);
        assert_eq!(due(SPLIT, &ledger, "other", false).len(), 4);
        ledger.set(("split", 2, 4), false, "c", None).expect("written");
        assert_eq!(due(SPLIT, &ledger, "same", false), [(2, Reason::Failed)]);
        let next = longest_waiting(SPLIT, &[2], &ledger, 7);
        assert!(
            next.is_some_and(|part| part != 2),
            "a failing part keeps others waiting"
        );
        std::fs::remove_dir_all(folder).expect("the folder of the test");
    }

    #[test]
    fn without_records_a_split_suite_runs_only_if_it_was_touched() {
        let (ledger, _) = ledger("none");
        assert_eq!(due(SPLIT, &ledger, "any", false), []);
        assert_eq!(due(SPLIT, &ledger, "any", true).len(), 4);
        let whole = SUITES.iter().find(|suite| suite.parts == 1).expect("a suite");
        assert_eq!(due(whole, &ledger, "any", false), [(1, Reason::Changed)]);
    }

    #[test]
    fn every_part_of_a_suite_runs_within_as_many_runs_as_it_has_parts() {
        let (mut ledger, folder) = ledger("all");
        let mut seen = Vec::new();
        for run in 0..4 {
            let part = longest_waiting(SPLIT, &[], &ledger, 7 * run).expect("a part");
            seen.push(part);
            let time = 1000 + run as u64;
            ledger
                .set_at(time, ("split", part, 4), true, "c", None)
                .expect("written");
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4]);
        std::fs::remove_dir_all(folder).expect("the folder of the test");
    }
}

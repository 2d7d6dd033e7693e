//! The committed lists of all test cases, `tests/cases/*.txt`, and their comparison with a run.
//!
//! A list has a line for each test or case, sorted. A name that disappears from a run makes it
//! fail unless `removed.txt` gives a reason, so no test is lost by moving it or by splitting a
//! suite into parts. `cargo xtask cases` takes over what the last run found.

use crate::process::{Outcome, announce};
use crate::suites::Choice;
use crate::{paths, report};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the committed lists.
fn committed() -> PathBuf {
    paths::root().join("tests").join("cases")
}

/// The folder of the lists that the last run found.
fn found() -> PathBuf {
    report::folder().join("cases")
}

/// The folder in which test processes list the cases of split suites (`crates/test-parts`).
pub fn recorded() -> PathBuf {
    report::folder().join("recorded")
}

/// Compares the names that a run found with the committed list, and keeps them for
/// `cargo xtask cases`.
///
/// # Errors
/// Names what is missing or new.
pub fn compare(list: &str, names: &BTreeSet<String>) -> Outcome {
    announce(&format!("Comparing {} names with tests/cases/{list}.txt", names.len()));
    write(&found(), list, names)?;
    let expected = read(&committed(), list)?;
    let removed = removed()?;
    let lost: Vec<&String> = expected
        .difference(names)
        .filter(|name| !removed.contains_key(*name))
        .collect();
    let new: Vec<&String> = names.difference(&expected).collect();
    let mut problem = String::new();
    for (what, names) in [("no longer exist", lost), ("are not in the list", new)] {
        if !names.is_empty() {
            let shown: Vec<&str> = names.iter().take(20).map(|name| name.as_str()).collect();
            problem += &format!("{} names {what}, such as:\n    {}\n", names.len(), shown.join("\n    "));
        }
    }
    match problem.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "tests/cases/{list}.txt: {problem}Run `cargo xtask cases` and commit the list. A name that no longer \
             exists needs a line in tests/cases/removed.txt: the name, a tab, the reason."
        )),
    }
}

/// Checks the cases that the processes of a run listed: each ran if its part was chosen, and only
/// then, and together they are the committed lists.
///
/// # Errors
/// Names what is wrong.
pub fn compare_recorded(choices: &[Choice]) -> Outcome {
    let lists = recorded_lists(&recorded())?;
    for choice in choices.iter().filter(|choice| choice.suite.parts > 1 && choice.runs()) {
        let name = choice.suite.name;
        let none = Vec::new();
        let cases = lists.get(name).unwrap_or(&none);
        for case in cases {
            let chosen = choice.parts.iter().any(|&(part, _)| part == case.part);
            if case.ran != chosen {
                let done = if case.ran { "ran" } else { "was left out" };
                return Err(format!(
                    "{name}: {} {done}, but is in part {} of a run of {}.",
                    case.name,
                    case.part,
                    choice.variable()
                ));
            }
        }
        compare(name, &cases.iter().map(|case| case.name.clone()).collect())?;
    }
    Ok(())
}

/// A line that a test process wrote.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    ran: bool,
    part: usize,
    name: String,
}

/// Reads the lines of all processes, by suite.
fn recorded_lists(folder: &Path) -> Outcome<BTreeMap<String, Vec<Case>>> {
    let mut lists: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for path in files(folder) {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for line in text.lines() {
            let (suite, case) = parse(line).ok_or_else(|| format!("{}: invalid line `{line}`", path.display()))?;
            lists.entry(suite).or_default().push(case);
        }
    }
    Ok(lists)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Parses `ran 2/4 faults NAME`.
fn parse(line: &str) -> Option<(String, Case)> {
    let mut words = line.splitn(4, ' ');
    let ran = match words.next()? {
        "ran" => true,
        "left" => false,
        _ => return None,
    };
    let part = words.next()?.split_once('/')?.0.parse().ok()?;
    let suite = words.next()?.to_owned();
    let name = words.next()?.to_owned();
    Some((suite, Case { ran, part, name }))
}

/// `cargo xtask cases`: takes over the lists that the last run found.
///
/// # Errors
/// If a name would disappear without a reason.
pub fn update() -> Outcome {
    let removed = removed()?;
    let lists = files(&found());
    if lists.is_empty() {
        return Err("No run has listed its cases yet: run `cargo xtask test` first.".to_owned());
    }
    for path in lists {
        let list = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let names = read(&found(), &list)?;
        let old = read(&committed(), &list)?;
        let lost: Vec<&str> = old
            .difference(&names)
            .filter(|name| !removed.contains_key(*name))
            .map(String::as_str)
            .collect();
        if !lost.is_empty() {
            return Err(format!(
                "{list}: these names no longer exist. Write each into tests/cases/removed.txt, with a tab and the \
                 reason, or bring it back:\n{}",
                lost.join("\n")
            ));
        }
        write(&committed(), &list, &names)?;
        println!("tests/cases/{list}.txt: {} names", names.len());
    }
    Ok(())
}

fn read(folder: &Path, list: &str) -> Outcome<BTreeSet<String>> {
    let file = folder.join(format!("{list}.txt"));
    match fs::read_to_string(&file) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

fn write(folder: &Path, list: &str, names: &BTreeSet<String>) -> Outcome {
    let file = folder.join(format!("{list}.txt"));
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file, text))
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// Names of removed cases, with reasons.
fn removed() -> Outcome<BTreeMap<String, String>> {
    let mut removed = BTreeMap::new();
    for line in read(&committed(), "removed")?
        .iter()
        .filter(|line| !line.starts_with('#'))
    {
        let (name, reason) = line
            .split_once('\t')
            .filter(|(_, reason)| !reason.trim().is_empty())
            .ok_or_else(|| format!("tests/cases/removed.txt: `{line}` has no reason after a tab."))?;
        removed.insert(name.to_owned(), reason.to_owned());
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_test_processes_are_parsed() {
        let case = |ran, part, name: &str| Case {
            ran,
            part,
            name: name.to_owned(),
        };
        assert_eq!(
            parse("ran 2/4 faults kills import at 17 write"),
            Some(("faults".to_owned(), case(true, 2, "kills import at 17 write")))
        );
        assert_eq!(parse("left 1/1 axe a"), Some(("axe".to_owned(), case(false, 1, "a"))));
        for wrong in ["", "ran", "ran 2 faults a", "skipped 1/4 faults a", "ran 1/4 faults"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}

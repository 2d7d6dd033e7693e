//! The committed lists of all test cases, `tests/cases/*.txt`, and their comparison with a run.
//!
//! A list has a line for each test or case, sorted. A name that disappears from a run makes it
//! fail unless `removed.txt` gives a reason, so no test is lost by moving it or by splitting a
//! suite into parts. `cargo xtask cases` writes the lists of the last run.

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

/// The folder of the lists of the last run. Outside of the report, which the next run deletes.
fn listed() -> PathBuf {
    paths::target().join("test-cases")
}

/// The folder in which test processes list the cases of split suites (`crates/test-parts`).
pub fn recorded() -> PathBuf {
    report::folder().join("recorded")
}

/// Compares the names that a run found with the committed list, and saves them for
/// `cargo xtask cases`.
///
/// The lists are for x86-64 Linux: other systems have no window tests and no disk faults.
///
/// # Errors
/// Names the missing and new cases.
pub fn compare(list: &str, names: &BTreeSet<String>) -> Outcome {
    write(&listed(), list, names)?;
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("    {list}: names of tests are compared on x86-64 Linux only.");
        return Ok(());
    }
    if !committed().join(format!("{list}.txt")).exists() {
        // A test of xtask fails for a list that was removed.
        println!("    {list}: there is no list yet; `cargo xtask cases` writes it.");
        return Ok(());
    }
    announce(&format!("Comparing {} names with tests/cases/{list}.txt", names.len()));
    let (mut expected, removed) = (read(&committed(), list)?, removed()?);
    // Machines have different instruction sets.
    let levels: BTreeSet<&str> = names.iter().filter_map(|name| level(name)).collect();
    expected.retain(|name| level(name).is_none_or(|level| levels.contains(level)));
    let new: Vec<&str> = names.difference(&expected).map(String::as_str).collect();
    let restored: Vec<&str> = names
        .iter()
        .filter(|name| removed.contains_key(*name))
        .map(String::as_str)
        .collect();
    let groups = [
        ("no longer exist", lost(&expected, names, &removed)),
        ("are not in the list", new),
        ("are in removed.txt, but exist", restored),
    ];
    let problems: Vec<String> = groups
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(shown)
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!(
        "tests/cases/{list}.txt: {}For a name that no longer exists, add a line to tests/cases/removed.txt (name, tab, \
         reason) or bring the test back. Then run `cargo xtask cases` and commit the lists.",
        problems.concat()
    ))
}

/// The instruction set that a case's name ends with, such as `… on avx2`.
fn level(name: &str) -> Option<&str> {
    let has_level = name.starts_with("levels::") || name.starts_with("batch_invariance::");
    name.rsplit_once(" on ").filter(|_| has_level).map(|(_, level)| level)
}

/// A sentence about some names.
fn shown((problem, names): &(&str, Vec<&str>)) -> String {
    let first = names.iter().take(20).copied().collect::<Vec<_>>().join("\n    ");
    format!("{} names {problem}, such as:\n    {first}\n", names.len())
}

/// Expected names that the run did not list and `removed` gives no reason for.
fn lost<'a>(
    expected: &'a BTreeSet<String>,
    actual: &'a BTreeSet<String>,
    removed: &'a BTreeMap<String, String>,
) -> Vec<&'a str> {
    let missing = expected.difference(actual).filter(|name| !removed.contains_key(*name));
    missing.map(String::as_str).collect()
}

/// Checks the cases of a suite that the processes of a run listed: each ran if its part was chosen,
/// and only then, and together they are the committed list.
///
/// # Errors
/// Names the case that did not match.
pub fn check(choice: &Choice) -> Outcome {
    let name = choice.suite.name;
    let cases = recorded_cases(&recorded(), name)?;
    let chosen = |part: Option<usize>| part.is_none_or(|part| choice.parts.iter().any(|&(chosen, _)| chosen == part));
    if let Some(case) = cases.iter().find(|case| case.ran != chosen(case.part)) {
        let state = if case.ran { "ran" } else { "was left out" };
        let part = case.part.map_or("each part".to_owned(), |part| format!("part {part}"));
        return Err(format!(
            "{name}: {} {state}, but is in {part} of a run of {}.",
            case.name,
            choice.variable()
        ));
    }
    compare(name, &cases.iter().map(|case| case.name.clone()).collect())
}

/// A line that a test process wrote.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    ran: bool,
    /// `None` for a case that each run includes.
    part: Option<usize>,
    name: String,
}

/// Reads the lines of all processes about a suite.
fn recorded_cases(folder: &Path, suite: &str) -> Outcome<Vec<Case>> {
    let mut cases = Vec::new();
    for path in files(folder) {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for line in text.lines() {
            let (case_suite, case) = parse(line).ok_or_else(|| format!("{}: invalid line `{line}`", path.display()))?;
            if case_suite == suite {
                cases.push(case);
            }
        }
    }
    Ok(cases)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Parses `ran 2/4 faults NAME` or `ran always faults NAME`, as `crates/test-parts` writes it.
fn parse(line: &str) -> Option<(String, Case)> {
    let mut words = line.splitn(4, ' ');
    let ran = match words.next()? {
        "ran" => true,
        "left" => false,
        _ => return None,
    };
    let part = match words.next()? {
        "always" => None,
        part => Some(part.split_once('/')?.0.parse().ok()?),
    };
    let suite = words.next()?.to_owned();
    let name = words.next()?.to_owned();
    Some((suite, Case { ran, part, name }))
}

/// `cargo xtask cases`: writes the names that the last run listed to the committed lists.
///
/// # Errors
/// If a name would disappear without a reason.
pub fn update() -> Outcome {
    let removed = removed()?;
    let lists = files(&listed());
    if lists.is_empty() {
        return Err("No run has listed its cases yet: run `cargo xtask test` first.".to_owned());
    }
    for path in lists {
        let list = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let names = read(&listed(), &list)?;
        let old = read(&committed(), &list)?;
        let lost = lost(&old, &names, &removed);
        if !lost.is_empty() {
            return Err(format!(
                "{list}: these names no longer exist. Write each into tests/cases/removed.txt, with a tab and the \
                 reason, or bring the test back:\n{}",
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
    fn a_name_is_lost_unless_it_is_found_or_has_a_reason() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let removed = BTreeMap::from([("b".to_owned(), "a reason".to_owned())]);
        assert_eq!(lost(&set(&["a", "b", "c"]), &set(&["a", "d"]), &removed), ["c"]);
        assert!(lost(&set(&["a", "b"]), &set(&["a"]), &removed).is_empty());
    }

    #[test]
    fn the_instruction_set_of_a_case_is_its_end() {
        assert_eq!(
            level("levels::lower_pass_too linear on avx512+bf16"),
            Some("avx512+bf16")
        );
        assert_eq!(level("offload::any_number on a GPU"), None);
    }

    #[test]
    fn lines_of_test_processes_are_parsed() {
        let case = |ran, part: Option<usize>, name: &str| Case {
            ran,
            part,
            name: name.to_owned(),
        };
        assert_eq!(
            parse("ran 2/4 faults kills import at 17 write"),
            Some(("faults".to_owned(), case(true, Some(2), "kills import at 17 write")))
        );
        assert_eq!(
            parse("ran always faults kills import at 3 rename"),
            Some(("faults".to_owned(), case(true, None, "kills import at 3 rename")))
        );
        assert_eq!(
            parse("left 1/1 axe a"),
            Some(("axe".to_owned(), case(false, Some(1), "a")))
        );
        for wrong in ["", "ran", "ran 2 faults a", "skipped 1/4 faults a", "ran 1/4 faults"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}

//! Checks what `docs/STYLE.md` asks for and a program can check.

mod commits;
mod exceptions;
mod files;
mod names;
mod phrases;
mod text;

use crate::paths;
use crate::process::Outcome;
use exceptions::Exceptions;
use std::collections::BTreeMap;

/// The file of exceptions, from the repository's root.
const EXCEPTIONS: &str = "docs/style-exceptions.txt";

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    rule: &'static str,
    /// From 1.
    line: usize,
    /// The words found.
    words: String,
}

/// `cargo xtask style [--shrink] [PATH PREFIX]...`
///
/// # Errors
/// Lists each violation that is not an exception, and exceptions that no longer match.
pub fn style(arguments: &[String]) -> Outcome {
    match arguments.split_first() {
        None => check(),
        Some((first, [])) if first == "--shrink" => shrink(),
        _ => list(arguments),
    }
}

/// Checks all files and the newest commits.
///
/// # Errors
/// As [`style`].
pub fn check() -> Outcome {
    let exceptions = Exceptions::read(&paths::root().join(EXCEPTIONS))?;
    let (mut problems, violations) = (Vec::new(), violations()?);
    let counts = counts(&violations);
    for (path, in_file) in &violations {
        let is_new = |violation: &&Violation| {
            let count = counts[&(path.clone(), violation.rule.to_owned())];
            count > exceptions.count(path, violation.rule)
        };
        problems.extend(in_file.iter().filter(is_new).map(|violation| shown(path, violation)));
    }
    problems.extend(exceptions.stale(&counts));
    problems.extend(exceptions.forbidden());
    problems.extend(commits::problems()?);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{}\n{} places break a rule of docs/STYLE.md.",
            problems.join("\n"),
            problems.len()
        ))
    }
}

/// Prints all places in the files whose paths start with one of these prefixes.
fn list(prefixes: &[String]) -> Outcome {
    for (path, in_file) in violations()? {
        if prefixes.iter().any(|prefix| path.starts_with(prefix.as_str())) {
            in_file
                .iter()
                .for_each(|violation| println!("{}", shown(&path, violation)));
        }
    }
    Ok(())
}

/// Lowers the numbers in the file of exceptions to what the files have; never raises one.
fn shrink() -> Outcome {
    let path = paths::root().join(EXCEPTIONS);
    let counts = counts(&violations()?);
    Exceptions::read(&path)?.lowered(&counts).write(&path)
}

/// The violations of each tracked file.
fn violations() -> Outcome<Vec<(String, Vec<Violation>)>> {
    let mut by_file = Vec::new();
    for path in files::tracked()? {
        let text = std::fs::read_to_string(paths::root().join(&path)).map_err(|error| format!("{path}: {error}"))?;
        let mut in_file = phrases::check(&path, &text);
        in_file.extend(names::check(&path, &text));
        by_file.push((path, in_file));
    }
    Ok(by_file)
}

/// Number of places by path and rule.
fn counts(violations: &[(String, Vec<Violation>)]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for (path, in_file) in violations {
        for violation in in_file {
            *counts.entry((path.clone(), violation.rule.to_owned())).or_default() += 1;
        }
    }
    counts
}

fn shown(path: &str, violation: &Violation) -> String {
    format!("{path}:{}: {}: {}", violation.line, violation.rule, violation.words)
}

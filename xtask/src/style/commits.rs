//! The subjects of commits since `docs/STYLE.md` was added.

use crate::process::Outcome;
use crate::suites::git_output;

/// Maximum columns of a subject.
const COLUMNS: usize = 72;

/// Subjects that are too long or name no area.
///
/// # Errors
/// If git fails.
pub fn problems() -> Outcome<Vec<String>> {
    let first = git_output(&["log", "--diff-filter=A", "--format=%H", "--", "docs/STYLE.md"])?;
    let Some(first) = first.lines().last() else {
        return Ok(Vec::new());
    };
    let subjects = git_output(&["log", "--no-merges", "--format=%h %s", &format!("{first}..HEAD")])?;
    Ok(subjects.lines().filter_map(problem).collect())
}

fn problem(line: &str) -> Option<String> {
    let (commit, subject) = line.split_once(' ')?;
    let columns = subject.chars().count();
    let area = subject.split_once(": ").map(|(area, _)| area);
    let has_area = area.is_some_and(|area| !area.is_empty() && !area.contains(' '));
    match (columns > COLUMNS, has_area) {
        (true, _) => Some(format!(
            "commit {commit}: its subject has {columns} columns, not {COLUMNS}"
        )),
        (_, false) => Some(format!("commit {commit}: `{subject}` is not `area: imperative`")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_an_area_and_a_width() {
        assert_eq!(problem("abc kernels: split a loop"), None);
        assert!(problem("abc Mend what a reading found").is_some());
        assert!(problem(&format!("abc kernels: {}", "x".repeat(72))).is_some());
    }
}

//! The list of places that break a rule, which can only become shorter.

use crate::process::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Pages without exceptions.
const PAGES_WITHOUT_EXCEPTIONS: [&str; 11] = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/ARCHITECTURE.md",
    "docs/STYLE.md",
    "docs/RECIPES.md",
    "docs/TESTING.md",
    "docs/INFERENCE.md",
    "docs/CLI.md",
    "docs/GPU.md",
    "docs/SAFETY.md",
    "docs/decisions/",
];

/// Number of places by path and rule.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exceptions(BTreeMap<(String, String), usize>);

impl Exceptions {
    /// Reads lines of `path rule number`; lines with `#` are comments.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn read(path: &Path) -> Outcome<Self> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Outcome<Self> {
        let mut counts = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let parts: Vec<&str> = line.split_whitespace().collect();
            let [path, rule, count] = parts[..] else {
                return Err(format!("style-exceptions.txt: `{line}` is not `path rule number`."));
            };
            let count = count.parse().ok().filter(|&count: &usize| count > 0);
            let count = count.ok_or_else(|| format!("style-exceptions.txt: `{line}` has no number."))?;
            counts.insert((path.to_owned(), rule.to_owned()), count);
        }
        Ok(Self(counts))
    }

    /// The number of exceptions to a rule in a file.
    pub fn count(&self, path: &str, rule: &str) -> usize {
        let key = (path.to_owned(), rule.to_owned());
        self.0.get(&key).copied().unwrap_or(0)
    }

    /// Entries with a higher number than the file has.
    pub fn stale(&self, counts: &BTreeMap<(String, String), usize>) -> Vec<String> {
        let stale = self.0.iter().filter_map(|(key, &count)| {
            let now = counts.get(key).copied().unwrap_or(0);
            (now < count).then(|| {
                format!(
                    "style-exceptions.txt: {} {}: {now}, not {count}. Run `cargo xtask style --shrink`.",
                    key.0, key.1
                )
            })
        });
        stale.collect()
    }

    /// Entries for pages that have none.
    pub fn forbidden(&self) -> Vec<String> {
        let forbidden = self
            .0
            .keys()
            .filter(|(path, _)| PAGES_WITHOUT_EXCEPTIONS.iter().any(|page| path.starts_with(page)));
        forbidden
            .map(|(path, rule)| format!("style-exceptions.txt: {path} {rule}: this page has no exceptions."))
            .collect()
    }

    /// The same list, with each number lowered to at most the file's count.
    pub fn lowered(&self, counts: &BTreeMap<(String, String), usize>) -> Self {
        let lowered = self.0.iter().filter_map(|(key, &count)| {
            let now = counts.get(key).copied().unwrap_or(0).min(count);
            (now > 0).then(|| (key.clone(), now))
        });
        Self(lowered.collect())
    }

    /// Writes the list.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Outcome {
        let mut text =
            "# Places that break a rule of STYLE.md: path, rule, number. See `cargo xtask style`.\n".to_owned();
        for ((file, rule), count) in &self.0 {
            writeln!(text, "{file} {rule} {count}").expect("a string can be written");
        }
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str, rule: &str) -> (String, String) {
        (path.to_owned(), rule.to_owned())
    }

    #[test]
    fn the_list_can_only_become_shorter() {
        let list = Exceptions::parse("# comment\na.rs mood 2\nb.rs of 1\n").expect("three columns");
        assert_eq!((list.count("a.rs", "mood"), list.count("a.rs", "of")), (2, 0));
        let actual = BTreeMap::from([(key("a.rs", "mood"), 3), (key("c.rs", "of"), 1)]);
        assert_eq!(list.stale(&actual).len(), 1);
        assert_eq!(
            list.lowered(&actual),
            Exceptions::parse("a.rs mood 2").expect("three columns")
        );
    }

    #[test]
    fn some_pages_have_no_exceptions() {
        let list =
            Exceptions::parse("docs/decisions/0001-x.md phrase 1\ndocs/TOUR.md phrase 1").expect("three columns");
        assert_eq!(list.forbidden().len(), 1);
    }

    #[test]
    fn invalid_lines_are_errors() {
        for text in ["a.rs mood", "a.rs mood 0", "a.rs mood many"] {
            assert!(Exceptions::parse(text).is_err(), "{text}");
        }
    }
}

//! Phrases, spellings and grammatical forms that `docs/STYLE.md` excludes from prose.

use super::Violation;
use super::text::{Line, prose};

/// Phrases, in lower case, and what to write. A phrase matches whole words.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "name the subject"),
    ("whomever", "name the subject"),
    ("nobody", "name the subject"),
    ("somebody", "name the subject"),
    ("anew", "again"),
    ("so many", "give the number"),
    ("as it is", "unchanged"),
    ("of its own", "own, separate"),
    ("of their own", "own, separate"),
    ("of one's own", "own, separate"),
    ("that of", "repeat the noun"),
    ("those of", "repeat the noun"),
    ("in turns", "alternately, interleaved"),
    ("the processor", "CPU"),
    ("a person", "the user"),
    ("the person", "the user"),
    ("a person's", "the user's"),
    ("the person's", "the user's"),
    ("the way back", "backward"),
    ("carried out", "done, implemented"),
    ("rehearsal", "dry run"),
    ("learning by heart", "overfitting"),
];

/// British stems, and the American ones.
pub const SPELLINGS: &[(&str, &str)] = &[
    ("quantis", "quantiz"),
    ("normalis", "normaliz"),
    ("tokenis", "tokeniz"),
    ("recognis", "recogniz"),
    ("optimis", "optimiz"),
    ("initialis", "initializ"),
    ("serialis", "serializ"),
    ("synchronis", "synchroniz"),
    ("minimis", "minimiz"),
    ("maximis", "maximiz"),
    ("summaris", "summariz"),
    ("organis", "organiz"),
    ("vectoris", "vectoriz"),
    ("penalis", "penaliz"),
    ("stabilis", "stabiliz"),
    ("colour", "color"),
    ("behaviour", "behavior"),
    ("neighbour", "neighbor"),
    ("favour", "favor"),
    ("licence", "license"),
    ("catalogue", "catalog"),
];

/// First words of documentation in the imperative. The third person is meant.
const IMPERATIVES: &[&str] = &[
    "add", "allow", "apply", "build", "call", "change", "check", "clear", "close", "collect", "compare", "compute",
    "convert", "copy", "count", "create", "decode", "delete", "describe", "drop", "encode", "find", "finish", "follow",
    "format", "generate", "get", "give", "handle", "insert", "keep", "list", "load", "look", "make", "map", "measure",
    "merge", "move", "open", "pack", "parse", "pick", "prepare", "print", "put", "quantize", "read", "receive",
    "record", "remove", "rename", "render", "replace", "restore", "return", "run", "save", "select", "send", "set",
    "show", "skip", "split", "start", "stop", "store", "take", "tell", "test", "trim", "try", "turn", "update", "use",
    "wait", "write",
];

/// Finds violations in the prose of a file.
pub fn check(path: &str, text: &str) -> Vec<Violation> {
    let lines = prose(path, text);
    let mut violations: Vec<Violation> = lines.iter().flat_map(|line| in_line(path, line)).collect();
    if path.ends_with(".md") {
        violations.extend(wide(text));
    }
    violations
}

fn in_line(path: &str, line: &Line) -> Vec<Violation> {
    let lower = line.text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_alphanumeric() || c == '\'' || c == '-'))
        .filter(|word| !word.is_empty())
        .collect();
    let mut violations = Vec::new();
    let mut add = |rule, words: String| {
        violations.push(Violation {
            rule,
            line: line.number,
            words,
        });
    };
    for (phrase, advice) in PHRASES {
        let phrase_words: Vec<&str> = phrase.split(' ').collect();
        let count = words
            .windows(phrase_words.len())
            .filter(|part| *part == phrase_words)
            .count();
        (0..count).for_each(|_| add("phrase", format!("`{phrase}`: {advice}")));
    }
    for (stem, american) in SPELLINGS {
        let count = words
            .iter()
            .filter(|word| word.starts_with(stem) || has_prefix(word, stem))
            .count();
        (0..count).for_each(|_| add("spelling", format!("`{stem}`: {american}")));
    }
    if line.begins_doc {
        let first = words.first().copied().unwrap_or_default();
        if matches!(first, "what" | "how") {
            add(
                "noun",
                format!("a doc comment begins with `{first}`: use a noun phrase"),
            );
        }
        // Help texts of the command line are doc comments too, in the imperative.
        if IMPERATIVES.contains(&first) && !path.ends_with("cli/src/args.rs") && is_sentence(&line.text) {
            add("mood", format!("`{first}`: third person"));
        }
    }
    violations
}

/// Whether a word is one of these stems behind a prefix such as `un`, `de` or `re`.
fn has_prefix(word: &str, stem: &str) -> bool {
    ["un", "de", "re", "pre", "mis", "dis"]
        .iter()
        .any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(stem)))
}

/// Whether a first line is more than a name: "Use" may be a noun, "Use it." is not.
fn is_sentence(text: &str) -> bool {
    text.split_whitespace().count() > 1
}

/// Columns of a line of a page.
const COLUMNS: usize = 120;

/// Lines of a page that can be wrapped, and are not: no tables, code, or HTML.
fn wide(text: &str) -> Vec<Violation> {
    let mut is_fenced = false;
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        is_fenced ^= trimmed.starts_with("```");
        let cannot_be_wrapped = is_fenced || trimmed.starts_with(['|', '<', '!']) || line.split(' ').count() < 4;
        let columns = line.chars().count();
        if columns > COLUMNS && !cannot_be_wrapped {
            violations.push(Violation {
                rule: "width",
                line: index + 1,
                words: format!("{columns} columns"),
            });
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        check(path, text).into_iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn forms_are_found() {
        for (text, expected) in [
            ("/// Returns the length.", vec![]),
            ("/// Return the length.", vec!["mood"]),
            ("/// What it returns.", vec!["noun"]),
            ("/// How it is done.", vec!["noun"]),
            ("/// Returns what\n/// how", vec![]),
            ("// Nobody reads it.", vec!["phrase"]),
            (
                "// A longer one than that of the\n// neighbour",
                vec!["phrase", "spelling"],
            ),
            ("// `nobody`, \"dequantised\"", vec!["spelling"]),
            ("let nobody = \"that of\";", vec![]),
        ] {
            assert_eq!(rules("a.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn help_texts_are_imperative() {
        assert_eq!(
            rules("crates/cli/src/args.rs", "/// Answer one prompt"),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn wide_lines_of_pages_are_found() {
        let long = "word ".repeat(30);
        assert_eq!(rules("a.md", &long), ["width"]);
        assert_eq!(
            rules("a.md", &format!("| {long}\n```\n{long}\n```\n")),
            Vec::<&str>::new()
        );
    }
}

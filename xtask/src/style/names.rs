//! Spelling of names, and forms of code that `docs/STYLE.md` excludes.

use super::Violation;
use super::phrases::SPELLINGS;

/// Finds violations in the code of a file.
pub fn check(path: &str, text: &str) -> Vec<Violation> {
    let is_rust = path.ends_with(".rs");
    let is_code = is_rust
        || [".ts", ".svelte", ".mjs", ".py"]
            .iter()
            .any(|ending| path.ends_with(ending));
    if !is_code {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code = code(line, path.ends_with(".py"));
        let mut add = |rule, words: String| {
            violations.push(Violation {
                rule,
                line: index + 1,
                words,
            });
        };
        for word in code.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            let lower = word.to_lowercase();
            if SPELLINGS.iter().any(|(stem, _)| lower.contains(stem)) {
                add("spelling", format!("`{word}`: American spelling"));
            }
        }
        if is_rust {
            let trimmed = code.trim_start();
            if trimmed.starts_with("true =>") || code.contains("{ true =>") {
                add("bool", "`match` on a boolean: use `if`".to_owned());
            }
            if code.contains("fn of(") || code.contains("fn of<") {
                add("of", "`fn of`: name it `new` or `from_…`".to_owned());
            }
        }
    }
    violations
}

/// A line without its comment and its string literals.
fn code(line: &str, is_python: bool) -> String {
    let trimmed = line.trim_start();
    let is_comment = ["//", "*", "/*", "<!--"].iter().any(|mark| trimmed.starts_with(mark));
    if is_comment || (is_python && trimmed.starts_with('#')) {
        return String::new();
    }
    let mut code = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|c| c == '"' || (c == '`' && !is_python)) {
        code.push_str(&rest[..start]);
        rest = after_string(&rest[start..], rest[..start].ends_with("r#"));
    }
    code + rest
}

/// The text after the string literal at the beginning.
fn after_string(text: &str, is_raw: bool) -> &str {
    let quote = &text[..1];
    if is_raw {
        return text[1..].split_once("\"#").map_or("", |(_, rest)| rest);
    }
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if quote.starts_with(c) => return &text[index + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_checked_and_strings_are_not() {
        let rules = |path: &str, text: &str| {
            check(path, text)
                .iter()
                .map(|violation| violation.rule)
                .collect::<Vec<_>>()
        };
        assert_eq!(rules("a.rs", "fn dequantised() {}"), ["spelling"]);
        assert_eq!(rules("a.rs", "let x = \"quantised\"; // quantised"), ["spelling"]);
        assert_eq!(rules("a.rs", "let x = r#\"a \"licence\" b\"#;"), Vec::<&str>::new());
        assert_eq!(rules("a.rs", "        true => 1,"), ["bool"]);
        assert_eq!(rules("a.rs", "match x { true => 1, false => 2 }"), ["bool"]);
        assert_eq!(rules("a.rs", "pub fn of(x: u8) -> Self {"), ["of"]);
        assert_eq!(rules("a.ts", "true => 1; const text = `licence`;"), Vec::<&str>::new());
        assert_eq!(rules("a.py", "licence = 1"), ["spelling"]);
    }
}

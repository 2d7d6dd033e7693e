//! The prose of a file: its comments, or the text of a page without code.

/// A line of prose.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// From 1.
    pub number: usize,
    pub text: String,
    /// Whether the line begins a documentation comment.
    pub begins_doc: bool,
}

/// The lines of prose of a file.
pub fn prose(path: &str, text: &str) -> Vec<Line> {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("md") => page(text),
        Some("py") => python(text),
        Some("toml" | "yml") => comments(text, &["#"]),
        _ => comments(text, &["///", "//!", "//", "/**", "/*", "* ", "<!--"]),
    }
}

/// Lines outside of fenced blocks.
fn page(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut is_fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            lines.push(Line {
                number: index + 1,
                text: plain(line),
                begins_doc: false,
            });
        }
    }
    lines
}

/// Comments and docstrings.
fn python(text: &str) -> Vec<Line> {
    let mut lines = comments(text, &["#"]);
    let mut in_docstring = false;
    for (index, line) in text.lines().enumerate() {
        let quotes = line.matches("\"\"\"").count();
        let begins = quotes > 0 && !in_docstring && line.trim_start().starts_with("\"\"\"");
        if begins || in_docstring {
            lines.push(Line {
                number: index + 1,
                text: plain(&line.replace("\"\"\"", "")),
                begins_doc: begins,
            });
        }
        if quotes % 2 == 1 && (begins || in_docstring) {
            in_docstring = !in_docstring;
        }
    }
    lines
}

/// Lines that begin with one of these marks.
fn comments(text: &str, marks: &[&str]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut last = "";
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mark = marks.iter().copied().find(|mark| trimmed.starts_with(mark));
        if let Some(mark) = mark {
            let is_doc = matches!(mark, "///" | "//!" | "/**");
            lines.push(Line {
                number: index + 1,
                text: plain(&trimmed[mark.len()..]),
                begins_doc: is_doc && last != mark,
            });
        }
        last = mark.unwrap_or_default();
    }
    lines
}

/// A line without code and addresses.
fn plain(line: &str) -> String {
    let without_code: Vec<&str> = line.split('`').step_by(2).collect();
    let mut text = without_code.join("`");
    while let Some(start) = text.find("](") {
        let end = text[start..].find(')').map_or(text.len(), |end| start + end + 1);
        text.replace_range(start..end, "");
    }
    text.retain(|c| c != '[');
    let words = text.split_whitespace().filter(|word| !word.contains("://"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &str, text: &str) -> Vec<String> {
        prose(path, text).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn prose_has_no_code() {
        assert_eq!(texts("a.md", "a `b` [c](d)\n```\nx\n```\ne"), ["a ` c", "e"]);
        assert_eq!(texts("a.rs", "/// A\nfn b() {} // c\n// D"), ["A", "D"]);
        assert_eq!(texts("a.py", "\"\"\"A\n\nb\"\"\"\nc = 1\n# D"), ["D", "A", "", "b"]);
        assert_eq!(texts("a.svelte", "<!-- A -->\n<p>b</p>"), ["A -->"]);
    }

    #[test]
    fn a_doc_comment_begins_once() {
        let lines = prose("a.rs", "//! A\n//! b\n\n/// C\n/// d\nfn e() {}\n/// F");
        let begins: Vec<usize> = lines
            .iter()
            .filter(|line| line.begins_doc)
            .map(|line| line.number)
            .collect();
        assert_eq!(begins, [1, 4, 7]);
    }
}

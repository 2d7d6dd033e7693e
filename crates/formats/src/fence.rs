//! Fences of code in Markdown.

/// A fence of backticks that does not end inside a text: longer than every run of them in it, at
/// least three.
#[must_use]
pub fn around(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_fence_is_longer_than_those_in_the_text() {
        for (text, length) in [("", 3), ("a `b` c", 3), ("```\nx\n```", 4), ("`````", 6)] {
            assert_eq!(super::around(text).len(), length, "{text}");
        }
    }
}

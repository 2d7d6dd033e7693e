//! Fences of code blocks in Markdown.

/// A fence of at least three backticks, longer than every run of backticks in the text, so that
/// none ends the block.
#[must_use]
pub fn around(text: &str) -> String {
    let longest_run = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest_run + 1).max(3))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_fence_is_longer_than_every_run_of_backticks_in_the_text() {
        for (text, length) in [("", 3), ("a `b` c", 3), ("```\nx\n```", 4), ("`````", 6)] {
            assert_eq!(super::around(text).len(), length, "{text}");
        }
    }
}

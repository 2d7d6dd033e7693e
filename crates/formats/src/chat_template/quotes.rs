//! Letters that are text, though a template or a tokenizer would take them for a part of its form:
//! the markers of thoughts, which an answer may quote.

/// Breaks up each of these letters in a text with `quote`, which is removed after the text is split
/// into tokens.
pub(super) fn quoted(text: &str, letters: &[String], quote: char) -> String {
    let mut broken = text.to_owned();
    for letters in letters {
        let mut characters = letters.chars();
        if let Some(first) = characters.next()
            && !characters.as_str().is_empty()
        {
            broken = broken.replace(letters, &format!("{first}{quote}{}", characters.as_str()));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_broken_up_and_nothing_else() {
        let letters = ["<a>", "</a>", "", "x"].map(str::to_owned);
        for (text, broken) in [
            ("<a>b</a>", "<|a>b<|/a>"),
            ("<a><a>", "<|a><|a>"),
            ("<a x>", "<a x>"),
            ("", ""),
        ] {
            assert_eq!(quoted(text, &letters, '|'), broken);
        }
    }
}

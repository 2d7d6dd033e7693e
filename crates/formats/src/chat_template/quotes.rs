//! Literal text that a template or a tokenizer would treat as markup: the markers of thoughts, when
//! a message quotes them.

/// Inserts `marker` after the first character of each of these literals in a text. The tokenizer
/// removes it after it has looked for special tokens.
pub(super) fn quoted(text: &str, literals: &[String], marker: char) -> String {
    let mut quoted = text.to_owned();
    for literal in literals {
        let mut characters = literal.chars();
        if let Some(first) = characters.next()
            && !characters.as_str().is_empty()
        {
            quoted = quoted.replace(literal, &format!("{first}{marker}{}", characters.as_str()));
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_literals_of_several_characters_are_broken_up() {
        let literals = ["<a>", "</a>", "", "x"].map(str::to_owned);
        for (text, expected) in [
            ("<a>b</a>", "<|a>b<|/a>"),
            ("<a><a>", "<|a><|a>"),
            ("<a x>", "<a x>"),
            ("", ""),
        ] {
            assert_eq!(quoted(text, &literals, '|'), expected);
        }
    }
}

//! Characters that are invisible or change the display of others.

/// Whether a character changes the display order of a text: a directional embedding, override or
/// isolate.
pub fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is a control character, invisible, white space other than U+0020, or changes
/// the direction of text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || c.is_whitespace() && c != ' '
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a hidden character belongs in words or emoji: a joiner, a directional mark, which only
/// affects adjacent characters, or a variation selector of emoji.
pub fn is_joiner(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200c}'..='\u{200f}' | '\u{fe0e}' | '\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_joiners_and_visible_characters_are_distinguished() {
        for c in ['\u{202e}', '\u{2066}'] {
            assert!(reorders(c) && is_hidden(c) && !is_joiner(c), "{c:?}");
        }
        for c in [
            '\u{1b}',
            '\n',
            '\u{9b}',
            '\u{200b}',
            '\u{feff}',
            '\u{a0}',
            '\u{3164}',
            '\u{e0041}',
        ] {
            assert!(is_hidden(c) && !reorders(c) && !is_joiner(c), "{c:?}");
        }
        // U+200D joins emoji to a family, and U+200C occurs in Persian words.
        for c in ['\u{200d}', '\u{200c}', '\u{fe0f}'] {
            assert!(is_hidden(c) && is_joiner(c), "{c:?}");
        }
        for c in [' ', 'a', 'é', '日', '\u{5d0}', '\u{301}', '\u{1f642}'] {
            assert!(!is_hidden(c) && !reorders(c), "{c:?}");
        }
    }
}

//! Common parts of vocabularies whose tokens are plain text, with U+2581 for a space and a token
//! such as `<0x0A>` for each byte: SentencePiece's, and byte-pair encodings in its style.

use super::lookup::ByteStrings;
use super::vocabulary::{TokenType, Vocabulary};
use crate::gguf::Strings;

/// Bytes of a text that are merged at once. Merging takes about 33 times as much memory.
pub(super) const SEGMENT_BYTES: usize = 64 << 10;

/// Maximum bytes of a segment. A longer one is split even if a token could span the split.
const MAX_SEGMENT_BYTES: usize = 2 << 20;

/// The character that replaces a space in token texts.
pub(super) const SPACE: char = '\u{2581}';

/// The character of a token's text for a character of a text.
pub(super) fn escape_space(character: char) -> char {
    if character == ' ' { SPACE } else { character }
}

/// Appends the text that an ordinary token's text stands for.
pub(super) fn unescape(token: &str, out: &mut Vec<u8>) {
    for (index, part) in token.split(SPACE).enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        out.extend(part.as_bytes());
    }
}

/// The byte of a token like `<0x0A>`.
pub(super) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    // `from_str_radix` would accept a sign.
    let has_two_digits = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if has_two_digits {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// The bytes that each token decodes to. `is_byte`: whether a token of this type that is like
/// `<0x0A>` is a byte.
pub(super) fn token_bytes(texts: &Strings, types: &[TokenType], is_byte: impl Fn(TokenType) -> bool) -> ByteStrings {
    let mut strings = ByteStrings::default();
    for (text, &kind) in texts.iter().zip(types) {
        strings.push_with(|out| match (kind, byte_token(text)) {
            (kind, Some(byte)) if is_byte(kind) => out.push(byte),
            (TokenType::Normal | TokenType::Unused, _) => unescape(text, out),
            _ => out.extend(text.as_bytes()),
        });
    }
    strings
}

impl Vocabulary {
    /// Whether no token has two characters of a text in sequence, so that no merge spans them.
    pub fn divides(&self, previous: char, next: char) -> bool {
        let adjacent_chars = self.adjacent_chars.get_or_init(|| {
            let tokens = self.texts.iter().zip(&self.types);
            let tokens = tokens
                .filter(|(_, kind)| matches!(kind, TokenType::Normal | TokenType::UserDefined | TokenType::Unused));
            let pairs = tokens.flat_map(|(text, _)| text.chars().zip(text.chars().skip(1)));
            pairs
                .map(|(previous, next)| (escape_space(previous), escape_space(next)))
                .collect()
        });
        !adjacent_chars.contains(&(escape_space(previous), escape_space(next)))
    }

    /// End of the first segment of a text longer than [`SEGMENT_BYTES`]. Splitting there does not
    /// change the tokens, see [`Vocabulary::divides`].
    pub fn segment_end(&self, text: &str) -> usize {
        let start = text.floor_char_boundary(SEGMENT_BYTES);
        let mut previous = text[..start].chars().next_back();
        for (offset, character) in text[start..].char_indices() {
            let end = start + offset;
            let is_boundary = previous.is_some_and(|previous| self.divides(previous, character));
            if is_boundary || end >= MAX_SEGMENT_BYTES {
                return end;
            }
            previous = Some(character);
        }
        text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_tokens() {
        assert_eq!(byte_token("<0x0A>"), Some(10));
        for text in ["<0x>", "<0x+A>", "<0x100>", "0x0A", "<0x0A> "] {
            assert_eq!(byte_token(text), None, "{text}");
        }
    }
}

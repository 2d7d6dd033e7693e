//! Detokenizing: token bytes to text, in whole characters.

/// Buffers the bytes of tokens and emits whole characters.
///
/// A token may end in the middle of a character, as in emoji and rare scripts; its bytes are
/// buffered until the rest arrives. Invalid UTF-8 becomes U+FFFD.
#[derive(Debug, Default, Clone)]
pub struct Detokenizer {
    pending: Vec<u8>,
}

impl Detokenizer {
    /// An empty detokenizer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a token's bytes; returns the characters that are now complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = after;
                    // `None` means that the rest is the beginning of a character.
                    let Some(invalid) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[invalid..];
                }
            }
        }
        let consumed = self.pending.len() - rest.len();
        self.pending.drain(..consumed);
        text
    }

    /// Ends the text; an incomplete character becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_incomplete_character_is_buffered_and_an_invalid_one_is_not() {
        let check = |tokens: &[&[u8]], texts: &[&str], last: &str| {
            let mut detokenizer = Detokenizer::new();
            let actual: Vec<String> = tokens.iter().map(|token| detokenizer.push(token)).collect();
            assert_eq!(actual, texts);
            assert_eq!(detokenizer.finish(), last);
        };
        check(&[b"a\xf0\x9f", b"\x98\x80b"], &["a", "\u{1f600}b"], "");
        check(&[b"\xf0\x9f", b"x"], &["", "\u{fffd}x"], "");
        check(&[b"\xff", b"y"], &["\u{fffd}", "y"], "");
        check(&[b"z\xe2\x82"], &["z"], "\u{fffd}");
    }

    proptest! {
        #[test]
        fn the_text_does_not_depend_on_how_bytes_are_split(tokens in prop::collection::vec(any::<Vec<u8>>(), 0..12)) {
            let mut detokenizer = Detokenizer::new();
            let mut text: String = tokens.iter().map(|token| detokenizer.push(token)).collect();
            text += &detokenizer.finish();
            let bytes = tokens.concat();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn text_survives_byte_by_byte(text: String) {
            let mut detokenizer = Detokenizer::new();
            let actual: String = text.bytes().map(|byte| detokenizer.push(&[byte])).collect();
            prop_assert_eq!(actual, text);
            prop_assert_eq!(detokenizer.finish(), "");
        }
    }
}

//! From tokens' bytes to text, never half a character at a time.

/// Collects the bytes of tokens and lets whole characters go.
///
/// A token may end in the middle of a character, as emoji and rare scripts do. Its bytes wait here
/// for the rest. Bytes that can no longer become a character turn into U+FFFD.
#[derive(Debug, Default, Clone)]
pub struct Detokenizer {
    waiting: Vec<u8>,
}

impl Detokenizer {
    /// With nothing waiting.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a token's bytes, and gives the characters that are whole by now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.waiting.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.waiting.as_slice();
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
                    // No length: what is there is a character's beginning.
                    let Some(invalid) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[invalid..];
                }
            }
        }
        let done = self.waiting.len() - rest.len();
        self.waiting.drain(..done);
        text
    }

    /// No more tokens come: a character that was begun will not be completed, and becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.waiting)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_a_character_waits_and_a_broken_one_does_not() {
        let check = |tokens: &[&[u8]], texts: &[&str], last: &str| {
            let mut detokenizer = Detokenizer::new();
            let got: Vec<String> = tokens.iter().map(|token| detokenizer.push(token)).collect();
            assert_eq!(got, texts);
            assert_eq!(detokenizer.finish(), last);
        };
        check(&[b"a\xf0\x9f", b"\x98\x80b"], &["a", "\u{1f600}b"], "");
        check(&[b"\xf0\x9f", b"x"], &["", "\u{fffd}x"], "");
        check(&[b"\xff", b"y"], &["\u{fffd}", "y"], "");
        check(&[b"z\xe2\x82"], &["z"], "\u{fffd}");
    }

    proptest! {
        #[test]
        fn however_bytes_are_cut_the_text_is_the_same(tokens in prop::collection::vec(any::<Vec<u8>>(), 0..12)) {
            let mut detokenizer = Detokenizer::new();
            let mut text: String = tokens.iter().map(|token| detokenizer.push(token)).collect();
            text += &detokenizer.finish();
            let whole = tokens.concat();
            prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        }

        #[test]
        fn real_text_comes_through_byte_by_byte(text: String) {
            let mut detokenizer = Detokenizer::new();
            let got: String = text.bytes().map(|byte| detokenizer.push(&[byte])).collect();
            prop_assert_eq!(got, text);
            prop_assert_eq!(detokenizer.finish(), "");
        }
    }
}

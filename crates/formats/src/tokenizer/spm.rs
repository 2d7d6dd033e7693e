//! SentencePiece's vocabularies as Llama and Gemma have them: characters are joined where the whole is a token, the highest
//! score first; what is left over is spelt in bytes.
//!
//! This greedy joining is what such models were trained with (SentencePiece's BPE), and it is not what a unigram model does,
//! which looks for the likeliest whole; docs/decisions compares them.

use super::TokenizerError;
use super::lookup::{ByteStrings, Lookup};
use super::merge::{NO_TOKEN, Pieces};
use super::vocabulary::{Kind, Vocabulary};
use crate::gguf::{Gguf, Strings};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::OnceLock;

/// Bytes of a text that are joined at once: a part takes some 33 times as much memory while it is.
const PART: usize = 64 << 10;

/// Bytes after which a text is cut even where tokens could go over the cut.
const LONGEST_PART: usize = 2 << 20;

/// The character that stands for a space.
const SPACE: char = '\u{2581}';

/// Everything SPM needs beside the vocabulary.
pub(super) struct Spm {
    /// Tokens by their text; neither control tokens nor those of single bytes are among them.
    tokens: Lookup,
    texts: ByteStrings,
    /// Smaller is joined first, one a token.
    ranks: Vec<u32>,
    /// The token of each single byte, or [`NO_TOKEN`].
    of_byte: [u32; 256],
    /// Whether a space goes before a text.
    pub add_space_prefix: bool,
    /// Characters that stand side by side in any token; made for the first long text.
    neighbours: OnceLock<HashSet<(char, char)>>,
}

impl Spm {
    /// The bytes that each token stands for.
    pub fn token_bytes(texts: &Strings, kinds: &[Kind]) -> ByteStrings {
        let mut strings = ByteStrings::default();
        for (text, kind) in texts.iter().zip(kinds) {
            strings.push_with(|out| match (kind, byte_token(text)) {
                (Kind::Byte, Some(byte)) => out.push(byte),
                (Kind::Normal | Kind::Unused, _) => {
                    for (place, part) in text.split(SPACE).enumerate() {
                        if place > 0 {
                            out.push(b' ');
                        }
                        out.extend(part.as_bytes());
                    }
                }
                _ => out.extend(text.as_bytes()),
            });
        }
        strings
    }

    /// Reads the scores of a file.
    pub fn build(gguf: &Gguf, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let scores = gguf.required_f32s("tokenizer.ggml.scores")?;
        if scores.len() < vocabulary.len() {
            let why = format!("{} scores for {} tokens", scores.len(), vocabulary.len());
            return Err(vocabulary.malformed(why));
        }
        let mut texts = ByteStrings::default();
        for text in vocabulary.texts.iter() {
            texts.push_with(|out| out.extend(text.as_bytes()));
        }
        let mut tokens = Lookup::with_capacity(vocabulary.len());
        let mut of_byte = [NO_TOKEN; 256];
        for (id, (&kind, text)) in vocabulary.kinds.iter().zip(vocabulary.texts.iter()).enumerate() {
            let id = id as u32;
            match kind {
                Kind::Byte => match byte_token(text) {
                    Some(byte) => of_byte[byte as usize] = id,
                    None => {
                        return Err(
                            vocabulary.malformed(format!("the byte token {id} is '{text}', not <0x00> to <0xFF>"))
                        );
                    }
                },
                Kind::Normal | Kind::UserDefined | Kind::Unused => {
                    if let Err(other) = tokens.insert(id, &texts) {
                        return Err(vocabulary.malformed(format!("tokens {other} and {id} are both '{text}'")));
                    }
                }
                Kind::Control | Kind::Unknown => {}
            }
        }
        let ranks = scores.iter().map(|&score| rank(score)).collect();
        let add_space_prefix = gguf.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        Ok(Self {
            tokens,
            texts,
            ranks,
            of_byte,
            add_space_prefix,
            neighbours: OnceLock::new(),
        })
    }

    /// Appends the tokens of a text; `first` where it begins the whole or follows a special token. A long text is encoded in parts.
    /// Breaks where `go_on`, which is told how many tokens there are, says no.
    pub fn encode(
        &self,
        text: &str,
        first: bool,
        vocabulary: &Vocabulary,
        out: &mut Vec<u32>,
        go_on: &dyn Fn(usize) -> bool,
    ) -> ControlFlow<()> {
        let (mut rest, mut first) = (text, first);
        while rest.len() > PART {
            let (part, after) = rest.split_at(self.cut(rest, vocabulary));
            self.encode_part(part, first, vocabulary, out);
            (rest, first) = (after, false);
            if !go_on(out.len()) {
                return ControlFlow::Break(());
            }
        }
        if first || !rest.is_empty() {
            self.encode_part(rest, first, vocabulary, out);
        }
        ControlFlow::Continue(())
    }

    /// Where a text longer than [`PART`] can be cut so that its parts have the tokens of the whole: between characters that no
    /// token has side by side, since nothing is joined there.
    fn cut(&self, text: &str, vocabulary: &Vocabulary) -> usize {
        let neighbours = self.neighbours.get_or_init(|| {
            let tokens = vocabulary.texts.iter().zip(&vocabulary.kinds);
            let tokens = tokens.filter(|(_, kind)| matches!(kind, Kind::Normal | Kind::UserDefined | Kind::Unused));
            tokens
                .flat_map(|(text, _)| text.chars().zip(text.chars().skip(1)))
                .collect()
        });
        let start = text.floor_char_boundary(PART);
        let mut before = text[..start].chars().next_back().map(escaped);
        for (place, character) in text[start..].char_indices() {
            let character = escaped(character);
            let place = start + place;
            if before.is_some_and(|before| !neighbours.contains(&(before, character))) || place >= LONGEST_PART {
                return place;
            }
            before = Some(character);
        }
        text.len()
    }

    fn encode_part(&self, text: &str, first: bool, vocabulary: &Vocabulary, out: &mut Vec<u32>) {
        let mut all = String::with_capacity(text.len() + text.len() / 4);
        if first && self.add_space_prefix {
            all.push(SPACE);
        }
        all.extend(text.chars().map(escaped));
        let escaped = all.as_bytes();

        let mut pieces = Pieces::default();
        let mut start = 0;
        // A character's first byte tells its length, but the next character's beginning is as good a guide.
        while start < escaped.len() {
            let rest = &escaped[start + 1..];
            let len = 1 + rest.iter().position(|&byte| byte & 0xc0 != 0x80).unwrap_or(rest.len());
            let id = self
                .tokens
                .get(&escaped[start..start + len], &self.texts)
                .unwrap_or(NO_TOKEN);
            pieces.push(id, len as u32);
            start += len;
        }
        pieces.merge(|left, right| {
            let whole = &escaped[left.start as usize..(right.start + right.len) as usize];
            let id = self.tokens.get(whole, &self.texts)?;
            Some((self.ranks[id as usize], id))
        });
        for piece in pieces.iter() {
            if piece.id != NO_TOKEN {
                out.push(piece.id);
                continue;
            }
            for &byte in &escaped[piece.start as usize..(piece.start + piece.len) as usize] {
                match self.of_byte[byte as usize] {
                    NO_TOKEN => out.extend(vocabulary.unknown),
                    id => out.push(id),
                }
            }
        }
    }
}

/// A character as it stands in tokens.
fn escaped(character: char) -> char {
    if character == ' ' { SPACE } else { character }
}

/// The byte of a token like `<0x0A>`.
fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    // Reading a number would also take a sign.
    let two_digits = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if two_digits {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// A score as a number that is smaller for a higher one. Any float has its place, so that a damaged file cannot break the order.
fn rank(score: f32) -> u32 {
    // Zero has two signs, which must not differ.
    let bits = (score + 0.0).to_bits();
    // Floats order as integers do, once the negative ones are turned around.
    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !ascending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_turn_scores_around() {
        let descending = [f32::INFINITY, 3.5, 1e-30, 0.0, -1e-30, -1.0, -7000.0, f32::NEG_INFINITY];
        for pair in descending.windows(2) {
            assert!(rank(pair[0]) < rank(pair[1]), "{pair:?}");
        }
        assert_eq!(rank(0.0), rank(-0.0));
    }

    #[test]
    fn a_long_text_has_the_tokens_of_the_whole() {
        for name in ["spm", "spm-gemma"] {
            let path = format!(
                "{}/../../tests/fixtures/tokenizer/{name}.gguf",
                env!("CARGO_MANIFEST_DIR")
            );
            let gguf = Gguf::open(path).unwrap();
            let mut vocabulary = Vocabulary::read(&gguf).unwrap();
            vocabulary.bytes = Spm::token_bytes(&vocabulary.texts, &vocabulary.kinds);
            let spm = Spm::build(&gguf, &vocabulary).unwrap();
            let source = concat!(include_str!("spm.rs"), " \u{2581} 好的。Ünd    ▁ <0x0A>\t\r\n\n\n");
            let text = source.repeat(3 * PART / source.len() + 1);
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            spm.encode_part(&text, true, &vocabulary, &mut whole);
            let done = spm.encode(&text, true, &vocabulary, &mut parts, &|_| true);
            assert!(done.is_continue() && parts == whole, "{name}");
            let stopped = spm.encode(&text, true, &vocabulary, &mut parts, &|tokens| tokens < 10);
            assert!(stopped.is_break(), "{name}");
        }
    }

    #[test]
    fn byte_tokens() {
        assert_eq!(byte_token("<0x0A>"), Some(10));
        for text in ["<0x>", "<0x+A>", "<0x100>", "0x0A", "<0x0A> "] {
            assert_eq!(byte_token(text), None, "{text}");
        }
    }
}

//! SentencePiece BPE, as in Llama 2 and Gemma: adjacent symbols are merged if the result is a
//! token, highest score first. The remaining symbols are encoded with byte fallback.
//!
//! These models were trained with this greedy merging (SentencePiece's BPE), not with a unigram
//! model, which searches for the most likely segmentation. docs/decisions compares the two.

use super::lookup::{ByteStrings, Lookup};
use super::merge::{NO_TOKEN, Symbols};
use super::spaced::{self, SEGMENT_BYTES, SPACE, byte_token, escape_space};
use super::vocabulary::{TokenType, Vocabulary};
use super::{TokenizerError, is_markup};
use crate::gguf::{Gguf, Strings};
use crate::interrupt;
use std::ops::ControlFlow;

/// A SentencePiece BPE model, without the vocabulary.
pub(super) struct Spm {
    /// Tokens by their text, without control and byte tokens.
    tokens: Lookup,
    texts: ByteStrings,
    /// Rank of each token. Smaller ranks are merged first.
    ranks: Vec<u32>,
    /// The token of each single byte, or [`NO_TOKEN`].
    byte_tokens: [u32; 256],
    /// Whether a space is added before a text.
    pub add_space_prefix: bool,
}

impl Spm {
    /// The bytes that each token decodes to.
    pub fn token_bytes(texts: &Strings, types: &[TokenType]) -> ByteStrings {
        spaced::token_bytes(texts, types, |kind| kind == TokenType::Byte)
    }

    /// Builds the model from a file's scores.
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
        let mut byte_tokens = [NO_TOKEN; 256];
        for (id, (&kind, text)) in vocabulary.types.iter().zip(vocabulary.texts.iter()).enumerate() {
            let id = id as u32;
            match kind {
                TokenType::Byte => match byte_token(text) {
                    Some(byte) => byte_tokens[byte as usize] = id,
                    None => {
                        return Err(
                            vocabulary.malformed(format!("the byte token {id} is '{text}', not <0x00> to <0xFF>"))
                        );
                    }
                },
                // Merges must not produce these. They are matched before, except in literal text.
                TokenType::UserDefined if is_markup(text) && !text.contains(SPACE) => {}
                TokenType::Normal | TokenType::UserDefined | TokenType::Unused => {
                    if let Err(other) = tokens.insert(id, &texts) {
                        return Err(vocabulary.malformed(format!("tokens {other} and {id} are both '{text}'")));
                    }
                }
                TokenType::Control | TokenType::Unknown => {}
            }
        }
        let ranks = scores.iter().map(|&score| rank(score)).collect();
        let add_space_prefix = gguf.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        Ok(Self {
            tokens,
            texts,
            ranks,
            byte_tokens,
            add_space_prefix,
        })
    }

    /// Whether a byte has a token, or is an ASCII character that has one.
    pub fn has_token(&self, byte: u8) -> bool {
        let character = if byte == b' ' { SPACE } else { byte as char };
        let has_character = |text: &str| self.tokens.get(text.as_bytes(), &self.texts).is_some();
        self.byte_tokens[byte as usize] != NO_TOKEN
            || (byte.is_ascii() && has_character(character.encode_utf8(&mut [0; 4])))
    }

    /// Appends the tokens of a text, in segments if it is long. `first`: it starts the input or
    /// follows a special token. `progress` receives the number of tokens so far and returns `false`
    /// to cancel. Breaks if cancelled or interrupted.
    pub fn encode(
        &self,
        text: &str,
        first: bool,
        vocabulary: &Vocabulary,
        out: &mut Vec<u32>,
        progress: &dyn Fn(usize) -> bool,
    ) -> ControlFlow<()> {
        let (mut rest, mut first) = (text, first);
        while rest.len() > SEGMENT_BYTES {
            if interrupt::step(SEGMENT_BYTES as u64) {
                return ControlFlow::Break(());
            }
            let (segment, remaining) = rest.split_at(vocabulary.segment_end(rest));
            self.encode_segment(segment, first, vocabulary, out);
            (rest, first) = (remaining, false);
            if !progress(out.len()) {
                return ControlFlow::Break(());
            }
        }
        if first || !rest.is_empty() {
            self.encode_segment(rest, first, vocabulary, out);
        }
        ControlFlow::Continue(())
    }

    fn encode_segment(&self, text: &str, first: bool, vocabulary: &Vocabulary, out: &mut Vec<u32>) {
        let mut escaped = String::with_capacity(text.len() + text.len() / 4);
        if first && self.add_space_prefix {
            escaped.push(SPACE);
        }
        escaped.extend(text.chars().map(escape_space));
        let escaped = escaped.as_bytes();

        let mut symbols = Symbols::default();
        let mut start = 0;
        // One symbol per character: up to the next byte that is not a continuation byte.
        while start < escaped.len() {
            let rest = &escaped[start + 1..];
            let len = 1 + rest.iter().position(|&byte| byte & 0xc0 != 0x80).unwrap_or(rest.len());
            let id = self
                .tokens
                .get(&escaped[start..start + len], &self.texts)
                .unwrap_or(NO_TOKEN);
            symbols.push(id, len as u32);
            start += len;
        }
        symbols.merge(|left, right| {
            let merged = &escaped[left.start as usize..(right.start + right.len) as usize];
            let id = self.tokens.get(merged, &self.texts)?;
            Some((self.ranks[id as usize], id))
        });
        let unknown = vocabulary.unknown_in_text();
        for symbol in symbols.iter() {
            if symbol.id != NO_TOKEN {
                out.push(symbol.id);
                continue;
            }
            for &byte in &escaped[symbol.start as usize..(symbol.start + symbol.len) as usize] {
                match self.byte_tokens[byte as usize] {
                    NO_TOKEN => out.extend(unknown),
                    id => out.push(id),
                }
            }
        }
    }
}

/// Maps a score to a rank: smaller for a higher score. Total over all floats including NaN, so that
/// a corrupt file cannot break the order.
fn rank(score: f32) -> u32 {
    // Maps -0 to +0.
    let bits = (score + 0.0).to_bits();
    // Floats have the order of their bits as integers, if the bits of negative ones are flipped.
    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !ascending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_descend_with_scores() {
        let descending = [f32::INFINITY, 3.5, 1e-30, 0.0, -1e-30, -1.0, -7000.0, f32::NEG_INFINITY];
        for pair in descending.windows(2) {
            assert!(rank(pair[0]) < rank(pair[1]), "{pair:?}");
        }
        assert_eq!(rank(0.0), rank(-0.0));
    }

    #[test]
    fn segments_of_a_long_text_have_the_tokens_of_the_whole() {
        for name in ["spm", "spm-gemma"] {
            let path = format!(
                "{}/../../tests/fixtures/tokenizer/{name}.gguf",
                env!("CARGO_MANIFEST_DIR")
            );
            let gguf = Gguf::open(path).unwrap();
            let mut vocabulary = Vocabulary::read(&gguf).unwrap();
            vocabulary.bytes = Spm::token_bytes(&vocabulary.texts, &vocabulary.types);
            let spm = Spm::build(&gguf, &vocabulary).unwrap();
            let source = concat!(include_str!("spm.rs"), " \u{2581} 好的。Ünd    ▁ <0x0A>\t\r\n\n\n");
            let text = source.repeat(3 * SEGMENT_BYTES / source.len() + 1);
            let (mut whole, mut segments) = (Vec::new(), Vec::new());
            spm.encode_segment(&text, true, &vocabulary, &mut whole);
            let flow = spm.encode(&text, true, &vocabulary, &mut segments, &|_| true);
            assert!(flow.is_continue() && segments == whole, "{name}");
            let flow = spm.encode(&text, true, &vocabulary, &mut segments, &|tokens| tokens < 10);
            assert!(flow.is_break(), "{name}");
        }
    }
}

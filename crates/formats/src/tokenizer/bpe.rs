//! Byte-level BPE: each word is split into bytes, which are merged by rank.

use super::lookup::{ByteStrings, Lookup};
use super::merge::{NO_TOKEN, Symbols};
use super::pre::PreTokenizer;
use super::vocabulary::{TokenType, Vocabulary};
use super::{TokenizerError, byte_level};
use crate::gguf::{Gguf, Strings};
use crate::interrupt;
use hashbrown::HashMap;
use std::ops::ControlFlow;

/// Maximum bytes of a word that are merged at once. Merging takes about 40 times as much memory.
/// Longer words, which do not occur in any language, are split.
const MAX_WORD_BYTES: usize = 1 << 20;

/// Words encoded between two calls of `progress`.
const PROGRESS_INTERVAL: usize = 1 << 14;

/// A BPE model, without the vocabulary.
pub(super) struct Bpe {
    pre: PreTokenizer,
    /// Tokens by their bytes, without control tokens.
    tokens: Lookup,
    /// The token of each single byte, or [`NO_TOKEN`].
    byte_tokens: [u32; 256],
    merges: Merges,
}

impl Bpe {
    /// The bytes that each token decodes to.
    pub fn token_bytes(texts: &Strings, types: &[TokenType]) -> ByteStrings {
        let mut strings = ByteStrings::default();
        for (text, kind) in texts.iter().zip(types) {
            strings.push_with(|out| {
                // Added tokens are plain text, and so are tokens with characters outside the
                // byte-level alphabet.
                let is_plain = matches!(kind, TokenType::Control | TokenType::Unknown | TokenType::UserDefined);
                if is_plain || !byte_level::decode(text, out) {
                    out.extend(text.as_bytes());
                }
            });
        }
        strings
    }

    /// Builds the model from a file's merges.
    pub fn build(gguf: &Gguf, pre: PreTokenizer, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let mut tokens = Lookup::with_capacity(vocabulary.len());
        let mut added = Vec::new();
        for (id, &kind) in vocabulary.types.iter().enumerate() {
            let id = id as u32;
            match kind {
                TokenType::Normal | TokenType::Byte => {
                    if let Err(other) = tokens.insert(id, &vocabulary.bytes) {
                        let text = vocabulary.texts.get(id as usize).unwrap_or_default();
                        return Err(vocabulary.malformed(format!("tokens {other} and {id} are both '{text}'")));
                    }
                }
                TokenType::UserDefined | TokenType::Unused => added.push(id),
                TokenType::Control | TokenType::Unknown => {}
            }
        }
        // Merges may produce added tokens, but an ordinary token with the same bytes takes
        // precedence.
        for id in added {
            tokens.insert(id, &vocabulary.bytes).ok();
        }
        let byte_tokens = std::array::from_fn(|byte| tokens.get(&[byte as u8], &vocabulary.bytes).unwrap_or(NO_TOKEN));
        let merges = gguf.required_strings("tokenizer.ggml.merges")?;
        let merges = read_merges(merges, &tokens, vocabulary)?;
        Ok(Self {
            pre,
            tokens,
            byte_tokens,
            merges,
        })
    }

    /// Appends the tokens of a text. `progress` receives the number of tokens so far and returns
    /// `false` to cancel. Breaks if cancelled or interrupted.
    pub fn encode(
        &self,
        text: &str,
        vocabulary: &Vocabulary,
        out: &mut Vec<u32>,
        progress: &dyn Fn(usize) -> bool,
    ) -> ControlFlow<()> {
        let unknown = vocabulary.unknown_in_text();
        let mut symbols = Symbols::default();
        let mut words = 0;
        self.pre.split(text, &mut |word| {
            words += 1;
            if interrupt::step(word.len() as u64) {
                return ControlFlow::Break(());
            }
            if words % PROGRESS_INTERVAL == 0 && !progress(out.len()) {
                return ControlFlow::Break(());
            }
            if self.pre.ignore_merges
                && let Some(id) = self.tokens.get(word.as_bytes(), &vocabulary.bytes)
            {
                out.push(id);
                return ControlFlow::Continue(());
            }
            let mut rest = word;
            while rest.len() > MAX_WORD_BYTES {
                let (segment, remaining) = rest.split_at(rest.floor_char_boundary(MAX_WORD_BYTES));
                self.merge_word(segment, unknown, &mut symbols, out);
                rest = remaining;
                if interrupt::is_set() || !progress(out.len()) {
                    return ControlFlow::Break(());
                }
            }
            self.merge_word(rest, unknown, &mut symbols, out);
            ControlFlow::Continue(())
        })
    }

    /// Appends the tokens of a word. Bytes without a token become the unknown token.
    fn merge_word(&self, word: &str, unknown: Option<u32>, symbols: &mut Symbols, out: &mut Vec<u32>) {
        symbols.clear();
        for byte in word.bytes() {
            symbols.push(self.byte_tokens[byte as usize], 1);
        }
        symbols.merge(|left, right| self.merges.get(&(left.id, right.id)).copied());
        for symbol in symbols.iter() {
            match symbol.id {
                NO_TOKEN => out.extend(unknown),
                id => out.push(id),
            }
        }
    }

    /// Whether a byte has a token.
    pub fn has_token(&self, byte: u8) -> bool {
        self.byte_tokens[byte as usize] != NO_TOKEN
    }
}

/// Rank and resulting token of the merge of two adjacent tokens.
type Merges = HashMap<(u32, u32), (u32, u32)>;

fn read_merges(texts: &Strings, tokens: &Lookup, vocabulary: &Vocabulary) -> Result<Merges, TokenizerError> {
    let mut merges = HashMap::with_capacity(texts.len());
    let mut joined = Vec::new();
    for (rank, merge) in texts.iter().enumerate() {
        let malformed = |why: &str| vocabulary.malformed(format!("merge {rank} ('{merge}') {why}"));
        // The left side has at least one character, which may be a space if the alphabet is not
        // byte-level.
        let space = merge
            .bytes()
            .skip(1)
            .position(|byte| byte == b' ')
            .map(|index| index + 1);
        let Some((left, right)) = space.map(|space| (&merge[..space], &merge[space + 1..])) else {
            return Err(malformed("is not a pair"));
        };
        joined.clear();
        if !byte_level::decode(left, &mut joined) {
            return Err(malformed("has a character outside the byte-level alphabet"));
        }
        let middle = joined.len();
        if !byte_level::decode(right, &mut joined) {
            return Err(malformed("has a character outside the byte-level alphabet"));
        }
        let find = |bytes| tokens.get(bytes, &vocabulary.bytes);
        match (find(&joined[..middle]), find(&joined[middle..]), find(&joined)) {
            (Some(left), Some(right), Some(id)) => {
                merges.entry((left, right)).or_insert((rank as u32, id));
            }
            _ => return Err(malformed("has a part or result that is not a token")),
        }
    }
    Ok(merges)
}

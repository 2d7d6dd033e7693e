//! BPE: each word is split into bytes or characters, which are merged by rank.

use super::lookup::{ByteStrings, Lookup};
use super::merge::{NO_TOKEN, Symbols};
use super::pre::{Alphabet, PreTokenizer, WholeWords};
use super::spaced::{self, SEGMENT_BYTES, SPACE};
use super::vocabulary::{TokenType, Vocabulary};
use super::{TokenizerError, byte_level};
use crate::gguf::{Gguf, Strings};
use crate::interrupt;
use hashbrown::HashMap;
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Maximum bytes of a word of bytes that are merged at once. Merging takes about 40 times as much
/// memory. Longer words, which do not occur in any language, are split.
const MAX_WORD_BYTES: usize = 1 << 20;

/// Words encoded between two calls of `progress`.
const PROGRESS_INTERVAL: usize = 1 << 14;

/// A BPE model, without the vocabulary.
pub(super) struct Bpe {
    pre: PreTokenizer,
    /// Tokens by their key, without control tokens: their bytes, or their text if words consist of
    /// characters.
    tokens: Lookup,
    /// The keys if they are texts. Spaces are U+2581, also in texts of added tokens.
    texts: Option<ByteStrings>,
    /// The token of each single byte, or [`NO_TOKEN`].
    byte_tokens: [u32; 256],
    merges: Merges,
}

impl Bpe {
    /// The bytes that each token decodes to.
    pub fn token_bytes(alphabet: Alphabet, texts: &Strings, types: &[TokenType]) -> ByteStrings {
        if alphabet == Alphabet::Characters {
            // Some writers mark bytes as ordinary tokens.
            return spaced::token_bytes(texts, types, |kind| matches!(kind, TokenType::Byte | TokenType::Normal));
        }
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
        let texts = (pre.alphabet == Alphabet::Characters).then(|| {
            let mut texts = ByteStrings::default();
            for (text, kind) in vocabulary.texts.iter().zip(&vocabulary.types) {
                let text = match kind {
                    TokenType::UserDefined | TokenType::Unused => escape_spaces(text),
                    _ => text.into(),
                };
                texts.push_with(|out| out.extend(text.as_bytes()));
            }
            texts
        });
        let keys = texts.as_ref().unwrap_or(&vocabulary.bytes);
        let mut tokens = Lookup::with_capacity(vocabulary.len());
        let mut added = Vec::new();
        for (id, &kind) in vocabulary.types.iter().enumerate() {
            let id = id as u32;
            match kind {
                TokenType::Normal | TokenType::Byte => {
                    if let Err(other) = tokens.insert(id, keys) {
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
            tokens.insert(id, keys).ok();
        }
        let byte_tokens = std::array::from_fn(|byte| {
            let byte = byte as u8;
            let id = match pre.alphabet {
                Alphabet::Bytes => tokens.get(&[byte], keys),
                Alphabet::Characters => tokens.get(format!("<0x{byte:02X}>").as_bytes(), keys),
            };
            id.unwrap_or(NO_TOKEN)
        });
        let merges = gguf.required_strings("tokenizer.ggml.merges")?;
        let merges = read_merges(merges, pre.alphabet, &tokens, keys, vocabulary)?;
        Ok(Self {
            pre,
            tokens,
            texts,
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
        let text = match self.pre.alphabet {
            Alphabet::Bytes => text.into(),
            Alphabet::Characters => escape_spaces(text),
        };
        let mut symbols = Symbols::default();
        let mut words = 0;
        self.pre.split(&text, &mut |word| {
            words += 1;
            if interrupt::step(word.len() as u64) {
                return ControlFlow::Break(());
            }
            if words % PROGRESS_INTERVAL == 0 && !progress(out.len()) {
                return ControlFlow::Break(());
            }
            let is_whole = match self.pre.whole_words {
                WholeWords::None => false,
                WholeWords::LineBreaks => word.bytes().all(|byte| byte == b'\n'),
                WholeWords::All => true,
            };
            if is_whole && let Some(id) = self.token(word, vocabulary) {
                out.push(id);
                return ControlFlow::Continue(());
            }
            let mut rest = word;
            while let Some(end) = self.segment_end(rest, vocabulary) {
                let (segment, remaining) = rest.split_at(end);
                self.merge_word(segment, vocabulary, &mut symbols, out);
                rest = remaining;
                if interrupt::is_set() || !progress(out.len()) {
                    return ControlFlow::Break(());
                }
            }
            self.merge_word(rest, vocabulary, &mut symbols, out);
            ControlFlow::Continue(())
        })
    }

    /// The token with this key.
    fn token(&self, key: &str, vocabulary: &Vocabulary) -> Option<u32> {
        let keys = self.texts.as_ref().unwrap_or(&vocabulary.bytes);
        self.tokens.get(key.as_bytes(), keys)
    }

    /// End of the first segment of a word that is too long to be merged at once.
    fn segment_end(&self, word: &str, vocabulary: &Vocabulary) -> Option<usize> {
        let max_bytes = match self.pre.alphabet {
            Alphabet::Bytes => MAX_WORD_BYTES,
            Alphabet::Characters => SEGMENT_BYTES,
        };
        (word.len() > max_bytes).then(|| match self.pre.alphabet {
            Alphabet::Bytes => word.floor_char_boundary(max_bytes),
            Alphabet::Characters => vocabulary.segment_end(word),
        })
    }

    /// Appends the tokens of a word. Bytes without a token become the unknown token.
    fn merge_word(&self, word: &str, vocabulary: &Vocabulary, symbols: &mut Symbols, out: &mut Vec<u32>) {
        symbols.clear();
        match self.pre.alphabet {
            Alphabet::Bytes => {
                for byte in word.bytes() {
                    symbols.push(self.byte_tokens[byte as usize], 1);
                }
            }
            Alphabet::Characters => {
                for character in word.chars() {
                    let id = self.token(character.encode_utf8(&mut [0; 4]), vocabulary);
                    symbols.push(id.unwrap_or(NO_TOKEN), character.len_utf8() as u32);
                }
            }
        }
        symbols.merge(|left, right| self.merges.get(&(left.id, right.id)).copied());
        let unknown = vocabulary.unknown_in_text();
        for symbol in symbols.iter() {
            if symbol.id != NO_TOKEN {
                out.push(symbol.id);
                continue;
            }
            for &byte in &word.as_bytes()[symbol.start as usize..(symbol.start + symbol.len) as usize] {
                match self.byte_tokens[byte as usize] {
                    NO_TOKEN => out.extend(unknown),
                    id => out.push(id),
                }
            }
        }
    }

    /// The first two characters at or after `start` between which a text can be cut if
    /// [`Bpe::divides`] agrees.
    pub fn find_cut(&self, text: &str, start: usize) -> Option<usize> {
        self.pre.find_cut(text, start)
    }

    /// Whether no token spans two characters that [`Bpe::find_cut`] found.
    pub fn divides(&self, previous: char, next: char, vocabulary: &Vocabulary) -> bool {
        match self.pre.alphabet {
            Alphabet::Bytes => true,
            // Line breaks are separate words.
            Alphabet::Characters => (previous == '\n') != (next == '\n') || vocabulary.divides(previous, next),
        }
    }

    /// Whether a byte has a token, or is an ASCII character that has one.
    pub fn has_token(&self, byte: u8, vocabulary: &Vocabulary) -> bool {
        let has_character = || {
            let character = spaced::escape_space(byte as char);
            let is_character = self.pre.alphabet == Alphabet::Characters && byte.is_ascii();
            is_character && self.token(character.encode_utf8(&mut [0; 4]), vocabulary).is_some()
        };
        self.byte_tokens[byte as usize] != NO_TOKEN || has_character()
    }
}

/// Rank and resulting token of the merge of two adjacent tokens.
type Merges = HashMap<(u32, u32), (u32, u32)>;

fn read_merges(
    texts: &Strings,
    alphabet: Alphabet,
    tokens: &Lookup,
    keys: &ByteStrings,
    vocabulary: &Vocabulary,
) -> Result<Merges, TokenizerError> {
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
        if !push_key(alphabet, left, &mut joined) {
            return Err(malformed("has a character outside the byte-level alphabet"));
        }
        let middle = joined.len();
        if !push_key(alphabet, right, &mut joined) {
            return Err(malformed("has a character outside the byte-level alphabet"));
        }
        let find = |bytes| tokens.get(bytes, keys);
        match (find(&joined[..middle]), find(&joined[middle..]), find(&joined)) {
            (Some(left), Some(right), Some(id)) => {
                merges.entry((left, right)).or_insert((rank as u32, id));
            }
            _ => return Err(malformed("has a part or result that is not a token")),
        }
    }
    Ok(merges)
}

/// Appends the key of a token with this text. Returns `false` if there is no such token.
fn push_key(alphabet: Alphabet, text: &str, out: &mut Vec<u8>) -> bool {
    match alphabet {
        Alphabet::Bytes => byte_level::decode(text, out),
        Alphabet::Characters => {
            out.extend(text.as_bytes());
            true
        }
    }
}

/// A text with U+2581 for each space.
fn escape_spaces(text: &str) -> Cow<'_, str> {
    if text.contains(' ') {
        text.replace(' ', SPACE.encode_utf8(&mut [0; 4])).into()
    } else {
        text.into()
    }
}

//! Byte-level byte pair encoding: words are cut into bytes, which are joined by a list of merges, the earliest first.

use super::lookup::{ByteStrings, Lookup};
use super::merge::{NO_TOKEN, Pieces};
use super::pre::PreTokenizer;
use super::vocabulary::{Kind, Vocabulary};
use super::{TokenizerError, byte_level};
use crate::gguf::{Gguf, Strings};
use hashbrown::HashMap;
use std::ops::ControlFlow;

/// Bytes of a word that are joined at once: they take some 40 times as much memory while they are. Longer ones, which no
/// language has, are cut.
const LONGEST_WORD: usize = 1 << 20;

/// Words that are encoded between two questions whether to go on.
const ASKED_EVERY: usize = 1 << 14;

/// Everything BPE needs beside the vocabulary.
pub(super) struct Bpe {
    pre: PreTokenizer,
    /// Tokens by the bytes they stand for; control tokens are not among them.
    tokens: Lookup,
    /// The token of each single byte, or [`NO_TOKEN`].
    of_byte: [u32; 256],
    /// What a pair of tokens becomes: (place in the list, token).
    merges: Merges,
}

impl Bpe {
    /// The bytes that each token stands for.
    pub fn token_bytes(texts: &Strings, kinds: &[Kind]) -> ByteStrings {
        let mut strings = ByteStrings::default();
        for (text, kind) in texts.iter().zip(kinds) {
            strings.push_with(|out| {
                // Added tokens stand as they are; so do those that use characters outside the byte-level alphabet.
                let as_it_is = matches!(kind, Kind::Control | Kind::Unknown | Kind::UserDefined);
                if as_it_is || !byte_level::decode(text, out) {
                    out.extend(text.as_bytes());
                }
            });
        }
        strings
    }

    /// Reads the merges of a file.
    pub fn build(gguf: &Gguf, pre: PreTokenizer, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let mut tokens = Lookup::with_capacity(vocabulary.len());
        let mut added = Vec::new();
        for (id, &kind) in vocabulary.kinds.iter().enumerate() {
            let id = id as u32;
            match kind {
                Kind::Normal | Kind::Byte => {
                    if let Err(other) = tokens.insert(id, &vocabulary.bytes) {
                        let text = vocabulary.texts.get(id as usize).unwrap_or_default();
                        return Err(vocabulary.malformed(format!("tokens {other} and {id} are both '{text}'")));
                    }
                }
                Kind::UserDefined | Kind::Unused => added.push(id),
                Kind::Control | Kind::Unknown => {}
            }
        }
        // Merges may lead to added tokens, but where one has the bytes of an ordinary token, that one is meant.
        for id in added {
            tokens.insert(id, &vocabulary.bytes).ok();
        }
        let of_byte = std::array::from_fn(|byte| tokens.get(&[byte as u8], &vocabulary.bytes).unwrap_or(NO_TOKEN));
        let list = gguf.required_strings("tokenizer.ggml.merges")?;
        let merges = read_merges(list, &tokens, vocabulary)?;
        Ok(Self {
            pre,
            tokens,
            of_byte,
            merges,
        })
    }

    /// Appends the tokens of a text. Breaks where `go_on`, which is told how many tokens there are, says no.
    pub fn encode(
        &self,
        text: &str,
        vocabulary: &Vocabulary,
        out: &mut Vec<u32>,
        go_on: &dyn Fn(usize) -> bool,
    ) -> ControlFlow<()> {
        let mut pieces = Pieces::default();
        let mut words = 0;
        self.pre.cut(text, &mut |word| {
            words += 1;
            if words % ASKED_EVERY == 0 && !go_on(out.len()) {
                return ControlFlow::Break(());
            }
            if self.pre.ignore_merges
                && let Some(id) = self.tokens.get(word.as_bytes(), &vocabulary.bytes)
            {
                out.push(id);
                return ControlFlow::Continue(());
            }
            let mut rest = word;
            while rest.len() > LONGEST_WORD {
                let (part, after) = rest.split_at(rest.floor_char_boundary(LONGEST_WORD));
                self.join(part, &mut pieces, out);
                rest = after;
                if !go_on(out.len()) {
                    return ControlFlow::Break(());
                }
            }
            self.join(rest, &mut pieces, out);
            ControlFlow::Continue(())
        })
    }

    /// Appends the tokens of a word.
    fn join(&self, word: &str, pieces: &mut Pieces, out: &mut Vec<u32>) {
        pieces.clear();
        for byte in word.bytes() {
            pieces.push(self.of_byte[byte as usize], 1);
        }
        pieces.merge(|left, right| self.merges.get(&(left.id, right.id)).copied());
        // A byte without a token is dropped, as by every reader of such vocabularies; nothing stands for it.
        out.extend(pieces.iter().map(|piece| piece.id).filter(|&id| id != NO_TOKEN));
    }
}

/// For two neighbouring tokens the rank of their merge, and the token they become.
type Merges = HashMap<(u32, u32), (u32, u32)>;

fn read_merges(list: &Strings, tokens: &Lookup, vocabulary: &Vocabulary) -> Result<Merges, TokenizerError> {
    let mut merges = HashMap::with_capacity(list.len());
    let mut joined = Vec::new();
    for (rank, merge) in list.iter().enumerate() {
        let damaged = |why: &str| vocabulary.malformed(format!("merge {rank} ('{merge}') {why}"));
        // The left side has at least one character, which may be a space where the alphabet is not byte-level.
        let space = merge
            .bytes()
            .skip(1)
            .position(|byte| byte == b' ')
            .map(|place| place + 1);
        let Some((left, right)) = space.map(|space| (&merge[..space], &merge[space + 1..])) else {
            return Err(damaged("is no pair"));
        };
        joined.clear();
        if !byte_level::decode(left, &mut joined) {
            return Err(damaged("has a character that stands for no byte"));
        }
        let middle = joined.len();
        if !byte_level::decode(right, &mut joined) {
            return Err(damaged("has a character that stands for no byte"));
        }
        let find = |bytes| tokens.get(bytes, &vocabulary.bytes);
        match (find(&joined[..middle]), find(&joined[middle..]), find(&joined)) {
            (Some(left), Some(right), Some(id)) => {
                merges.entry((left, right)).or_insert((rank as u32, id));
            }
            _ => return Err(damaged("joins or makes what is no token")),
        }
    }
    Ok(merges)
}

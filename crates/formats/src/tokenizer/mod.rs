//! Tokenizers: encode text to tokens and decode tokens to text, with the vocabulary of a GGUF file.
//!
//! Two types cover nearly all models: BPE ([`bpe`]: Llama 3, Qwen, SmolLM, Gemma 4) and
//! SentencePiece ([`spm`]: Llama 2, Gemma 3). User text is never parsed for special tokens. See
//! [`Special`].

mod bpe;
mod byte_level;
mod cuts;
mod error;
mod lookup;
mod matcher;
mod merge;
mod patterns;
mod pre;
mod sequences;
mod spaced;
mod spm;
mod steps;
mod vocabulary;

pub use error::TokenizerError;
pub(crate) use matcher::{Markers, NONCHARACTERS};

use crate::gguf::Gguf;
use bpe::Bpe;
use matcher::{Fragment, TokenMatcher, without};
use pre::{Bos, PreTokenizer};
use spm::Spm;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use vocabulary::{TokenType, Vocabulary};

/// The encoding of text that looks like a special token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Encodes ordinary text. For user text and the contents of files.
    Text,
    /// Parses special tokens. For rendered templates.
    Parse,
}

/// Whether a user-defined token has the form of a tag, such as `<think>` or `<|channel>`. Tokens
/// that structure conversations have it; runs of white space do not.
fn is_markup(text: &str) -> bool {
    let enclosed = |open: char, close: char| text.starts_with(open) && text.ends_with(close);
    text.len() > 2 && (enclosed('<', '>') || enclosed('[', ']'))
}

/// An empty list of ids with the expected capacity for a text: a token typically has three to four
/// bytes.
fn ids_with_capacity(text: &str) -> Vec<u32> {
    Vec::with_capacity(text.len() / 3 + 1)
}

/// A model's tokenizer. Callers add BOS if [`Tokenizer::add_bos`] returns `true`.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    model: Model,
    add_bos: bool,
    add_eos: bool,
    /// Matches control tokens.
    controls: TokenMatcher,
    /// Matches user-defined tokens, before pre-tokenization.
    user_defined: TokenMatcher,
}

enum Model {
    Bpe(Bpe),
    Spm(Spm),
}

impl Tokenizer {
    /// Builds the tokenizer of a file.
    ///
    /// # Errors
    /// If the file has no vocabulary, or an unsupported or malformed one.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TokenizerError> {
        let unknown = |what, name: &str| TokenizerError::Unknown {
            file: gguf.path().display().to_string(),
            what,
            name: name.to_owned(),
        };
        let mut vocabulary = Vocabulary::read(gguf)?;
        let model_name = gguf.required_str("tokenizer.ggml.model")?;
        let (model, bos) = match model_name {
            "gpt2" | "gemma4" => {
                let name = match model_name {
                    "gpt2" => gguf.str("tokenizer.ggml.pre")?.unwrap_or("default"),
                    // Files of Gemma 4 name none.
                    other => other,
                };
                let pre = PreTokenizer::named(name).ok_or_else(|| unknown("pre-tokenizer", name))?;
                vocabulary.bytes = Bpe::token_bytes(pre.alphabet, &vocabulary.texts, &vocabulary.types);
                (Model::Bpe(Bpe::build(gguf, pre, &vocabulary)?), pre.bos)
            }
            "llama" => {
                vocabulary.bytes = Spm::token_bytes(&vocabulary.texts, &vocabulary.types);
                (Model::Spm(Spm::build(gguf, &vocabulary)?), Bos::Added)
            }
            other => return Err(unknown("tokenizer", other)),
        };
        let add_bos = match gguf.bool("tokenizer.ggml.add_bos_token")? {
            _ if bos == Bos::Forced => true,
            Some(add_bos) => add_bos,
            None => bos == Bos::Added,
        };
        let add_bos = add_bos && vocabulary.bos.is_some();
        let add_eos = gguf.bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false) && vocabulary.eos.is_some();
        let controls = TokenMatcher::new(TokenType::Control, &vocabulary)?;
        let user_defined = TokenMatcher::new(TokenType::UserDefined, &vocabulary)?;
        Ok(Self {
            vocabulary,
            model,
            add_bos,
            add_eos,
            controls,
            user_defined,
        })
    }

    /// Encodes a text. Does not add BOS.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = ids_with_capacity(text);
        match special {
            Special::Text => self.encode_text(text, true, None, &mut ids),
            Special::Parse => self.encode_parsing_special(text, None, &mut ids),
        }
        ids
    }

    /// Encodes a text, parsing special tokens except those that a marker breaks up. Markers are
    /// removed.
    pub(crate) fn encode_marked(&self, text: &str, markers: Markers) -> Vec<u32> {
        let mut ids = ids_with_capacity(text);
        self.encode_parsing_special(text, Some(markers), &mut ids);
        ids
    }

    /// Inserts [`Markers::literal`] into each user-defined token in a text that structures the
    /// model's conversations according to `is_structure`, so that it is encoded as ordinary text.
    pub(crate) fn mark_structure<'t>(
        &self,
        text: &'t str,
        markers: Markers,
        is_structure: impl Fn(&str) -> bool,
    ) -> Cow<'t, str> {
        let mut cache = HashMap::new();
        self.user_defined.mark_some(text, markers.literal, |id| {
            *cache.entry(id).or_insert_with(|| {
                self.token_text(id)
                    .is_some_and(|token| is_markup(token) && is_structure(token))
            })
        })
    }

    /// Inserts `marker` into every control token in a text, and wherever one could form across the
    /// ends of the text, so that the text contains none.
    pub(crate) fn mark_controls(&self, text: &str, marker: char) -> String {
        self.controls.mark(text, marker)
    }

    /// Inserts `marker` around every character of a text that may occur in a control token.
    pub(crate) fn mark_each_character(&self, text: &str, marker: char) -> String {
        self.controls.mark_each(text, marker)
    }

    /// Replaces every character of a text that may occur in a control token. Preserves the number
    /// of characters.
    pub(crate) fn blank_controls(&self, text: &str, markers: Markers) -> String {
        self.controls.blank(text, markers)
    }

    /// Whether two texts have the same control tokens, at the same positions if the texts have the
    /// same length. Markers are ignored.
    pub(crate) fn have_same_controls(&self, a: &str, b: &str, markers: Markers) -> bool {
        let (a_controls, a_length) = self.controls.positions(a, markers);
        let (b_controls, b_length) = self.controls.positions(b, markers);
        if a_length == b_length {
            return a_controls == b_controls;
        }
        let id = |&(_, id): &(usize, u32)| id;
        a_controls.iter().map(id).eq(b_controls.iter().map(id))
    }

    /// Replaces every control token in a text by a space.
    pub(crate) fn without_controls(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.controls.split(text, |fragment| match fragment {
            Fragment::Text(ordinary) => out.push_str(ordinary),
            Fragment::Token(_) => out.push(' '),
        });
        out
    }

    /// Encodes a text with [`Special::Text`]. `progress` receives the number of tokens so far, at
    /// intervals, and returns `false` to cancel. `None` if cancelled.
    pub(crate) fn encode_cancellable(&self, text: &str, progress: &dyn Fn(usize) -> bool) -> Option<Vec<u32>> {
        let mut ids = ids_with_capacity(text);
        let flow = self.encode_text_cancellable(text, true, None, &mut ids, progress);
        flow.is_continue().then_some(ids)
    }

    /// Encodes as [`Tokenizer::encode_marked`] does. Also returns the end of each control token:
    /// the byte offset in the text, and the number of tokens up to it.
    pub(crate) fn encode_marked_with_boundaries(
        &self,
        text: &str,
        markers: Markers,
    ) -> (Vec<u32>, Vec<(usize, usize)>) {
        let ids = self.encode_marked(text, markers);
        let mut boundaries = Vec::new();
        let (mut bytes, mut tokens) = (0, 0);
        self.controls.split(text, |fragment| match fragment {
            Fragment::Text(ordinary) => bytes += ordinary.len(),
            Fragment::Token(id) => {
                bytes += self.vocabulary.text(id).map_or(0, str::len);
                // Ordinary text is never encoded to a control token.
                tokens += ids[tokens..]
                    .iter()
                    .position(|&other| other == id)
                    .map_or(0, |index| index + 1);
                boundaries.push((bytes, tokens));
            }
        });
        (ids, boundaries)
    }

    /// Encodes a text, parsing special tokens. `markers` break up special tokens and are removed.
    fn encode_parsing_special(&self, text: &str, markers: Option<Markers>, ids: &mut Vec<u32>) {
        let mut is_first = true;
        self.controls.split(text, |fragment| match fragment {
            Fragment::Text(marked) => {
                let ordinary = markers.map_or(marked.into(), |markers| without(marked, markers.control));
                self.encode_text(&ordinary, is_first, markers.map(|markers| markers.literal), ids);
                is_first = false;
            }
            Fragment::Token(id) => {
                ids.push(id);
                is_first = true;
            }
        });
    }

    /// Encodes as [`Tokenizer::encode_text_cancellable`] does, without progress.
    fn encode_text(&self, text: &str, is_first: bool, marker: Option<char>, ids: &mut Vec<u32>) {
        // Breaks only if interrupted. `Interrupt::run` then discards the tokens.
        let _ = self.encode_text_cancellable(text, is_first, marker, ids, &|_| true);
    }

    /// Encodes text without control tokens. `is_first`: it starts the input or follows a special
    /// token. `marker` breaks up user-defined tokens and is removed.
    fn encode_text_cancellable(
        &self,
        text: &str,
        mut is_first: bool,
        marker: Option<char>,
        ids: &mut Vec<u32>,
        progress: &dyn Fn(usize) -> bool,
    ) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        self.user_defined.split(text, |fragment| match fragment {
            _ if flow.is_break() => {}
            Fragment::Text(marked) => {
                let ordinary = &*marker.map_or(marked.into(), |marker| without(marked, marker));
                flow = match &self.model {
                    Model::Bpe(bpe) => bpe.encode(ordinary, &self.vocabulary, ids, progress),
                    Model::Spm(spm) => spm.encode(ordinary, is_first, &self.vocabulary, ids, progress),
                };
                is_first = false;
            }
            Fragment::Token(id) => {
                ids.push(id);
                is_first = true;
            }
        });
        flow
    }

    /// The bytes that a token decodes to, which may be part of a character; for a special token its
    /// text. `None` if the id is out of range.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.bytes.get(id)
    }

    /// A token's text as in the file (`Ġhello`, `<0x0A>`). `None` if the id is out of range.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// Decodes tokens. Special tokens decode to their text, ids out of range to nothing, and
    /// invalid UTF-8 to U+FFFD. Removes the space that encoding adds before a text.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids
            .iter()
            .filter_map(|&id| self.token_bytes(id))
            .flatten()
            .copied()
            .collect();
        let text =
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        match &self.model {
            Model::Spm(spm) if spm.add_space_prefix => match text.strip_prefix(' ') {
                Some(unprefixed) => unprefixed.to_owned(),
                None => text,
            },
            _ => text,
        }
    }

    /// Number of tokens. All ids are smaller.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// Beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.bos
    }

    /// End-of-sequence token.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.eos
    }

    /// End-of-turn token.
    pub fn eot(&self) -> Option<u32> {
        self.vocabulary.eot
    }

    /// Whether the model expects [`Tokenizer::bos`] before a text.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether the model expects [`Tokenizer::eos`] after a text.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// Whether a token is a control token or the unknown token.
    pub fn is_special(&self, id: u32) -> bool {
        matches!(
            self.vocabulary.types.get(id as usize),
            Some(TokenType::Control | TokenType::Unknown)
        )
    }

    /// Whether generation ends at this token.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.vocabulary.eog_ids.binary_search(&id).is_ok()
    }

    /// The first byte of text that cannot be encoded: it has no token, and there is no unknown
    /// token either. `None` if there is no such byte. Bytes that no text has do not count, since
    /// many vocabularies lack some of them.
    pub fn missing_byte(&self) -> Option<u8> {
        if self.vocabulary.unknown_in_text().is_some() {
            return None;
        }
        // The bytes of assigned characters in UTF-8, but of control characters only white space.
        // 0xf1 and 0xf2 begin U+40000 to U+BFFFF, which are unassigned.
        let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r');
        let mut bytes = (0..=0xf4).filter(|byte| !is_control(byte) && !matches!(byte, 0xc0 | 0xc1 | 0xf1 | 0xf2));
        let has_token = |byte: u8| match &self.model {
            Model::Bpe(bpe) => bpe.has_token(byte, &self.vocabulary),
            Model::Spm(spm) => spm.has_token(byte),
        };
        bytes.find(|&byte| !has_token(byte))
    }

    /// The control token with this text, such as `<|im_start|>`.
    pub fn special_id(&self, text: &str) -> Option<u32> {
        self.controls.token(text)
    }
}

//! Turns text into tokens and back, with the vocabulary that a model's file carries.
//!
//! Two kinds cover nearly all models: byte-level BPE ([`bpe`], Llama 3, Qwen, SmolLM) and SentencePiece ([`spm`], Llama 2,
//! Gemma). What a person types is never read as structure: see [`Special`].

mod bpe;
mod byte_level;
mod error;
mod finder;
mod lookup;
mod merge;
mod pre;
mod spm;
mod vocabulary;

pub use error::TokenizerError;
pub(crate) use finder::NONCHARACTERS;

use crate::gguf::Gguf;
use bpe::Bpe;
use finder::{Finder, Part};
use pre::PreTokenizer;
use spm::Spm;
use std::borrow::Cow;
use std::ops::ControlFlow;
use vocabulary::{Kind, Vocabulary};

/// How texts that look like special tokens are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// As text, whatever they look like: for all that people type and files contain.
    Text,
    /// As the special tokens: for templates.
    Parse,
}

/// A model's tokenizer. It adds nothing by itself: a BOS is for the caller to add where [`Tokenizer::add_bos`] says so.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    model: Model,
    add_bos: bool,
    add_eos: bool,
    /// The control tokens.
    controls: Finder,
    /// Tokens of text that come before all else.
    user_defined: Finder,
}

enum Model {
    Bpe(Bpe),
    Spm(Spm),
}

impl Tokenizer {
    /// Builds the tokenizer of a file.
    ///
    /// # Errors
    /// Where the file has no vocabulary, one of a kind that is not known, or one that contradicts itself.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TokenizerError> {
        let unknown = |what, name: &str| TokenizerError::Unknown {
            file: gguf.path().display().to_string(),
            what,
            name: name.to_owned(),
        };
        let mut vocabulary = Vocabulary::read(gguf)?;
        let (model, wants_bos) = match gguf.required_str("tokenizer.ggml.model")? {
            "gpt2" => {
                let name = gguf.str("tokenizer.ggml.pre")?.unwrap_or("default");
                let pre = PreTokenizer::named(name).ok_or_else(|| unknown("pre-tokenizer", name))?;
                vocabulary.bytes = Bpe::token_bytes(&vocabulary.texts, &vocabulary.kinds);
                (Model::Bpe(Bpe::build(gguf, pre, &vocabulary)?), pre.add_bos)
            }
            "llama" => {
                vocabulary.bytes = Spm::token_bytes(&vocabulary.texts, &vocabulary.kinds);
                (Model::Spm(Spm::build(gguf, &vocabulary)?), true)
            }
            other => return Err(unknown("tokenizer", other)),
        };
        let add_bos = gguf.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(wants_bos) && vocabulary.bos.is_some();
        let add_eos = gguf.bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false) && vocabulary.eos.is_some();
        let controls = Finder::of(Kind::Control, &vocabulary)?;
        let user_defined = Finder::of(Kind::UserDefined, &vocabulary)?;
        Ok(Self {
            vocabulary,
            model,
            add_bos,
            add_eos,
            controls,
            user_defined,
        })
    }

    /// The tokens of a text. Adds no BOS.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        // Three to four bytes a token are usual.
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        match special {
            Special::Text => self.encode_text(text, true, &mut ids),
            Special::Parse => self.encode_structure(text, Cow::Borrowed, &mut ids),
        }
        ids
    }

    /// The tokens of a text whose special strings are read as such, except those that `marker` breaks apart; the marker
    /// itself is no part of the text.
    pub(crate) fn encode_marked(&self, text: &str, marker: char) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        self.encode_structure(
            text,
            |text| {
                if text.contains(marker) {
                    text.replace(marker, "").into()
                } else {
                    text.into()
                }
            },
            &mut ids,
        );
        ids
    }

    /// Puts `marker` into every control token's text inside a text, and where one could arise with what stands before or
    /// after it, so that none is found there.
    pub(crate) fn mark_controls(&self, text: &str, marker: char) -> String {
        self.controls.mark(text, marker)
    }

    /// Puts `marker` around every character of a text that could be a part of a control token.
    pub(crate) fn mark_each_character(&self, text: &str, marker: char) -> String {
        self.controls.mark_each(text, marker)
    }

    /// A text of the same length without any character that could be a part of a control token.
    pub(crate) fn blank(&self, text: &str, marker: char) -> String {
        self.controls.blank(text, marker)
    }

    /// Whether two texts have the same control tokens, and, where the texts are of one length, in the same places. Markers do
    /// not count.
    pub(crate) fn have_same_controls(&self, one: &str, other: &str, marker: char) -> bool {
        let (one, length) = self.controls.places(one, marker);
        let (other, other_length) = self.controls.places(other, marker);
        if length == other_length {
            return one == other;
        }
        let id = |&(_, id): &(usize, u32)| id;
        one.iter().map(id).eq(other.iter().map(id))
    }

    /// A text with a space in place of every control token.
    pub(crate) fn without_controls(&self, text: &str) -> String {
        let mut rest = String::with_capacity(text.len());
        self.controls.split(text, |part| match part {
            Part::Text(text) => rest.push_str(text),
            Part::Token(_) => rest.push(' '),
        });
        rest
    }

    /// As [`Tokenizer::encode`] with [`Special::Text`]; none where `go_on`, which is now and then told how many tokens there are,
    /// says no.
    pub(crate) fn encode_while(&self, text: &str, go_on: &dyn Fn(usize) -> bool) -> Option<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        let done = self.encode_text_while(text, true, &mut ids, go_on);
        done.is_continue().then_some(ids)
    }

    /// As [`Tokenizer::encode_marked`], with the place behind each control token: bytes of the text before it, and tokens.
    pub(crate) fn encode_marked_parts(&self, text: &str, marker: char) -> (Vec<u32>, Vec<(usize, usize)>) {
        let ids = self.encode_marked(text, marker);
        let mut places = Vec::new();
        let (mut bytes, mut tokens) = (0, 0);
        self.controls.split(text, |part| match part {
            Part::Text(text) => bytes += text.len(),
            Part::Token(id) => {
                bytes += self.vocabulary.text(id).map_or(0, str::len);
                // Text has no token that this finder finds.
                tokens += ids[tokens..]
                    .iter()
                    .position(|&other| other == id)
                    .map_or(0, |at| at + 1);
                places.push((bytes, tokens));
            }
        });
        (ids, places)
    }

    fn encode_structure<'t>(
        &self,
        text: &'t str,
        mut prepare: impl FnMut(&'t str) -> Cow<'t, str>,
        ids: &mut Vec<u32>,
    ) {
        let mut first = true;
        self.controls.split(text, |part| match part {
            Part::Text(text) => {
                self.encode_text(&prepare(text), first, ids);
                first = false;
            }
            Part::Token(id) => {
                ids.push(id);
                first = true;
            }
        });
    }

    fn encode_text(&self, text: &str, first: bool, ids: &mut Vec<u32>) {
        // Nothing breaks it.
        let _ = self.encode_text_while(text, first, ids, &|_| true);
    }

    fn encode_text_while(
        &self,
        text: &str,
        mut first: bool,
        ids: &mut Vec<u32>,
        go_on: &dyn Fn(usize) -> bool,
    ) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        self.user_defined.split(text, |part| match part {
            _ if flow.is_break() => {}
            Part::Text(text) => {
                flow = match &self.model {
                    Model::Bpe(bpe) => bpe.encode(text, &self.vocabulary, ids, go_on),
                    Model::Spm(spm) => spm.encode(text, first, &self.vocabulary, ids, go_on),
                };
                first = false;
            }
            Part::Token(id) => {
                ids.push(id);
                first = true;
            }
        });
        flow
    }

    /// The bytes that a token stands for, which may be part of a character. Special tokens give their text. None for an id that
    /// is no token.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.bytes.get(id)
    }

    /// A token's text as it stands in the file (`Ġhello`, `<0x0A>`).
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// The text of tokens. Special ones show as their text, ids that are no tokens as nothing, and bytes that are no character
    /// as U+FFFD. A space that encoding puts before a text is taken away again.
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
                Some(text) => text.to_owned(),
                None => text,
            },
            _ => text,
        }
    }

    /// How many tokens there are; ids are smaller.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.eos
    }

    /// The token that ends a turn.
    pub fn eot(&self) -> Option<u32> {
        self.vocabulary.eot
    }

    /// Whether the model wants [`Tokenizer::bos`] before a text.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether the model wants [`Tokenizer::eos`] after a text.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// Whether a token is structure rather than text.
    pub fn is_special(&self, id: u32) -> bool {
        matches!(
            self.vocabulary.kinds.get(id as usize),
            Some(Kind::Control | Kind::Unknown)
        )
    }

    /// Whether an answer ends at this token.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.vocabulary.ends.binary_search(&id).is_ok()
    }

    /// The token of a special text such as `<|im_start|>`.
    pub fn special_id(&self, text: &str) -> Option<u32> {
        self.controls.token(text)
    }
}

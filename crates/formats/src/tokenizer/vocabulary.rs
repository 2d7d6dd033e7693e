//! A file's vocabulary: the text and type of each token, and the special token ids.

use super::TokenizerError;
use super::lookup::ByteStrings;
use crate::gguf::{Gguf, Strings};
use std::collections::HashSet;
use std::sync::OnceLock;

/// Token types of `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenType {
    /// Ordinary text.
    Normal,
    /// Stands for text that the vocabulary cannot encode.
    Unknown,
    /// Control tokens, such as the beginning and end of turns and texts. Never produced from user
    /// text.
    Control,
    /// Text that is always one token. Matched before pre-tokenization.
    UserDefined,
    /// Reserved: models do not use it.
    Unused,
    /// A single byte (byte fallback).
    Byte,
}

/// The vocabulary of a file.
pub(super) struct Vocabulary {
    /// Path of the file, for errors.
    file: String,
    /// Token texts as in the file.
    pub texts: Strings,
    pub types: Vec<TokenType>,
    /// The bytes that each token decodes to.
    pub bytes: ByteStrings,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub unknown: Option<u32>,
    /// End-of-generation tokens, sorted.
    pub eog_ids: Vec<u32>,
    /// Pairs of adjacent characters in all tokens, with U+2581 for a space. Computed for the first
    /// text that is divided by them.
    pub adjacent_chars: OnceLock<HashSet<(char, char)>>,
}

/// Texts of end-of-turn tokens, by priority, for files that do not name one.
const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

/// Texts of end-of-generation tokens, in addition to those that the file names.
const END_OF_GENERATION: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
];

/// Texts of control tokens that some files mark as user-defined.
const CONTROL_TEXTS: &[&str] = &["<start_of_turn>", "<bos>", "<pad>", "<mask>", "[@BOS@]"];

impl Vocabulary {
    /// The token for bytes that have none. Excludes BOS and end-of-generation tokens, such as
    /// GPT-2's `<|endoftext|>`, which text must not produce.
    pub fn unknown_in_text(&self) -> Option<u32> {
        self.unknown
            .filter(|id| Some(*id) != self.bos && self.eog_ids.binary_search(id).is_err())
    }

    /// Reads the vocabulary of a file, except [`Vocabulary::bytes`].
    pub fn read(gguf: &Gguf) -> Result<Self, TokenizerError> {
        let texts = gguf.required_strings("tokenizer.ggml.tokens")?.clone();
        let mut vocabulary = Self {
            file: gguf.path().display().to_string(),
            texts,
            types: Vec::new(),
            bytes: ByteStrings::default(),
            bos: None,
            eos: None,
            eot: None,
            unknown: None,
            eog_ids: Vec::new(),
            adjacent_chars: OnceLock::new(),
        };
        if vocabulary.texts.is_empty() || vocabulary.texts.len() > i32::MAX as usize {
            return Err(vocabulary.malformed(format!("it has {} tokens", vocabulary.texts.len())));
        }
        vocabulary.read_types(gguf)?;
        vocabulary.bos = vocabulary.named_id(gguf, "bos")?;
        vocabulary.eos = vocabulary.named_id(gguf, "eos")?;
        vocabulary.eot = vocabulary.named_id(gguf, "eot")?;
        vocabulary.unknown = vocabulary.named_id(gguf, "unknown")?;
        let end_of_message = vocabulary.named_id(gguf, "eom")?;
        vocabulary.find_eog(end_of_message);
        Ok(vocabulary)
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// An error about this vocabulary.
    pub fn malformed(&self, why: String) -> TokenizerError {
        TokenizerError::Malformed {
            file: self.file.clone(),
            why,
        }
    }

    /// The text of a token as in the file.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)
    }

    fn read_types(&mut self, gguf: &Gguf) -> Result<(), TokenizerError> {
        let Some(type_ids) = gguf.i32s("tokenizer.ggml.token_type")? else {
            self.types = vec![TokenType::Normal; self.len()];
            return Ok(());
        };
        if type_ids.len() < self.len() {
            return Err(self.malformed(format!("{} token types for {} tokens", type_ids.len(), self.len())));
        }
        let mut types = Vec::with_capacity(self.len());
        for (id, (&type_id, text)) in type_ids.iter().zip(self.texts.iter()).enumerate() {
            types.push(match type_id {
                0 | 1 => TokenType::Normal,
                2 => TokenType::Unknown,
                3 => TokenType::Control,
                4 if looks_like_control(text) => TokenType::Control,
                4 => TokenType::UserDefined,
                5 => TokenType::Unused,
                6 => TokenType::Byte,
                other => return Err(self.malformed(format!("token {id} ('{text}') has the unknown type {other}"))),
            });
        }
        self.types = types;
        Ok(())
    }

    /// The id in `tokenizer.ggml.{name}_token_id`. `None` if there is none.
    fn named_id(&self, gguf: &Gguf, name: &str) -> Result<Option<u32>, TokenizerError> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        match gguf.u32(&key)? {
            // Some writers use -1 for none.
            Some(u32::MAX) | None => Ok(None),
            Some(id) if (id as usize) < self.len() => Ok(Some(id)),
            Some(id) => Err(self.malformed(format!("'{key}' is {id}, but there are only {} tokens", self.len()))),
        }
    }

    /// Collects the end-of-generation tokens, and marks them and BOS as control tokens so that user
    /// text cannot produce them.
    fn find_eog(&mut self, end_of_message: Option<u32>) {
        // A single pass over the vocabulary. The check of the first character skips nearly all
        // tokens.
        let mut end_of_turn: Option<(usize, u32)> = None;
        for (id, text) in self.texts.iter().enumerate() {
            if !text.starts_with(['<', '[', '_']) {
                continue;
            }
            if END_OF_GENERATION.contains(&text) {
                self.eog_ids.push(id as u32);
            }
            if let Some(priority) = END_OF_TURN.iter().position(|&end| end == text)
                && end_of_turn.is_none_or(|(best, _)| priority < best)
            {
                end_of_turn = Some((priority, id as u32));
            }
        }
        self.eot = self.eot.or(end_of_turn.map(|(_, id)| id));
        // In the harmony format `<|end|>` only ends one of several parts of an answer.
        let contains =
            |eog_ids: &[u32], text: &str| eog_ids.iter().any(|&id| self.texts.get(id as usize) == Some(text));
        if contains(&self.eog_ids, "<|call|>") && contains(&self.eog_ids, "<|return|>") {
            self.eog_ids
                .retain(|&id| self.texts.get(id as usize) != Some("<|end|>"));
            self.eot = self.eot.filter(|&id| self.texts.get(id as usize) != Some("<|end|>"));
        }
        self.eog_ids
            .extend([self.eos, self.eot, end_of_message].into_iter().flatten());
        self.eog_ids.sort_unstable();
        self.eog_ids.dedup();
        for id in self.eog_ids.iter().copied().chain(self.bos) {
            self.types[id as usize] = TokenType::Control;
        }
    }
}

/// Whether a token that a file marks as user-defined has the form of a control token.
fn looks_like_control(text: &str) -> bool {
    let enclosed = |open: &str, close: &str| {
        text.len() > open.len() + close.len() && text.starts_with(open) && text.ends_with(close)
    };
    enclosed("<|", "|>") || enclosed("<｜", "｜>") || CONTROL_TEXTS.contains(&text)
}

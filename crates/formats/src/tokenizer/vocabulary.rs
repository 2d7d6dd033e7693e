//! The tokens of a file: their texts, what kind each is, and which of them begin and end things.

use super::TokenizerError;
use super::lookup::ByteStrings;
use crate::gguf::{Gguf, Strings};

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text.
    Normal,
    /// Stands for what the vocabulary has no token for.
    Unknown,
    /// Structure: begins and ends of turns and texts. Never made from what a person types.
    Control,
    /// Text that is always one token, looked for before all else.
    UserDefined,
    /// In no use.
    Unused,
    /// One byte.
    Byte,
}

/// The tokens of a file.
pub(super) struct Vocabulary {
    /// The file, for errors.
    file: String,
    /// As they stand in the file.
    pub texts: Strings,
    pub kinds: Vec<Kind>,
    /// The bytes that each stands for.
    pub bytes: ByteStrings,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub unknown: Option<u32>,
    /// Those at which an answer ends, in order.
    pub ends: Vec<u32>,
}

/// Tokens that end a turn, by their text, where the file does not name one.
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

/// Tokens that end an answer, by their text, whatever else the file says.
const END_OF_ANSWER: &[&str] = &[
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

/// Tokens of structure that some files call ordinary ones, by their text.
const STRUCTURE: &[&str] = &["<start_of_turn>", "<bos>", "<pad>", "<mask>", "[@BOS@]"];

impl Vocabulary {
    /// Reads the tokens of a file, all but the bytes they stand for.
    pub fn read(gguf: &Gguf) -> Result<Self, TokenizerError> {
        let texts = gguf.required_strings("tokenizer.ggml.tokens")?.clone();
        let mut vocabulary = Self {
            file: gguf.path().display().to_string(),
            texts,
            kinds: Vec::new(),
            bytes: ByteStrings::default(),
            bos: None,
            eos: None,
            eot: None,
            unknown: None,
            ends: Vec::new(),
        };
        if vocabulary.texts.is_empty() || vocabulary.texts.len() > i32::MAX as usize {
            return Err(vocabulary.malformed(format!("it has {} tokens", vocabulary.texts.len())));
        }
        vocabulary.read_kinds(gguf)?;
        let named = |vocabulary: &Self, name: &str| vocabulary.named_id(gguf, name);
        vocabulary.bos = named(&vocabulary, "bos")?;
        vocabulary.eos = named(&vocabulary, "eos")?;
        vocabulary.eot = named(&vocabulary, "eot")?;
        vocabulary.unknown = named(&vocabulary, "unknown")?;
        let end_of_message = named(&vocabulary, "eom")?;
        vocabulary.find_ends(end_of_message);
        Ok(vocabulary)
    }

    /// How many tokens.
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

    /// The text of a token as it stands in the file.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)
    }

    fn read_kinds(&mut self, gguf: &Gguf) -> Result<(), TokenizerError> {
        let Some(types) = gguf.i32s("tokenizer.ggml.token_type")? else {
            self.kinds = vec![Kind::Normal; self.len()];
            return Ok(());
        };
        if types.len() < self.len() {
            return Err(self.malformed(format!("{} token types for {} tokens", types.len(), self.len())));
        }
        let mut kinds = Vec::with_capacity(self.len());
        for (id, (&type_id, text)) in types.iter().zip(self.texts.iter()).enumerate() {
            kinds.push(match type_id {
                0 | 1 => Kind::Normal,
                2 => Kind::Unknown,
                3 => Kind::Control,
                4 if is_structure(text) => Kind::Control,
                4 => Kind::UserDefined,
                5 => Kind::Unused,
                6 => Kind::Byte,
                other => return Err(self.malformed(format!("token {id} ('{text}') has the unknown type {other}"))),
            });
        }
        self.kinds = kinds;
        Ok(())
    }

    /// A token that the metadata name.
    fn named_id(&self, gguf: &Gguf, name: &str) -> Result<Option<u32>, TokenizerError> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        match gguf.u32(&key)? {
            // How some writers say that there is none.
            Some(u32::MAX) | None => Ok(None),
            Some(id) if (id as usize) < self.len() => Ok(Some(id)),
            Some(id) => Err(self.malformed(format!("'{key}' is {id}, but there are only {} tokens", self.len()))),
        }
    }

    /// Finds what ends an answer, and makes sure that none of it can be typed.
    fn find_ends(&mut self, end_of_message: Option<u32>) {
        // One pass over the vocabulary; only few texts are short and begin as those that are looked for.
        let mut turn: Option<(usize, u32)> = None;
        for (id, text) in self.texts.iter().enumerate() {
            if !text.starts_with(['<', '[', '_']) {
                continue;
            }
            if END_OF_ANSWER.contains(&text) {
                self.ends.push(id as u32);
            }
            if let Some(place) = END_OF_TURN.iter().position(|&end| end == text)
                && turn.is_none_or(|(before, _)| place < before)
            {
                turn = Some((place, id as u32));
            }
        }
        self.eot = self.eot.or(turn.map(|(_, id)| id));
        // In harmony's vocabularies an answer has several parts, and `<|end|>` only ends one of them.
        let has = |ends: &[u32], text: &str| ends.iter().any(|&id| self.texts.get(id as usize) == Some(text));
        if has(&self.ends, "<|call|>") && has(&self.ends, "<|return|>") {
            self.ends.retain(|&id| self.texts.get(id as usize) != Some("<|end|>"));
            self.eot = self.eot.filter(|&id| self.texts.get(id as usize) != Some("<|end|>"));
        }
        self.ends
            .extend([self.eos, self.eot, end_of_message].into_iter().flatten());
        self.ends.sort_unstable();
        self.ends.dedup();
        for id in self.ends.iter().copied().chain(self.bos) {
            self.kinds[id as usize] = Kind::Control;
        }
    }
}

/// Whether a token that a file calls ordinary looks like structure.
fn is_structure(text: &str) -> bool {
    let enclosed = |open: &str, close: &str| {
        text.len() > open.len() + close.len() && text.starts_with(open) && text.ends_with(close)
    };
    enclosed("<|", "|>") || enclosed("<｜", "｜>") || STRUCTURE.contains(&text)
}

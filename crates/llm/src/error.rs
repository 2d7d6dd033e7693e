//! Errors of loading and running a model. Their messages are sentences for the user.

use hearth_formats::gguf::{GgufError, GgufHeader};
use std::fmt::Display;

/// A model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read or is corrupt.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The file lacks a tensor.
    #[error(
        "{file} has no tensor '{tensor}', which its architecture needs. The file is incomplete: download it again."
    )]
    Missing {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
    },
    /// A metadata value is out of range.
    #[error("{file}: the value of '{key}' is {value}, but must be {expected}. The file is corrupt: download it again.")]
    BadValue {
        /// The file.
        file: String,
        /// The metadata key, or a tensor.
        key: String,
        /// Its value.
        value: String,
        /// The values that are possible.
        expected: String,
    },
    /// A tensor's shape does not match the architecture.
    #[error(
        "{file}: the tensor '{tensor}' has the shape {found:?}, but must have {needed:?}. The file is corrupt: \
         download it again."
    )]
    Shape {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// Its shape in the file, row length first.
        found: Vec<u64>,
        /// The shape that the architecture requires, row length first.
        needed: Vec<u64>,
    },
    /// A tensor has NaN or infinite values.
    #[error("{file}: the tensor '{tensor}' has values that are not finite. The file is corrupt: download it again.")]
    NotFinite {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
    },
    /// Hearth cannot run this model.
    #[error("{file} cannot be run: {what}. Choose another file of this model, or another model.")]
    Unsupported {
        /// The file.
        file: String,
        /// The unsupported property.
        what: String,
    },
    /// There is no such device, or it cannot run models.
    #[error("The model cannot be loaded on '{device}': {why}")]
    Device {
        /// The device as requested.
        device: String,
        /// The reason, as a sentence.
        why: String,
    },
    /// The progress callback cancelled.
    #[error("Loading was cancelled.")]
    Cancelled,
}

impl LoadError {
    pub(crate) fn file(gguf: &GgufHeader) -> String {
        gguf.path().display().to_string()
    }

    pub(crate) fn missing(gguf: &GgufHeader, tensor: &str) -> Self {
        Self::Missing {
            file: Self::file(gguf),
            tensor: tensor.to_owned(),
        }
    }

    pub(crate) fn bad_value(gguf: &GgufHeader, key: &str, value: impl Display, expected: &str) -> Self {
        Self::BadValue {
            file: Self::file(gguf),
            key: key.to_owned(),
            value: value.to_string(),
            expected: expected.to_owned(),
        }
    }

    pub(crate) fn unsupported(gguf: &GgufHeader, what: &str) -> Self {
        Self::Unsupported {
            file: Self::file(gguf),
            what: what.to_owned(),
        }
    }
}

/// A session or step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// More tokens are needed than the context has.
    #[error(
        "The context is {context} tokens, but {needed} are needed. Shorten the text or load the model with a larger \
         context."
    )]
    ContextFull {
        /// The context length, in tokens.
        context: usize,
        /// Tokens needed.
        needed: usize,
    },
    /// A token id that is not in the vocabulary.
    #[error("The token {id} is not in the model's vocabulary of {vocab} tokens.")]
    NoSuchToken {
        /// The id.
        id: u32,
        /// Vocabulary size.
        vocab: usize,
    },
    /// Embeddings whose shape does not match their tokens and the model.
    #[error("The embeddings have the shape {found:?}, but {expected:?} is needed")]
    Embeddings {
        /// Rows and columns of the embeddings.
        found: [usize; 2],
        /// The number of tokens, and the width of the model.
        expected: [usize; 2],
    },
    /// A step with rows of models with different weights.
    #[error("The rows of a step are of models with different weights")]
    OtherModel,
    /// An empty prompt.
    #[error("There is no text to answer.")]
    Empty,
    /// A GPU failed: it ran out of memory, its driver crashed, or the device was lost.
    #[error("The GPU that runs the model failed ({0}).")]
    Device(String),
    /// The tokens do not fit the cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The requested context length is out of range.
    #[error("A context of {0} tokens is not possible. Choose a length from 1 to 16,777,216.")]
    BadContext(usize),
}

/// A sequence or a batch that does not fit its KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// A sequence with more tokens than the context has.
    #[error(
        "A sequence of {tokens} tokens does not fit a context of {context}. Shorten the text or load the model with a \
         larger context."
    )]
    ContextFull {
        /// Tokens of the sequence.
        tokens: usize,
        /// The context length of the cache.
        context: usize,
    },
    /// A sequence within the context, for which no page is free.
    #[error(
        "A sequence of {tokens} tokens finds no free page among the {pages} of the KV cache: other sequences have \
         them. Load the model with a larger context."
    )]
    CacheFull {
        /// Tokens of the sequence.
        tokens: usize,
        /// All pages of the group of layers.
        pages: usize,
    },
    /// A page that is not in the cache.
    #[error("Page {page} does not exist in a KV cache of {pages} pages. Load the model again.")]
    NoSuchPage {
        /// The page.
        page: u32,
        /// The number of pages in the cache.
        pages: usize,
    },
    /// A longer step than a cache with sliding windows was allocated for.
    #[error("A step of {tokens} tokens is longer than the {step} that the KV cache was made for")]
    LongStep {
        /// Tokens of the step.
        tokens: usize,
        /// Maximum tokens of a step.
        step: usize,
    },
    /// A backward of attention without a causal mask.
    #[error("Attention without a causal mask has no gradient")]
    NotCausal,
    /// A cache whose layers have other shapes or windows than the layers of the model.
    #[error("The KV cache was made for another model")]
    OtherModel,
    /// Sequences of different caches.
    #[error("The sequences of a step have different KV caches")]
    OtherCache,
    /// A batch whose numbers of tokens and positions differ.
    #[error("A batch has {found} tokens, but positions for {expected}")]
    Tokens {
        /// The number of tokens.
        found: usize,
        /// The number of positions.
        expected: usize,
    },
    /// A layer that is not in the cache.
    #[error("Layer {layer} does not exist in a KV cache of {layers} layers")]
    NoSuchLayer {
        /// Index of the layer.
        layer: usize,
        /// The number of layers in the cache.
        layers: usize,
    },
    /// Attention with other KV heads than the cache.
    #[error("The KV cache has {expected:?} KV heads and head elements, but attention has {found:?}")]
    Heads {
        /// KV heads and their width, of attention.
        found: [usize; 2],
        /// KV heads and their width, of the cache.
        expected: [usize; 2],
    },
}

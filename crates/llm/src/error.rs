//! What can go wrong while a model is loaded or asked, as sentences for a person.

use hearth_formats::gguf::{Gguf, GgufError};
use std::fmt::Display;

/// A model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read or is damaged.
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
    /// A number in the metadata makes no sense.
    #[error("{file} says '{key}' is {value}, which cannot be. The file is damaged: download it again.")]
    BadValue {
        /// The file.
        file: String,
        /// The metadata key.
        key: String,
        /// What it says.
        value: String,
    },
    /// A tensor has another shape than its architecture needs.
    #[error(
        "{file}: the tensor '{tensor}' has the shape {found:?}, and {needed:?} is needed. The file is damaged: \
         download it again."
    )]
    Shape {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// As the file has it, row length first.
        found: Vec<u64>,
        /// As the architecture needs it, row length first.
        needed: Vec<u64>,
    },
    /// A tensor holds numbers that are not finite.
    #[error("{file}: the tensor '{tensor}' holds numbers that are not finite. The file is damaged: download it again.")]
    NotFinite {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
    },
    /// Hearth cannot run this kind of model.
    #[error("{file} cannot be run: {what}. Choose another file of this model, or another model.")]
    Unsupported {
        /// The file.
        file: String,
        /// What is not supported.
        what: String,
    },
    /// There is no such device, or models cannot run on it.
    #[error("The model cannot be loaded on '{device}': {why}")]
    Device {
        /// As it was asked for.
        device: String,
        /// A sentence.
        why: String,
    },
    /// The loader was told to stop.
    #[error("Loading was cancelled.")]
    Cancelled,
}

impl LoadError {
    pub(crate) fn file(gguf: &Gguf) -> String {
        gguf.path().display().to_string()
    }

    pub(crate) fn missing(gguf: &Gguf, tensor: &str) -> Self {
        Self::Missing {
            file: Self::file(gguf),
            tensor: tensor.to_owned(),
        }
    }

    pub(crate) fn bad_value(gguf: &Gguf, key: &str, value: impl Display) -> Self {
        Self::BadValue {
            file: Self::file(gguf),
            key: key.to_owned(),
            value: value.to_string(),
        }
    }

    pub(crate) fn unsupported(gguf: &Gguf, what: &str) -> Self {
        Self::Unsupported {
            file: Self::file(gguf),
            what: what.to_owned(),
        }
    }
}

/// A session could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// More tokens than the context holds.
    #[error(
        "The context holds {context} tokens, and {needed} are needed. Shorten the text or load the model with a larger \
         context."
    )]
    ContextFull {
        /// Tokens it holds.
        context: usize,
        /// Tokens that were to lie in it.
        needed: usize,
    },
    /// A token id that the vocabulary does not have.
    #[error("The token {id} is not in the model's vocabulary of {vocab}.")]
    NoSuchToken {
        /// The id.
        id: u32,
        /// Tokens of the vocabulary.
        vocab: usize,
    },
    /// Nothing was given.
    #[error("There is no text to answer.")]
    Empty,
    /// A GPU failed: it ran out of memory, its driver crashed, or it was taken away.
    #[error("The GPU that runs the model failed ({0}).")]
    Device(String),
    /// The tokens do not fit the cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The context asked for is unusable.
    #[error("A context of {0} tokens cannot be set aside. Choose one between 1 and 16,777,216.")]
    BadContext(usize),
}

/// A sequence, or a batch of its tokens, that does not fit the KV cache it is said to lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// More tokens than cells.
    #[error(
        "A sequence of {tokens} tokens does not fit a cache of {cells}. Shorten the text or load the model with a \
         larger context."
    )]
    Full {
        /// Tokens of the sequence.
        tokens: usize,
        /// Cells of the pool.
        cells: usize,
    },
    /// A cell that the pool does not have.
    #[error("A token was to lie in cell {cell} of a cache of {cells}. Load the model again.")]
    NoSuchCell {
        /// Its number.
        cell: u32,
        /// Cells of the pool.
        cells: usize,
    },
    /// Two tokens of a sequence in one cell.
    #[error("Two tokens of a sequence were to lie in cell {cell} of the cache. Load the model again.")]
    CellTwice {
        /// Its number.
        cell: u32,
    },
    /// A batch of another length.
    #[error("A batch has {found} tokens, and there are positions for {expected}")]
    Tokens {
        /// Its tokens.
        found: usize,
        /// Those that have a position.
        expected: usize,
    },
    /// A layer that the pool does not have.
    #[error("Layer {layer} has no cells in a cache of {layers} layers")]
    NoSuchLayer {
        /// Its number.
        layer: usize,
        /// Layers of the pool.
        layers: usize,
    },
    /// Other heads than those of the pool's cells.
    #[error("A cell of the cache has {expected:?} key heads and elements of each, and attention has {found:?}")]
    Heads {
        /// Key heads and their width, of attention.
        found: [usize; 2],
        /// Those of the pool.
        expected: [usize; 2],
    },
}

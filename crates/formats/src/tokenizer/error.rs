//! Errors of tokenizers.

use crate::gguf::GgufError;

/// The reason that a tokenizer cannot be built from a file.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A metadata key is missing or has another type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// An unsupported tokenizer or pre-tokenizer.
    #[error("{file}: Hearth does not support its {what} '{name}'. Choose another model, or update Hearth.")]
    Unknown {
        /// The file.
        file: String,
        /// `tokenizer` or `pre-tokenizer`.
        what: &'static str,
        /// The name in the file.
        name: String,
    },
    /// A malformed vocabulary.
    #[error(
        "{file}: its vocabulary is malformed: {why}. Download the file again, or choose another file of this model."
    )]
    Malformed {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
}

//! What can be wrong with a vocabulary.

use crate::gguf::GgufError;

/// A tokenizer that cannot be built from a file.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file itself is at fault: a key is missing or has another type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A kind of tokenizer that Hearth does not know.
    #[error("{file}: its {what} '{name}' is not known to Hearth. Choose another model, or a newer Hearth.")]
    Unknown {
        /// The file.
        file: String,
        /// `tokenizer` or `pre-tokenizer`.
        what: &'static str,
        /// What the file calls it.
        name: String,
    },
    /// A vocabulary that contradicts itself.
    #[error("{file}: its vocabulary is damaged: {why}. Download the file again or get another one of this model.")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
}

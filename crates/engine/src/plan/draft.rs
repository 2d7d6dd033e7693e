//! The bytes of a target and of its draft, by the draft that a request chooses.

use super::ModelBytes;
use crate::problem::{from_gguf, from_load};
use hearth_formats::gguf::Gguf;
use hearth_llm::Config;
use hearth_protocol::{DraftChoice, Problem};

/// The bytes of a target, whose KV cache is larger if it drafts with its first layers.
pub(crate) fn target_bytes(bytes: ModelBytes, choice: &DraftChoice) -> ModelBytes {
    match choice {
        DraftChoice::FirstLayers { .. } => bytes.with_first_layers_draft(),
        _ => bytes,
    }
}

/// The bytes of the chosen draft model. `None` if no model was chosen.
///
/// # Errors
/// The file cannot be read or is unsupported.
pub(crate) fn draft_bytes(choice: &DraftChoice) -> Result<Option<ModelBytes>, Problem> {
    let Some(path) = choice.path() else { return Ok(None) };
    let gguf = Gguf::open(path).map_err(from_gguf)?;
    let config = Config::from_gguf(&gguf).map_err(from_load)?;
    let bytes = ModelBytes::from_header(&gguf, &config).map_err(from_load)?;
    Ok(Some(bytes.as_draft()))
}

//! Links to the window: `hearth://…`.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The request in a link. Nothing is done before the user agrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Link {
    /// A model to look up.
    Model {
        /// The model as `startDownload` takes it.
        source: String,
        /// Where it comes from.
        place: LinkPlace,
    },
    /// A conversation to open, which may not exist.
    Conversation {
        /// Its id.
        id: i64,
    },
    /// A link that is not followed.
    Refused {
        /// Why.
        reason: LinkRefusal,
    },
}

/// Where the model of a link comes from, in parts that are safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum LinkPlace {
    /// A repository of the hub.
    Hub {
        /// Owner of the repository.
        owner: String,
        /// Name of the repository.
        name: String,
        /// Branch, tag or commit. `None` means the default branch.
        revision: Option<String>,
        /// The quantization, if one is named.
        quantization: Option<String>,
        /// Path of the file, if one is named.
        file: Option<String>,
    },
    /// A model of Ollama's registry.
    Ollama {
        /// The registry's host.
        host: String,
        /// Its owner. `None` means Ollama's own library.
        owner: Option<String>,
        /// Its name.
        name: String,
        /// Its tag.
        tag: String,
    },
    /// A file of another host.
    Web {
        /// The host, with its port if one is named.
        host: String,
        /// File name.
        file: String,
    },
}

/// Why a link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum LinkRefusal {
    /// It is too long.
    TooLong,
    /// It contains control characters, or characters that are invisible or reorder text.
    HiddenCharacters,
    /// It is neither of a model nor of a conversation.
    UnknownForm,
    /// It names no repository of the hub, no model of Ollama and no HTTPS address of a GGUF file.
    UnknownSource,
}

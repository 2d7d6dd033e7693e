//! Conversions between wire types, the store's rows and the worker's messages.

use crate::{
    library::{self, FileSampling, drafts::drafts_of},
    store::{conversation, message, search},
    title, wire,
};
use hearth_formats::Architecture;
use hearth_protocol as protocol;
use serde::{Serialize, de::DeserializeOwned};

mod hardware;
mod tune;

impl From<&conversation::Conversation> for wire::ConversationSummary {
    fn from(row: &conversation::Conversation) -> Self {
        Self {
            id: row.id,
            title: title::shown(&row.title),
            created_at: row.created_at,
            updated_at: row.updated_at,
            model: row.model.as_deref().map(title::shown),
            pinned: row.pinned,
            folder: row.folder,
            tags: row.tags.iter().map(|tag| title::shown(tag)).collect(),
        }
    }
}

impl From<message::Message> for wire::Message {
    fn from(row: message::Message) -> Self {
        Self {
            id: row.id,
            conversation: row.conversation,
            parent: row.parent,
            role: row.role,
            parts: row.parts,
            state: row.state.into(),
            created_at: row.created_at,
            model: row.model.as_deref().map(title::shown),
            stats: row.stats,
            dropped: row.dropped,
            adapters: from_json(row.adapters.as_deref()).unwrap_or_default(),
            comparison: row.comparison,
            better: row.better,
            rating: from_json(row.rating.as_deref()),
            settings: from_json(row.settings.as_deref()),
            edited: row.edited,
            overrides: from_json(row.overrides.as_deref()),
        }
    }
}

impl From<&wire::Message> for message::Message {
    fn from(message: &wire::Message) -> Self {
        Self {
            id: message.id,
            conversation: message.conversation,
            parent: message.parent,
            role: message.role,
            parts: message.parts.clone(),
            state: (&message.state).into(),
            created_at: message.created_at,
            model: message.model.clone(),
            stats: message.stats.clone(),
            dropped: message.dropped,
            adapters: to_json_unless_empty(&message.adapters),
            comparison: message.comparison,
            better: message.better,
            rating: message.rating.as_ref().map(to_json),
            settings: message.settings.as_ref().map(to_json),
            edited: message.edited,
            overrides: message.overrides.as_ref().map(to_json),
        }
    }
}

/// Detail of the state `cut` in the store: the context is full.
const CONTEXT_FULL: &str = "context_full";
/// Detail of the state `cut` in the store: the answer repeated itself. Earlier versions read it as
/// [`LENGTH`].
const REPETITION: &str = "repetition";
/// Detail of the state `cut` in the store: the maximum number of tokens is reached.
const LENGTH: &str = "length";

impl From<message::State> for wire::MessageState {
    fn from(state: message::State) -> Self {
        match state {
            message::State::Complete => Self::Complete,
            message::State::Unfinished => Self::Waiting,
            message::State::Stopped => Self::Stopped,
            message::State::Truncated(reason) => Self::Truncated {
                reason: match reason.as_str() {
                    CONTEXT_FULL => wire::TruncationReason::ContextFull,
                    REPETITION => wire::TruncationReason::Repetition,
                    _ => wire::TruncationReason::Length,
                },
            },
            message::State::Failed(json) => Self::Failed {
                problem: from_json(Some(&json))
                    .unwrap_or_else(|| wire::Problem::new(wire::ProblemCode::Internal, wire::ChatReason::AnswerFailed)),
            },
        }
    }
}

impl From<&wire::MessageState> for message::State {
    fn from(state: &wire::MessageState) -> Self {
        match state {
            wire::MessageState::Complete => Self::Complete,
            wire::MessageState::Waiting
            | wire::MessageState::Loading { .. }
            | wire::MessageState::Prefill { .. }
            | wire::MessageState::Streaming => Self::Unfinished,
            wire::MessageState::Stopped => Self::Stopped,
            wire::MessageState::Truncated { reason } => Self::Truncated(
                match reason {
                    wire::TruncationReason::ContextFull => CONTEXT_FULL,
                    wire::TruncationReason::Repetition => REPETITION,
                    wire::TruncationReason::Length => LENGTH,
                }
                .to_owned(),
            ),
            wire::MessageState::Failed { problem } => Self::Failed(problem.to_stored()),
        }
    }
}

impl From<search::Hit> for wire::SearchHit {
    fn from(hit: search::Hit) -> Self {
        Self {
            conversation: hit.conversation,
            title: title::shown(&hit.title),
            message: hit.message,
            snippet: hit
                .snippet
                .into_iter()
                .map(|(text, hit)| wire::SnippetPart { text, hit })
                .collect(),
            updated_at: hit.updated_at,
        }
    }
}

/// The models of the library.
pub(crate) fn models(all: &[library::Model]) -> Vec<wire::Model> {
    all.iter().map(|each| model(each, all)).collect()
}

/// A model, with the models of the library that can draft for it.
pub(crate) fn model(model: &library::Model, all: &[library::Model]) -> wire::Model {
    let (metadata, problem) = match &model.metadata {
        Ok(metadata) => (Some(metadata), None),
        Err(problem) => (None, Some(problem.clone())),
    };
    wire::Model {
        id: model.id.clone(),
        name: model.name.clone(),
        path: model.path.display().to_string(),
        file_size: metadata.map_or(0, |metadata| metadata.file_size),
        architecture: metadata.map_or_else(String::new, |metadata| metadata.architecture.clone()),
        checked_with_real_file: metadata
            .and_then(|metadata| Architecture::named(&metadata.architecture))
            .is_some_and(|architecture| architecture.real_file().is_some()),
        quantization: metadata.map_or_else(String::new, |metadata| metadata.quantization.clone()),
        parameters: metadata.map_or(0, |metadata| metadata.parameters),
        context_trained: metadata.map_or(0, |metadata| metadata.context_trained),
        catalog_id: model.entry.map(|entry| entry.id.clone()),
        system_prompt: model.system_prompt().map(str::to_owned),
        sampling: model.sampling(),
        sampling_source: match (model.entry.and_then(|entry| entry.sampling.as_ref()), metadata) {
            (Some(_), _) => wire::SamplingSource::Catalog,
            (None, Some(metadata)) if metadata.sampling != FileSampling::default() => wire::SamplingSource::File,
            (None, _) => wire::SamplingSource::BuiltIn,
        },
        source: model.source,
        license: model.license(),
        downloaded_from: model.origin.as_ref().map(|origin| origin.source.clone()),
        is_deletable: model.is_deletable(),
        problem,
        drafts: drafts_of(model, all).map(|draft| draft.id.clone()).collect(),
    }
}

/// Parses a JSON column. Returns `None` if it is empty or malformed.
pub(crate) fn from_json<T: DeserializeOwned>(text: Option<&str>) -> Option<T> {
    text.and_then(|text| match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(%error, "a JSON column of the store is malformed");
            None
        }
    })
}

/// Serializes a value for a JSON column; plain data never fails.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Serializes a list. Returns `None` for an empty one.
pub(crate) fn to_json_unless_empty<T: Serialize>(list: &[T]) -> Option<String> {
    (!list.is_empty()).then(|| to_json(&list))
}

/// The final state of a message.
pub(crate) fn final_state(reason: protocol::FinishReason) -> wire::MessageState {
    let truncated = |reason| wire::MessageState::Truncated { reason };
    match reason {
        protocol::FinishReason::Stop => wire::MessageState::Complete,
        protocol::FinishReason::Length => truncated(wire::TruncationReason::Length),
        protocol::FinishReason::ContextFull => truncated(wire::TruncationReason::ContextFull),
        protocol::FinishReason::Repetition => truncated(wire::TruncationReason::Repetition),
        protocol::FinishReason::Cancelled => wire::MessageState::Stopped,
    }
}

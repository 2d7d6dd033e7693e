//! Search of the hub.

use super::super::LibraryError;
use super::adapters::Tagged;
use super::client::{Failure, Hub};
use super::reference::encode;
use crate::wire::{HubKind, HubSort};
use hearth_formats::Architecture;
use hearth_protocol::FetchFailure;
use serde::Deserialize;
use serde_json::Value;
use std::thread;

/// Most results of a search.
const MAX_RESULTS: u32 = 40;

/// Most characters of a query.
const MAX_QUERY_CHARS: usize = 200;

/// Most bytes of an id in a result.
const MAX_ID_BYTES: usize = 200;

/// The hub's parameter for a sort order.
fn sort_key(sort: HubSort) -> &'static str {
    match sort {
        HubSort::Trending => "trendingScore",
        HubSort::Downloads => "downloads",
        HubSort::Likes => "likes",
        HubSort::Updated => "lastModified",
    }
}

/// The hub's filter for a kind of repository.
fn filter(kind: HubKind) -> &'static str {
    match kind {
        HubKind::Models => "filter=gguf",
        HubKind::Adapters => "filter=peft",
        HubKind::Originals => "filter=safetensors&pipeline_tag=text-generation",
    }
}

/// A repository in the hub's list.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    /// `owner/name`.
    pub id: String,
    /// Downloads in the last month.
    pub downloads: u64,
    /// Likes.
    pub likes: u64,
    /// Last change, in milliseconds since 1970.
    pub updated_at: Option<i64>,
    /// `general.architecture` of its files.
    pub architecture: Option<String>,
    /// Whether Hearth supports it. `None` means unknown.
    pub is_supported: Option<bool>,
    /// Number of parameters.
    pub parameters: Option<u64>,
    /// Training context length in tokens.
    pub context_trained: Option<u64>,
    /// Whether terms must be accepted before a download.
    pub is_gated: bool,
    /// The information on adapters in its tags.
    pub tagged: Tagged,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    #[serde(default)]
    downloads: Option<u64>,
    #[serde(default)]
    likes: Option<u64>,
    #[serde(default)]
    last_modified: Option<String>,
    #[serde(default)]
    gated: Value,
    #[serde(default)]
    gguf: Option<Gguf>,
    #[serde(default)]
    safetensors: Option<Safetensors>,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Deserialize)]
struct Safetensors {
    #[serde(default)]
    total: Option<u64>,
}

#[derive(Deserialize)]
struct Gguf {
    #[serde(default)]
    total: Option<u64>,
    #[serde(default)]
    architecture: Option<String>,
    #[serde(default)]
    context_length: Option<u64>,
}

impl Hub {
    /// Searches for repositories whose names match a query and that have GGUF files, PEFT adapters
    /// or safetensors.
    ///
    /// # Errors
    /// [`LibraryError::Hub`]
    pub fn search(&self, query: &str, sort: HubSort, kind: HubKind) -> Result<Vec<SearchResult>, LibraryError> {
        let query: String = query.trim().chars().take(MAX_QUERY_CHARS).collect();
        let query = encode(&query).replace('/', "%2F");
        self.list(&format!("search={query}&{}&sort={}", filter(kind), sort_key(sort)))
    }

    /// Lists repositories with GGUF files that were converted from a repository, the most
    /// downloaded first.
    ///
    /// # Errors
    /// [`LibraryError::Hub`]
    pub fn conversions(&self, id: &str) -> Result<Vec<SearchResult>, LibraryError> {
        let base = encode(&format!("base_model:quantized:{id}")).replace('/', "%2F");
        self.list(&format!("filter=gguf&filter={base}&sort=downloads"))
    }

    fn list(&self, parameters: &str) -> Result<Vec<SearchResult>, LibraryError> {
        let fields: String = [
            "downloads",
            "likes",
            "lastModified",
            "gated",
            "gguf",
            "safetensors",
            "tags",
        ]
        .iter()
        .map(|field| format!("&expand%5B%5D={field}"))
        .collect();
        let url = format!(
            "{}/api/models?{parameters}&direction=-1&limit={MAX_RESULTS}{fields}",
            self.endpoint
        );
        let list = || self.json(&url, None);
        let rows: Result<Vec<Value>, Failure> = list().or_else(|failure| match failure {
            // A resolver may fail once, for example just after the network is up.
            Failure::Temporary(FetchFailure::HostNotFound) => {
                thread::sleep(self.retry_delay);
                list()
            }
            other => Err(other),
        });
        let rows = rows.map_err(Failure::search_error)?;
        // A malformed row is left out; the others are kept.
        let rows = rows
            .into_iter()
            .filter_map(|row| serde_json::from_value::<Row>(row).ok());
        Ok(rows
            .filter(|row| row.id.len() <= MAX_ID_BYTES && row.id.split('/').count() == 2)
            .map(SearchResult::from)
            .collect())
    }
}

impl From<Row> for SearchResult {
    fn from(row: Row) -> Self {
        let gguf = row.gguf.as_ref();
        let architecture = gguf
            .and_then(|gguf| gguf.architecture.as_deref())
            .filter(|name| name.len() <= 64)
            .map(str::to_owned);
        Self {
            downloads: row.downloads.unwrap_or(0),
            likes: row.likes.unwrap_or(0),
            updated_at: row.last_modified.as_deref().and_then(milliseconds),
            is_supported: architecture.as_deref().map(|name| Architecture::named(name).is_some()),
            parameters: gguf
                .and_then(|gguf| gguf.total)
                .or(row.safetensors.and_then(|weights| weights.total))
                .filter(|total| *total > 0),
            context_trained: gguf.and_then(|gguf| gguf.context_length),
            is_gated: !matches!(row.gated, Value::Null | Value::Bool(false)),
            architecture,
            tagged: Tagged::from_tags(&row.tags),
            id: row.id,
        }
    }
}

/// Milliseconds since 1970 of a time such as `2026-01-02T03:04:05.000Z`.
fn milliseconds(text: &str) -> Option<i64> {
    Some(text.parse::<jiff::Timestamp>().ok()?.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2000-02-29T12:00:00.000Z", Some(951_825_600_000)),
            ("2026-11-25T00:20:00Z", Some(1_795_566_000_000)),
            ("2026-13-25T00:20:00Z", None),
            ("yesterday", None),
            ("", None),
            ("ü", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }

    #[test]
    fn a_row_is_read() {
        let text = r#"{"_id": "x", "id": "o/n", "downloads": 5, "likes": 2, "gated": "auto",
            "lastModified": "1970-01-01T00:00:01.000Z",
            "gguf": {"total": 596049920, "architecture": "qwen3", "context_length": 40960, "chat_template": "{{ x }}"}}"#;
        let actual = SearchResult::from(serde_json::from_str::<Row>(text).expect("a row"));
        assert_eq!(
            (actual.parameters, actual.is_supported),
            (Some(596_049_920), Some(true))
        );
        assert_eq!((actual.updated_at, actual.is_gated), (Some(1000), true));
        let bare = SearchResult::from(serde_json::from_str::<Row>(r#"{"id": "o/n"}"#).expect("a row"));
        assert_eq!((bare.is_supported, bare.is_gated), (None, false));
    }
}

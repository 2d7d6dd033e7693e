//! Wire types of getting models: the catalog, the Hugging Face hub and downloads.

use super::{Problem, Verdict};
use hearth_protocol::Plan;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The estimated performance on this machine of a model that is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Expectation {
    /// Whether it fits in the memory that is free now.
    pub verdict: Verdict,
    /// Expected decode speed in tokens per second. `None` means that it does not fit.
    pub tokens_per_second: Option<f64>,
    /// Whether the speed follows from a measurement of this machine, and not from an assumption.
    pub is_measured: bool,
    /// Whether other programs slowed the measurement down. The app measures again when the machine
    /// is idle.
    pub was_busy: bool,
}

/// A model of the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct CatalogModel {
    /// Id in the catalog, by which the page describes it.
    pub id: String,
    /// Display name.
    pub name: String,
    /// License of the weights.
    pub license: String,
    /// `owner/name` on the hub.
    pub repository: String,
    /// Name of the quantization: `Q4_K_M`.
    pub quantization: String,
    /// File size in bytes.
    pub file_size: u64,
    /// Id of the library's model, if it is on this machine.
    pub model: Option<String>,
    /// Its estimated performance on this machine.
    pub expectation: Expectation,
    /// Argument for `startDownload`.
    pub source: String,
}

/// The order of search results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum HubSort {
    /// Recently popular first.
    #[default]
    Trending,
    /// Most downloads first.
    Downloads,
    /// Most likes first.
    Likes,
    /// Last changed first.
    Updated,
}

/// Whether there is a token of the hub. The token itself never comes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct HubToken {
    /// Where the token in use was found: the first of these that has one. `null` means that there
    /// is none.
    pub source: Option<TokenSource>,
    /// Whether requests to the hub carry it: another hub of the settings does not get it.
    pub is_sent: bool,
    /// The system's keychain, also while the token of the environment is in use.
    pub keychain: KeychainState,
}

/// Where the token of the hub was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum TokenSource {
    /// `HF_TOKEN`.
    Environment,
    /// The system's keychain.
    Keychain,
    /// The file of a login with the hub's own command line.
    File,
}

/// The system's keychain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum KeychainState {
    /// It has a token of the hub.
    Saved,
    /// It has none.
    Empty,
    /// The system has no keychain.
    Missing,
    /// It is locked, refuses access, or failed.
    Locked,
}

/// The kind of repositories to search the hub for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum HubKind {
    /// Repositories with GGUF files: models, and adapters in that format.
    #[default]
    Models,
    /// Repositories with PEFT adapters.
    Adapters,
    /// Repositories with safetensors, which Hearth does not run; each leads to its conversions.
    Originals,
}

/// A repository in the hub's list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct HubModel {
    /// `owner/name`.
    pub id: String,
    /// Downloads in the last month.
    pub downloads: u64,
    /// Likes.
    pub likes: u64,
    /// Time of the last change, if known.
    pub updated_at: Option<i64>,
    /// `general.architecture` of its files, if the hub says so.
    pub architecture: Option<String>,
    /// Whether Hearth supports the architecture. `None` means unknown.
    pub is_supported: Option<bool>,
    /// Number of parameters, if the hub says so.
    pub parameters: Option<u64>,
    /// Training context length in tokens, if the hub says so.
    pub context_trained: Option<u64>,
    /// Whether its terms must be accepted on the hub before a download.
    pub is_gated: bool,
    /// Whether its tags say that it has adapters.
    pub is_adapter: bool,
    /// `OWNER/NAME` of the adapters' base, if the tags name it.
    pub base: Option<String>,
    /// Its estimated performance on this machine in 4 bits, if the number of parameters is known.
    pub expectation: Option<Expectation>,
}

/// A repository of the hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct HubRepository {
    /// `owner/name`.
    pub id: String,
    /// Its page, for a browser.
    pub page: String,
    /// License, if the hub says so.
    pub license: Option<String>,
    /// Whether its terms must be accepted on the hub before a download.
    pub is_gated: bool,
    /// `OWNER/NAME` of its adapters' base, if its tags name it.
    pub base: Option<String>,
    /// The models in it, from small to large, then the adapters.
    pub variants: Vec<HubVariant>,
}

/// A model of a repository: one quantization. Or an adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct HubVariant {
    /// Name of the quantization, or else of the file.
    pub name: String,
    /// The file, of a split model the first.
    pub file: String,
    /// Number of files.
    pub files: u32,
    /// Total size of the files in bytes.
    pub size: u64,
    /// Its estimated performance on this machine, from its size.
    pub expectation: Expectation,
    /// Whether it is the best one that runs well on this machine.
    pub is_recommended: bool,
    /// Whether it is a LoRA adapter.
    pub is_adapter: bool,
    /// Id of the library's model, if it was downloaded.
    pub model: Option<String>,
    /// Id of the adapter, if it was downloaded.
    pub adapter: Option<i64>,
    /// Argument for `startDownload` and `inspectRemote`.
    pub source: String,
}

/// The header of a file that is not on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RemoteModel {
    /// Name in the file, or else of the file.
    pub name: String,
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// `Q4_K_M` and so on.
    pub quantization: String,
    /// Number of parameters.
    pub parameters: u64,
    /// Training context length in tokens; 0 means unknown.
    pub context_trained: u32,
    /// Size of the files in bytes.
    pub file_size: u64,
    /// Where its bytes would go on this machine.
    pub plan: Plan,
}

/// A download.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Download {
    /// Id.
    pub id: i64,
    /// Display name.
    pub name: String,
    /// The requested source: the argument of `startDownload`.
    pub source: String,
    /// Bytes on disk.
    pub done: u64,
    /// Total bytes. `None` means that the hub was not asked yet.
    pub total: Option<u64>,
    /// Present speed in bytes per second; 0 if it does not run.
    pub bytes_per_second: f64,
    /// Whether it goes on where it ended once it is paused or fails, as far as its server has said.
    /// Otherwise it may start from the beginning.
    pub resumes: bool,
    /// State.
    pub state: DownloadState,
}

/// State of a download.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DownloadState {
    /// Waits for others.
    Queued,
    /// In progress.
    Running,
    /// Complete; its hash is being computed.
    Checking,
    /// The last attempt failed, and another is scheduled. `resumeDownload` retries immediately.
    Waiting {
        /// Why.
        problem: Problem,
        /// Time of the next attempt, in milliseconds since the Unix epoch.
        retry_at: i64,
    },
    /// Paused by the user.
    Paused,
    /// Failed; it can be resumed.
    Failed {
        /// Why.
        problem: Problem,
    },
    /// On this machine.
    Done {
        /// Id of the library's model. `None` means that it is no chat model, or was deleted since.
        model: Option<String>,
        /// Id of the adapter, if it is one that was not deleted since.
        adapter: Option<i64>,
    },
}

/// Whether a downloaded model has changed on its server since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ModelUpdate {
    /// Id of the model.
    pub model: String,
    /// Argument for `startDownload`, which replaces the model by the version on the server.
    pub source: String,
    /// The server's response.
    pub state: UpdateState,
}

/// The state of a downloaded model on its server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum UpdateState {
    /// It has the same files.
    Current,
    /// It has another version.
    Available,
    /// It could not be asked, or nothing tells.
    Unknown {
        /// Why.
        problem: Problem,
    },
}

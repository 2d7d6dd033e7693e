//! Errors for the user: a code for programs, and a reason with its data.
//!
//! Sentences are not sent over the wire. The window formats them in its language, and the
//! `Display` of [`Problem`] in English, both from `ui/messages/LOCALE/problems.json`; see
//! [`crate::sentence`].

mod chat;
mod data;
mod load;
mod models;
mod request;
mod training;
mod tune;
mod worker;

use crate::sentence::sentence;
pub use chat::{ChatReason, SamplingSetting, TextList};
pub use data::{BackupDamage, DataReason, DiskContents, FormerCleanup, StoreFault};
pub use load::LoadReason;
pub use models::{FetchFailure, Flaw, Kept, ModelsReason};
pub use request::RequestReason;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
pub use training::TrainingReason;
pub use tune::TuneReason;
pub use worker::{WorkerExit, WorkerReason};

/// An error. Its `Display` is an English message that names the file or device and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", from = "ProblemJson")]
pub struct Problem {
    /// For programs.
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub code: ProblemCode,
    /// The cause.
    pub reason: Box<Reason>,
}

impl Problem {
    /// A problem.
    pub fn new(code: ProblemCode, reason: impl Into<Reason>) -> Self {
        Self {
            code,
            reason: Box::new(reason.into()),
        }
    }

    /// A problem in the words of a library or of the system.
    pub fn detail(code: ProblemCode, detail: impl ToString) -> Self {
        let detail = detail.to_string();
        Self::new(code, Reason::Detail { detail })
    }

    /// Formats JSON to store, with the English sentence for versions that do not know the reason.
    pub fn to_stored(&self) -> String {
        json!({ "code": self.code, "reason": self.reason, "message": self.to_string() }).to_string()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("problem", &self.reason))
    }
}

impl std::error::Error for Problem {}

/// A problem as JSON: of this version, of an earlier one, which stored an English sentence, or of a
/// later one, whose code or reason is unknown here.
#[derive(Deserialize)]
struct ProblemJson {
    code: Value,
    #[serde(default)]
    reason: Value,
    #[serde(default)]
    message: Option<String>,
}

impl From<ProblemJson> for Problem {
    fn from(json: ProblemJson) -> Self {
        let code = serde_json::from_value(json.code).unwrap_or(ProblemCode::Internal);
        let fallback = json.message.unwrap_or_else(|| json.reason.to_string());
        match serde_json::from_value::<Reason>(json.reason) {
            Ok(reason) => Self::new(code, reason),
            Err(_) => Self::detail(code, fallback),
        }
    }
}

/// The cause of an error, with its data. The key of its sentence is `problem_AREA_TYPE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "area", rename_all = "camelCase")]
pub enum Reason {
    /// In the words of a library or of the system.
    Detail {
        /// A whole sentence or more, in English.
        detail: String,
    },
    /// Planning and loading a model.
    Load(LoadReason),
    /// Answering a request.
    Request(RequestReason),
    /// Fine-tuning in a worker.
    Training(TrainingReason),
    /// The worker's process.
    Worker(WorkerReason),
    /// Models and adapters of the library, and downloads.
    Models(ModelsReason),
    /// The app's data: the store, its folder, backups, imports and exports.
    Data(DataReason),
    /// Conversations, settings, presets and prompts.
    Chat(ChatReason),
    /// Datasets and runs of the app.
    Tune(TuneReason),
}

/// Implements the conversion of each area's reasons.
macro_rules! from_area {
    ($($area:ident($reason:ident)),*) => { $(
        impl From<$reason> for Reason {
            fn from(reason: $reason) -> Self {
                Self::$area(reason)
            }
        }
    )* };
}

from_area!(
    Load(LoadReason),
    Request(RequestReason),
    Training(TrainingReason),
    Worker(WorkerReason),
    Models(ModelsReason),
    Data(DataReason),
    Chat(ChatReason),
    Tune(TuneReason)
);

/// Kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProblemCode {
    /// A file is missing or cannot be read.
    FileUnreadable,
    /// A file is corrupt or not a GGUF.
    FileInvalid,
    /// An unsupported architecture or tensor type.
    Unsupported,
    /// Not enough memory.
    OutOfMemory,
    /// A dataset cannot be read or has nothing to train on.
    DataInvalid,
    /// An adapter is corrupt or belongs to another model.
    AdapterInvalid,
    /// A file is an adapter, but a model was requested. Set by an app, never by a worker.
    IsAdapter,
    /// A draft model cannot be loaded, or cannot draft for its target.
    DraftInvalid,
    /// The loss diverged.
    Diverged,
    /// The disk is full or cannot be written to.
    DiskFull,
    /// The chat template failed.
    Template,
    /// The prompt does not fit the context, even with all droppable turns dropped.
    PromptTooLong,
    /// No model is loaded.
    NoModel,
    /// The request was cancelled.
    Cancelled,
    /// A newer request of the same kind replaced it.
    Superseded,
    /// A GPU failed during an answer; the model is unloaded.
    GpuFailed,
    /// Another generation is in progress.
    Busy,
    /// No such device.
    NoDevice,
    /// Invalid request.
    BadRequest,
    /// The worker exited unexpectedly, not for lack of memory. Set by the client, never by a
    /// worker.
    WorkerDied,
    /// Hearth was updated while it ran: the worker is of another version. Set by the client.
    Updated,
    /// There is no such conversation, message, model, dataset, run or adapter. This code and the
    /// next six are set by an app, never by a worker.
    NotFound,
    /// The store could not be read or written.
    Store,
    /// The store is corrupt.
    StoreCorrupt,
    /// The store was written by a newer Hearth.
    StoreNewer,
    /// Another Hearth is using the same data.
    AlreadyRunning,
    /// A download failed.
    Download,
    /// The system's keychain is missing, locked or failed.
    Keychain,
    /// A bug in Hearth.
    Internal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_survives_the_wire_and_is_one_sentence() {
        let problem = Problem::new(
            ProblemCode::NoDevice,
            LoadReason::NoSuchDevice {
                name: "gpu7".to_owned(),
                known: vec!["cpu".to_owned(), "gpu0".to_owned()],
            },
        );
        let json = serde_json::to_string(&problem).expect("it is written");
        assert_eq!(serde_json::from_str::<Problem>(&json).expect("it is read"), problem);
        assert_eq!(
            problem.to_string(),
            "There is no device \u{201c}gpu7\u{201d}. Choose one of: cpu, gpu0."
        );
    }

    #[test]
    fn an_unknown_reason_is_read_as_its_sentence() {
        let json = r#"{"code":"ofTomorrow","reason":{"area":"chat","type":"ofTomorrow"},"message":"It rains."}"#;
        let problem: Problem = serde_json::from_str(json).expect("it is read");
        assert_eq!(problem, Problem::detail(ProblemCode::Internal, "It rains."));
        let stored = Problem::new(ProblemCode::NoDevice, LoadReason::NoDevice).to_stored();
        assert!(stored.contains("There is no device to run the model on."), "{stored}");
    }

    /// Each level is parsed without a copy of the levels in it.
    #[test]
    fn a_problem_of_many_causes_is_read_in_linear_time() {
        let mut json = Problem::detail(ProblemCode::Internal, "x".repeat(1 << 20)).to_stored();
        for _ in 0..25 {
            let reason = format!(r#"{{"area":"load","type":"draftUnusable","path":"a","cause":{json}}}"#);
            json = format!(r#"{{"code":"internal","reason":{reason}}}"#);
        }
        let mut problem: Problem = serde_json::from_str(&json).expect("it is read");
        let mut depth = 0;
        while let Reason::Load(LoadReason::DraftUnusable { cause, .. }) = *problem.reason {
            (problem, depth) = (*cause, depth + 1);
        }
        assert_eq!(depth, 25);
    }

    #[test]
    fn a_stored_sentence_is_read() {
        let json = r#"{"code":"fileUnreadable","message":"a.gguf: gone."}"#;
        let problem: Problem = serde_json::from_str(json).expect("it is read");
        assert_eq!(problem, Problem::detail(ProblemCode::FileUnreadable, "a.gguf: gone."));
        assert_eq!(problem.to_string(), "a.gguf: gone.");
    }
}

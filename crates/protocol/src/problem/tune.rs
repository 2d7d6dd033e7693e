//! Datasets and runs of the app: what can go wrong.

use super::Problem;
use serde::{Deserialize, Serialize};

/// Datasets and runs of the app: what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TuneReason {
    /// The dataset does not exist or was removed.
    NoDataset,
    /// The file of a dataset cannot be opened.
    DatasetUnreadable {
        /// The file.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// A file that was to be added as a dataset cannot be read.
    FileUnreadable {
        /// The file.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// A path that was to be added as a dataset is a folder.
    FileIsFolder {
        /// The folder.
        path: String,
    },
    /// No answer is rated good or corrected, so there is no example.
    NothingRated,
    /// The dataset of rated answers cannot be written.
    RatingsNotWritten {
        /// Its file.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// The run does not exist or is deleted.
    NoRun,
    /// The run is not active.
    NotActive,
    /// The run has made all steps, so it cannot be resumed.
    Completed,
    /// The last run has ended, but is not saved yet.
    NotSaved {
        /// Its name.
        name: String,
    },
    /// Another run is active.
    OtherRun {
        /// Its name.
        name: String,
    },
    /// The user ended the run before its worker was done.
    Ended,
    /// The app was closed during the run.
    Closed,
    /// The run's worker died because memory ran out.
    RunOutOfMemory {
        /// Its end.
        cause: Box<Problem>,
    },
    /// The run's worker died for another reason.
    RunInterrupted {
        /// Its end.
        cause: Box<Problem>,
    },
}

//! The errors of a corrupt Parquet file, in the parquet crate's type and in Hearth's.

use super::super::{DatasetProblem, shortened};
use parquet::errors::ParquetError;
use std::fmt::Display;

/// The error for a malformed file or an exceeded limit, within the parquet crate's readers.
pub(super) fn invalid(message: &str) -> ParquetError {
    ParquetError::General(message.to_owned())
}

/// The error for a file that cannot be read.
pub(super) fn corrupt(reason: impl Display) -> DatasetProblem {
    let reason = reason.to_string();
    DatasetProblem::Corrupt(format!(
        "this Parquet file is corrupt: {}. Download or export it again.",
        shortened(&reason)
    ))
}

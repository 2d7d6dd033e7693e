//! The errors of a corrupt Parquet file, in the parquet crate's type and in Hearth's.

use super::super::{DatasetProblem, shortened};
use parquet::errors::ParquetError;
use std::fmt::Display;

/// A malformed file or an exceeded limit, within the parquet crate's readers.
pub(super) fn invalid(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// The file cannot be read.
pub(super) fn corrupt(why: impl Display) -> DatasetProblem {
    let why = why.to_string();
    DatasetProblem::Corrupt(format!(
        "this Parquet file is corrupt: {}. Download or export it again.",
        shortened(&why)
    ))
}

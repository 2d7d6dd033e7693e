//! Parquet: columnar tables, the format of most datasets on the Hugging Face hub. The parquet crate
//! decodes values. Everything that makes it allocate or recurse is validated here first: the
//! footer, the pages, their uncompressed sizes, and the assembly of rows.

mod column;
mod delta;
mod error;
mod footer;
mod limits;
mod pages;
mod rows;
mod thrift;

use super::DatasetProblem;
use super::builder::DatasetBuilder;
use super::fields::Name;
use super::json_value::{Budget, too_large};
use super::source::Source;
use error::corrupt;
use limits::Limits;
use parquet::file::metadata::ParquetMetaData;
use rows::Rows;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Reads a file, one row at a time.
pub(super) fn read(source: &Source, builder: &mut DatasetBuilder) -> Result<(), DatasetProblem> {
    let mut guarded = AssertUnwindSafe(builder);
    // The parquet crate panics on some corrupt files. The examples read so far are then discarded.
    let result = catch_unwind(AssertUnwindSafe(move || rows(source, &mut guarded)));
    result.unwrap_or_else(|_| Err(corrupt("its columns are inconsistent")))
}

fn rows(source: &Source, builder: &mut DatasetBuilder) -> Result<(), DatasetProblem> {
    let file = Arc::new(source.random_access()?);
    let metadata = footer::read(&file)?;
    check_codecs(&metadata)?;
    let names = metadata.file_metadata().schema().get_fields().iter();
    let names: Vec<Name> = names.map(|column| column.name().into()).collect();
    if names.is_empty() {
        return Err(corrupt("it has no columns"));
    }
    builder.columns(&names);
    let limits = Arc::new(Limits::new());
    let budget = Budget::new();
    let mut line = 0u32;
    let mut is_decided = false;
    for group in metadata.row_groups() {
        source.meter.check_cancelled()?;
        let mut rows = Rows::open(&file, &limits, group, &names, |name| builder.needs(name)).map_err(corrupt)?;
        for _ in 0..group.num_rows() {
            source.meter.count_row()?;
            line = line.saturating_add(1);
            let row = rows.row(&budget).map_err(corrupt)?;
            let size = budget.begin();
            limits.count_unpacked(size as u64).map_err(corrupt)?;
            let Some(fields) = row else {
                budget.reset_exceeded();
                builder.broken(line, too_large());
                continue;
            };
            if builder.row(line, fields, size).is_break() {
                return Ok(());
            }
            if !is_decided && builder.is_decided() {
                // Unused columns need not be decompressed.
                is_decided = true;
                rows.retain(|name| builder.needs(name));
            }
        }
    }
    Ok(())
}

/// Refuses compression codecs that are not built in.
fn check_codecs(metadata: &ParquetMetaData) -> Result<(), DatasetProblem> {
    use parquet::basic::Compression;
    let groups = metadata.row_groups().iter();
    for column in groups.flat_map(|group| group.columns()) {
        match column.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => {}
            other => {
                return Err(DatasetProblem::Corrupt(format!(
                    "this Parquet file is compressed with {other}, which Hearth does not read. Write it with Snappy, \
                     Zstandard or \
                     no compression."
                )));
            }
        }
    }
    Ok(())
}

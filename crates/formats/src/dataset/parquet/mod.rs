//! Parquet: tables by columns, as the hubs keep most datasets.
//!
//! The parquet crate decodes values; what a file makes it allocate or recurse into is read and checked here before: the footer,
//! the pages, what they unpack to, and how rows are put together.

mod column;
mod delta;
mod footer;
mod limits;
mod pages;
mod rows;
mod thrift;

use super::DatasetProblem;
use super::gather::Gather;
use super::json::Name;
use super::json_value::{Budget, too_large};
use super::source::Source;
use limits::Limits;
use parquet::file::metadata::ParquetMetaData;
use rows::Rows;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Reads a file, one row at a time.
pub(super) fn read(source: &Source, gather: &mut Gather) -> Result<(), DatasetProblem> {
    let mut guarded = AssertUnwindSafe(gather);
    // The crate that decodes Parquet panics on some damaged files. Of the examples gathered until then none is used.
    let done = catch_unwind(AssertUnwindSafe(move || rows(source, &mut guarded)));
    done.unwrap_or_else(|_| Err(damaged("its columns contradict one another")))
}

fn damaged(why: impl std::fmt::Display) -> DatasetProblem {
    let why = why.to_string();
    DatasetProblem::Damaged(format!(
        "this Parquet file is damaged: {}. Download or export it again.",
        super::shortened(&why)
    ))
}

fn rows(source: &Source, gather: &mut Gather) -> Result<(), DatasetProblem> {
    let places = Arc::new(source.places()?);
    let metadata = footer::read(&places)?;
    check_codecs(&metadata)?;
    let names = metadata.file_metadata().schema().get_fields().iter();
    let names: Vec<Name> = names.map(|column| column.name().into()).collect();
    if names.is_empty() {
        return Err(damaged("it has no columns"));
    }
    gather.columns(&names);
    let limits = Arc::new(Limits::new());
    let budget = Budget::new();
    let mut number = 0u32;
    let mut is_decided = false;
    for group in metadata.row_groups() {
        source.meter.ask()?;
        let mut rows = Rows::open(&places, &limits, group, &names, |name| gather.needs(name)).map_err(damaged)?;
        for _ in 0..group.num_rows() {
            source.meter.count_row()?;
            number = number.saturating_add(1);
            let row = rows.row(&budget).map_err(damaged)?;
            let size = budget.begin();
            limits.work(size as u64).map_err(damaged)?;
            let Some(fields) = row else {
                budget.take_exceeded();
                gather.broken(number, too_large());
                continue;
            };
            if gather.row(number, fields, size).is_break() {
                return Ok(());
            }
            if !is_decided && gather.is_decided() {
                // The others need not be unpacked.
                is_decided = true;
                rows.retain(|name| gather.needs(name));
            }
        }
    }
    Ok(())
}

/// Refuses what is compressed in ways that are not built in.
fn check_codecs(metadata: &ParquetMetaData) -> Result<(), DatasetProblem> {
    use parquet::basic::Compression;
    let groups = metadata.row_groups().iter();
    for column in groups.flat_map(|group| group.columns()) {
        match column.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => {}
            other => {
                return Err(DatasetProblem::Damaged(format!(
                    "this Parquet file is compressed with {other}, which Hearth does not read. Write it with Snappy, Zstandard or \
                     no compression."
                )));
            }
        }
    }
    Ok(())
}

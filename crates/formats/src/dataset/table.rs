//! CSV, TSV and the like, with a header line.

use super::DatasetProblem;
use super::broken_line::{BrokenReason, Delimiter};
use super::builder::{DatasetBuilder, MAX_COLUMNS, too_many_columns};
use super::fields::{FIELD, Name};
use super::json_value::{self, Budget, too_large};
use super::source::{MAX_ROW_BYTES, Source};
use super::turns::is_conversation;
use csv::{ByteRecord, ReaderBuilder};
use serde_json::Value;

/// Detects the delimiter: the most frequent candidate in the header.
pub(super) fn delimiter(header: &[u8]) -> Delimiter {
    let count = |delimiter: Delimiter| {
        let mut is_quoted = false;
        header
            .iter()
            .filter(|&&byte| {
                is_quoted ^= byte == b'"';
                !is_quoted && byte == delimiter.byte()
            })
            .count()
    };
    // On a tie the last one wins, which is the comma.
    let candidates = [Delimiter::Semicolon, Delimiter::Tab, Delimiter::Comma].into_iter();
    candidates
        .max_by_key(|&delimiter| count(delimiter))
        .unwrap_or(Delimiter::Comma)
}

/// Reads a file, one row at a time.
pub(super) fn read(
    source: &Source,
    delimiter: Delimiter,
    skip_broken: bool,
    builder: &mut DatasetBuilder,
) -> Result<(), DatasetProblem> {
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter.byte())
        .flexible(true)
        .from_reader(source.text()?);
    let corrupt = |error: csv::Error, line: u64| {
        if source.meter.is_overlong() {
            too_long(line)
        } else {
            DatasetProblem::Corrupt(format!("the table cannot be read: {error}."))
        }
    };
    source.meter.begin_row();
    let header = reader.byte_headers().map_err(|error| corrupt(error, 1))?;
    if header.len() > MAX_COLUMNS {
        return Err(too_many_columns());
    }
    let names: Result<Vec<Name>, _> = header
        .iter()
        .map(|name| std::str::from_utf8(name).map(|name| name.trim().into()))
        .collect();
    let names = names.map_err(|_| DatasetProblem::wrong_encoding(1))?;
    builder.columns(&names);
    let mut record = ByteRecord::new();
    let budget = Budget::new();
    loop {
        source.meter.begin_row();
        let start_line = reader.position().line();
        let has_record = reader.read_byte_record(&mut record);
        if !has_record.map_err(|error| corrupt(error, start_line))? {
            break;
        }
        source.meter.count_row()?;
        let line = record.position().map_or(0, |position| position.line());
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        if record.len() != names.len() {
            let reason = BrokenReason::ColumnCount {
                count: record.len() as u32,
                expected: names.len() as u32,
                delimiter,
            };
            builder.broken(line, reason);
            continue;
        }
        let texts: Result<Vec<&str>, _> = record.iter().map(std::str::from_utf8).collect();
        let Ok(texts) = texts else {
            if !skip_broken {
                return Err(DatasetProblem::wrong_encoding(line));
            }
            builder.broken(line, BrokenReason::NotUtf8);
            continue;
        };
        let fields = names
            .iter()
            .zip(texts)
            .map(|(name, text)| (name.clone(), cell(text, &budget)))
            .collect();
        let size = record.as_slice().len() + names.len() * FIELD + budget.begin();
        if budget.reset_exceeded() {
            builder.broken(line, too_large());
            continue;
        }
        if builder.row(line, fields, size).is_break() {
            break;
        }
    }
    Ok(())
}

/// The error for a row that is too long.
fn too_long(line: u64) -> DatasetProblem {
    DatasetProblem::Corrupt(format!(
        "the row that begins at line {line} is longer than {} MiB. Probably a double quote is not closed there: \
         close it, or split \
         the row into several examples.",
        MAX_ROW_BYTES >> 20
    ))
}

/// The value of a cell: a conversation if the text is JSON of one, else the text.
fn cell(text: &str, budget: &Budget) -> Value {
    let value = text.starts_with('[').then(|| json_value::parse(text, budget)).flatten();
    value.filter(is_conversation).unwrap_or_else(|| Value::from(text))
}

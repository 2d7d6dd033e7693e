//! CSV, TSV and their kin: the first line names the columns.

use super::DatasetProblem;
use super::container::{WRONG_ENCODING, wrong_encoding};
use super::gather::Gather;
use super::source::Source;
use super::turns::is_conversation;
use csv::{ByteRecord, ReaderBuilder};
use serde_json::Value;

/// What stands between two columns, by the first line: whatever of the usual ones it has most of.
pub(super) fn delimiter(header: &[u8]) -> u8 {
    let count = |delimiter: u8| {
        let mut quoted = false;
        header
            .iter()
            .filter(|&&byte| {
                quoted ^= byte == b'"';
                !quoted && byte == delimiter
            })
            .count()
    };
    // Of equals the last is taken, which is the comma.
    *b";\t,".iter().max_by_key(|&&byte| count(byte)).unwrap_or(&b',')
}

/// Reads a file.
pub(super) fn read(
    source: &Source,
    delimiter: u8,
    skip_broken: bool,
    gather: &mut Gather,
) -> Result<(), DatasetProblem> {
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(source.text()?);
    let damaged = |error: csv::Error| DatasetProblem::Damaged(format!("the table cannot be read: {error}."));
    let header = reader.byte_headers().map_err(damaged)?;
    let names: Result<Vec<String>, _> = header
        .iter()
        .map(|name| std::str::from_utf8(name).map(|name| name.trim().to_owned()))
        .collect();
    let names = names.map_err(|_| wrong_encoding(1))?;
    gather.columns(&names);
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(damaged)? {
        let line = record.position().map_or(0, |place| place.line());
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        if record.len() != names.len() {
            let why = format!(
                "it has {} where the first line names {}. Texts with line ends or '{}' belong in double quotes.",
                columns(record.len()),
                names.len(),
                if delimiter == b'\t' {
                    "tabs"
                } else if delimiter == b';' {
                    ";"
                } else {
                    ","
                }
            );
            gather.broken(line, why);
            continue;
        }
        let texts: Result<Vec<&str>, _> = record.iter().map(std::str::from_utf8).collect();
        let Ok(texts) = texts else {
            if !skip_broken {
                return Err(wrong_encoding(line));
            }
            gather.broken(line, WRONG_ENCODING);
            continue;
        };
        let fields = names.iter().zip(texts).map(|(name, text)| (name.clone(), cell(text)));
        if gather.row(line, fields.collect()).is_break() {
            break;
        }
    }
    Ok(())
}

/// A cell's text, or the conversation that tables keep as JSON.
fn cell(text: &str) -> Value {
    let list = text.starts_with('[').then(|| serde_json::from_str(text).ok()).flatten();
    list.filter(is_conversation).unwrap_or_else(|| Value::from(text))
}

fn columns(count: usize) -> String {
    match count {
        1 => "1 column".to_owned(),
        _ => format!("{count} columns"),
    }
}

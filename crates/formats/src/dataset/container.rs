//! Detects the file format of a dataset, by content first and by extension second, and reads its
//! rows.

use super::broken_line::{BrokenReason, Delimiter};
use super::builder::{DatasetBuilder, MAX_TEXT_BYTES};
use super::source::{MAX_ROW_BYTES, Source, UTF8_MARK};
use super::{DatasetProblem, columns, json, parquet, table};
use serde::de::IgnoredAny;
use std::io::{BufRead, Read};
use std::path::Path;

/// Bytes sampled to detect the format.
const SAMPLE: usize = 64 * 1024;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// JSONL.
    JsonLines,
    /// JSON.
    Json,
    /// CSV, TSV and the like, with their delimiter.
    Table(Delimiter),
    /// Parquet.
    Parquet,
    /// Plain text.
    Text,
    /// Markdown.
    Markdown,
}

/// Magic numbers of other files that may be chosen by mistake.
const OTHER_FORMATS: &[(&[u8], &str)] = &[
    (b"GGUF", "a model"),
    (b"PK\x03\x04", "a zip archive or an Excel workbook"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"%PDF", "a PDF"),
    (b"{\\rtf", "a rich text document"),
    (b"SQLite format 3\0", "a database"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
];

impl Container {
    /// Detects the format of a file.
    ///
    /// # Errors
    /// If it is empty, not a dataset, or not UTF-8 at its start.
    pub(super) fn recognize(source: &Source, path: &Path) -> Result<Self, DatasetProblem> {
        let sample = source.beginning(SAMPLE)?;
        let is_whole_file = sample.len() < SAMPLE;
        if sample.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        if let Some((_, format)) = OTHER_FORMATS.iter().find(|(magic, _)| sample.starts_with(magic)) {
            return Err(DatasetProblem::NotADataset(format));
        }
        reject_wide_encodings(&sample)?;
        let text = sample.strip_prefix(UTF8_MARK).unwrap_or(&sample);
        let blank = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let text = &text[blank..];
        if text.is_empty() && is_whole_file {
            return Err(DatasetProblem::Empty);
        }
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let extension = extension.as_deref().unwrap_or_default();
        if let Some(container) = by_json(text, is_whole_file, extension) {
            return Ok(container);
        }
        let header = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        Ok(match extension {
            "jsonl" | "ndjson" => Self::JsonLines,
            "json" => Self::Json,
            "md" | "markdown" => Self::Markdown,
            "tsv" | "tab" => Self::Table(Delimiter::Tab),
            "csv" => Self::Table(table::delimiter(header)),
            "parquet" => {
                let message = "this is not a Parquet file: it does not start with 'PAR1'. Download or export it again.";
                return Err(DatasetProblem::Corrupt(message.to_owned()));
            }
            _ => {
                // A table with another extension.
                let delimiter = table::delimiter(header);
                let names = header.split(|&byte| byte == delimiter.byte());
                let known_names = names.filter(|name| columns::is_known(&String::from_utf8_lossy(name)));
                if known_names.count() >= 2 {
                    Self::Table(delimiter)
                } else {
                    Self::Text
                }
            }
        })
    }

    /// Reads all rows into the builder.
    ///
    /// # Errors
    /// If the file as a whole cannot be read. A line that is not UTF-8 is skipped with
    /// `skip_broken`, and an error otherwise.
    pub(super) fn read(
        self,
        source: &Source,
        skip_broken: bool,
        builder: &mut DatasetBuilder,
    ) -> Result<(), DatasetProblem> {
        match self {
            Self::JsonLines => json_lines(source, skip_broken, builder),
            Self::Json => json::read(source, builder),
            Self::Table(delimiter) => table::read(source, delimiter, skip_broken, builder),
            Self::Parquet => parquet::read(source, builder),
            Self::Text | Self::Markdown => document(source, builder),
        }
    }
}

/// Detects JSON or JSONL; `None` if it is neither.
fn by_json(text: &[u8], is_whole_file: bool, extension: &str) -> Option<Container> {
    let is_object = match text.first()? {
        b'{' => true,
        b'[' => false,
        _ => return None,
    };
    let is_jsonl = matches!(extension, "jsonl" | "ndjson");
    let is_prose = matches!(extension, "txt" | "md" | "markdown");
    let first_end = text.iter().position(|&byte| byte == b'\n');
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    match values.next()? {
        Ok(_) => {
            let (value, rest) = text.split_at(values.byte_offset());
            let line_rest = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let ends_line = line_rest.trim_ascii().is_empty();
            let has_more = !rest.trim_ascii().is_empty() || !is_whole_file;
            if is_prose && !ends_line {
                None
            } else if value.contains(&b'\n') || (!is_object && !is_jsonl) {
                Some(Container::Json)
            } else if has_more || is_jsonl {
                Some(Container::JsonLines)
            } else {
                Some(Container::Json)
            }
        }
        Err(error) if error.is_eof() => Some(if is_jsonl && first_end.is_none() {
            Container::JsonLines
        } else {
            Container::Json
        }),
        Err(_) if extension == "json" => Some(Container::Json),
        Err(_) if is_jsonl || (is_object && !is_prose) => Some(Container::JsonLines),
        Err(_) => None,
    }
}

/// Refuses UTF-16 and UTF-32 text, and binary files.
fn reject_wide_encodings(sample: &[u8]) -> Result<(), DatasetProblem> {
    let zeros_at = |parity: usize| sample.iter().skip(parity).step_by(2).filter(|&&byte| byte == 0).count();
    let (even, odd) = (zeros_at(0), zeros_at(1));
    let marked = sample.starts_with(b"\xff\xfe") || sample.starts_with(b"\xfe\xff");
    // In Latin text in UTF-16 every second byte is zero; in other text hardly any is.
    if marked || even.max(odd) * 4 > sample.len() {
        return Err(DatasetProblem::Encoding {
            place: "the file".to_owned(),
            encoding: "UTF-16",
        });
    }
    if even + odd > 0 {
        return Err(DatasetProblem::NotADataset("a binary file"));
    }
    Ok(())
}

fn json_lines(source: &Source, skip_broken: bool, builder: &mut DatasetBuilder) -> Result<(), DatasetProblem> {
    let mut reader = source.text()?;
    let mut bytes = Vec::new();
    for line in 1u32.. {
        source.meter.count_row()?;
        bytes.clear();
        let read = (&mut reader).take(MAX_ROW_BYTES as u64).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            break;
        }
        if read == MAX_ROW_BYTES && bytes.last() != Some(&b'\n') {
            let mib = (MAX_ROW_BYTES >> 20) as u32;
            builder.broken(line, BrokenReason::TooLong { mib });
            reader.skip_until(b'\n')?;
            continue;
        }
        let Ok(text) = std::str::from_utf8(&bytes) else {
            if !skip_broken {
                return Err(DatasetProblem::wrong_encoding(line));
            }
            builder.broken(line, BrokenReason::NotUtf8);
            continue;
        };
        if text.trim().is_empty() {
            continue;
        }
        match json::row(text) {
            Ok((fields, size)) => {
                if builder.row(line, fields, size).is_break() {
                    break;
                }
            }
            Err(reason) => builder.broken(line, reason),
        }
    }
    Ok(())
}

/// Reads a plain-text file as one document.
fn document(source: &Source, builder: &mut DatasetBuilder) -> Result<(), DatasetProblem> {
    // Read one byte more than the limit to detect truncation. Reserve everything at once: growing
    // would double it.
    let max_bytes = MAX_TEXT_BYTES as u64 + 1;
    let mut bytes = Vec::with_capacity((source.len()?.min(max_bytes) + 1) as usize);
    source.text()?.take(max_bytes).read_to_end(&mut bytes)?;
    let is_complete = bytes.len() <= MAX_TEXT_BYTES;
    if !is_complete {
        let tail = bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
        bytes.truncate(bytes.len() - tail);
    }
    if let Err(error) = std::str::from_utf8(&bytes) {
        let before = &bytes[..error.valid_up_to()];
        return Err(DatasetProblem::wrong_encoding(
            before.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1,
        ));
    }
    if bytes.contains(&b'\r') {
        // Normalize CRLF to LF, in place to avoid a copy.
        let mut end = 0;
        for index in 0..bytes.len() {
            if !bytes[index..].starts_with(b"\r\n") {
                bytes[end] = bytes[index];
                end += 1;
            }
        }
        bytes.truncate(end);
    }
    let text = String::from_utf8(bytes).map_err(|_| DatasetProblem::wrong_encoding(1))?;
    builder.document(text, is_complete);
    Ok(())
}

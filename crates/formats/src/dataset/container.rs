//! Detects the file format of a dataset, by content first and by extension second, and reads its
//! rows.

use super::builder::{DatasetBuilder, MAX_TEXT_BYTES};
use super::error::WRONG_ENCODING;
use super::source::{MAX_ROW_BYTES, Source, UTF8_MARK};
use super::{DatasetProblem, columns, json, parquet, table};
use serde::de::IgnoredAny;
use std::io::{BufRead, Read};
use std::path::Path;

/// Bytes sampled to detect the format.
const SAMPLE: usize = 64 * 1024;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    JsonLines,
    Json,
    /// CSV, TSV and the like, with their delimiter.
    Table(u8),
    Parquet,
    Text,
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
    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonLines => "JSONL",
            Self::Json => "JSON",
            Self::Table(b'\t') => "TSV",
            Self::Table(_) => "CSV",
            Self::Parquet => "Parquet",
            Self::Text => "plain text",
            Self::Markdown => "Markdown",
        }
    }

    /// Detects the format of a file.
    ///
    /// # Errors
    /// If it is empty, not a dataset, or not UTF-8 at its start.
    pub fn recognize(source: &Source, path: &Path) -> Result<Self, DatasetProblem> {
        let sample = source.beginning(SAMPLE)?;
        let whole = sample.len() < SAMPLE;
        if sample.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        if let Some((_, what)) = OTHER_FORMATS
            .iter()
            .find(|(beginning, _)| sample.starts_with(beginning))
        {
            return Err(DatasetProblem::NotADataset(what));
        }
        reject_wide_encodings(&sample)?;
        let text = sample.strip_prefix(UTF8_MARK).unwrap_or(&sample);
        let blank = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let text = &text[blank..];
        if text.is_empty() && whole {
            return Err(DatasetProblem::Empty);
        }
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let extension = extension.as_deref().unwrap_or_default();
        if let Some(container) = by_json(text, whole, extension) {
            return Ok(container);
        }
        let header = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        Ok(match extension {
            "jsonl" | "ndjson" => Self::JsonLines,
            "json" => Self::Json,
            "md" | "markdown" => Self::Markdown,
            "tsv" | "tab" => Self::Table(b'\t'),
            "csv" => Self::Table(table::delimiter(header)),
            "parquet" => {
                let why = "this is not a Parquet file: it does not start with 'PAR1'. Download or export it again.";
                return Err(DatasetProblem::Corrupt(why.to_owned()));
            }
            _ => {
                // A table with another extension.
                let delimiter = table::delimiter(header);
                let names = header.split(|&byte| byte == delimiter);
                let known = names.filter(|name| columns::is_known(&String::from_utf8_lossy(name)));
                if known.count() >= 2 {
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
    pub fn read(self, source: &Source, skip_broken: bool, builder: &mut DatasetBuilder) -> Result<(), DatasetProblem> {
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
fn by_json(text: &[u8], whole: bool, extension: &str) -> Option<Container> {
    let is_object = match text.first()? {
        b'{' => true,
        b'[' => false,
        _ => return None,
    };
    let lines = matches!(extension, "jsonl" | "ndjson");
    let prose = matches!(extension, "txt" | "md" | "markdown");
    let first_end = text.iter().position(|&byte| byte == b'\n');
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    match values.next()? {
        Ok(_) => {
            let (value, rest) = text.split_at(values.byte_offset());
            let line_rest = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let ends_line = line_rest.trim_ascii().is_empty();
            let more = !rest.trim_ascii().is_empty() || !whole;
            if prose && !ends_line {
                None
            } else if value.contains(&b'\n') || (!is_object && !lines) {
                Some(Container::Json)
            } else if more || lines {
                Some(Container::JsonLines)
            } else {
                Some(Container::Json)
            }
        }
        Err(error) if error.is_eof() => Some(if lines && first_end.is_none() {
            Container::JsonLines
        } else {
            Container::Json
        }),
        Err(_) if extension == "json" => Some(Container::Json),
        Err(_) if lines || (is_object && !prose) => Some(Container::JsonLines),
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
            let mib = MAX_ROW_BYTES >> 20;
            builder.broken(
                line,
                format!("it is longer than {mib} MiB; split it into several examples."),
            );
            reader.skip_until(b'\n')?;
            continue;
        }
        let Ok(text) = std::str::from_utf8(&bytes) else {
            if !skip_broken {
                return Err(DatasetProblem::wrong_encoding(line));
            }
            builder.broken(line, WRONG_ENCODING);
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
            Err(why) => builder.broken(line, why),
        }
    }
    Ok(())
}

/// Reads a plain-text file as one document.
fn document(source: &Source, builder: &mut DatasetBuilder) -> Result<(), DatasetProblem> {
    // Read one byte more than the limit to detect truncation. Reserve everything at once: growing
    // would double it.
    let most = MAX_TEXT_BYTES as u64 + 1;
    let mut bytes = Vec::with_capacity((source.len()?.min(most) + 1) as usize);
    source.text()?.take(most).read_to_end(&mut bytes)?;
    let whole = bytes.len() <= MAX_TEXT_BYTES;
    if !whole {
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
        for at in 0..bytes.len() {
            if !bytes[at..].starts_with(b"\r\n") {
                bytes[end] = bytes[at];
                end += 1;
            }
        }
        bytes.truncate(end);
    }
    let text = String::from_utf8(bytes).map_err(|_| DatasetProblem::wrong_encoding(1))?;
    builder.document(text, whole);
    Ok(())
}

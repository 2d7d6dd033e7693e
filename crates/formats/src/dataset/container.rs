//! What kind of file a dataset is, by its content first and by its name second, and its rows one at a time.

use super::gather::{Gather, LARGEST_TEXT};
use super::source::{LONGEST_ROW, Source, UTF8_MARK};
use super::{DatasetProblem, columns, json, parquet, table};
use serde::de::IgnoredAny;
use std::io::{BufRead, Read};
use std::path::Path;

/// Bytes that are looked at to recognise a file.
const SAMPLE: usize = 64 * 1024;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    JsonLines,
    Json,
    /// CSV and its kin, with the byte between two columns.
    Table(u8),
    Parquet,
    Text,
    Markdown,
}

/// How files of other kinds begin that people may take for datasets.
const OTHERS: &[(&[u8], &str)] = &[
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
    /// Its name, for people.
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

    /// What a file is.
    ///
    /// # Errors
    /// Where it is empty, of another kind, or in an encoding that shows at its beginning.
    pub fn recognise(source: &Source, path: &Path) -> Result<Self, DatasetProblem> {
        let sample = source.beginning(SAMPLE)?;
        let whole = sample.len() < SAMPLE;
        if sample.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        if let Some((_, what)) = OTHERS.iter().find(|(beginning, _)| sample.starts_with(beginning)) {
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
                let why = "this is no Parquet file: it does not begin with 'PAR1'. Download or export it again.";
                return Err(DatasetProblem::Damaged(why.to_owned()));
            }
            _ => {
                // A table by any other name.
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

    /// Hands the rows of a file out.
    ///
    /// # Errors
    /// Where the file cannot be read as a whole. With `skip_broken`, a line in a wrong encoding is one that cannot be read;
    /// without, all of the file is.
    pub fn read(self, source: &Source, skip_broken: bool, gather: &mut Gather) -> Result<(), DatasetProblem> {
        match self {
            Self::JsonLines => json_lines(source, skip_broken, gather),
            Self::Json => json::read(source, gather),
            Self::Table(delimiter) => table::read(source, delimiter, skip_broken, gather),
            Self::Parquet => parquet::read(source, gather),
            Self::Text | Self::Markdown => document(source, gather),
        }
    }
}

/// Whether a text is JSON of one kind or the other; none: it is neither.
fn by_json(text: &[u8], whole: bool, extension: &str) -> Option<Container> {
    let object = match text.first()? {
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
            } else if value.contains(&b'\n') || (!object && !lines) {
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
        Err(_) if lines || (object && !prose) => Some(Container::JsonLines),
        Err(_) => None,
    }
}

/// Refuses text in UTF-16 or UTF-32, and what is no text.
fn reject_wide_encodings(sample: &[u8]) -> Result<(), DatasetProblem> {
    let zeros_at = |parity: usize| sample.iter().skip(parity).step_by(2).filter(|&&byte| byte == 0).count();
    let (even, odd) = (zeros_at(0), zeros_at(1));
    let marked = sample.starts_with(b"\xff\xfe") || sample.starts_with(b"\xfe\xff");
    // Of Latin text in UTF-16 every second byte is zero, and of any text hardly any other.
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

/// The error for bytes that are no UTF-8.
pub(super) fn wrong_encoding(line: u32) -> DatasetProblem {
    DatasetProblem::Encoding {
        place: format!("line {line}"),
        encoding: "probably Latin-1 or Windows-1252",
    }
}

/// The same as the reason why one line cannot be read.
pub(super) const WRONG_ENCODING: &str = "it is not UTF-8, but probably Latin-1 or Windows-1252.";

fn json_lines(source: &Source, skip_broken: bool, gather: &mut Gather) -> Result<(), DatasetProblem> {
    let mut reader = source.text()?;
    let mut bytes = Vec::new();
    for line in 1u32.. {
        source.meter.count_row()?;
        bytes.clear();
        let read = (&mut reader).take(LONGEST_ROW as u64).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            break;
        }
        if read == LONGEST_ROW && bytes.last() != Some(&b'\n') {
            let mib = LONGEST_ROW >> 20;
            gather.broken(
                line,
                format!("it is longer than {mib} MiB; make several examples of it."),
            );
            reader.skip_until(b'\n')?;
            continue;
        }
        let Ok(text) = std::str::from_utf8(&bytes) else {
            if !skip_broken {
                return Err(wrong_encoding(line));
            }
            gather.broken(line, WRONG_ENCODING);
            continue;
        };
        if text.trim().is_empty() {
            continue;
        }
        match json::row(text) {
            Ok((fields, size)) => {
                if gather.row(line, fields, size).is_break() {
                    break;
                }
            }
            Err(why) => gather.broken(line, why),
        }
    }
    Ok(())
}

/// A file that is one text.
fn document(source: &Source, gather: &mut Gather) -> Result<(), DatasetProblem> {
    // One more than is held, so that reaching the limit shows. Room for all of it at once: growing takes it twice.
    let most = LARGEST_TEXT as u64 + 1;
    let mut bytes = Vec::with_capacity((source.len()?.min(most) + 1) as usize);
    source.text()?.take(most).read_to_end(&mut bytes)?;
    let whole = bytes.len() <= LARGEST_TEXT;
    if !whole {
        let tail = bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
        bytes.truncate(bytes.len() - tail);
    }
    if let Err(error) = std::str::from_utf8(&bytes) {
        let before = &bytes[..error.valid_up_to()];
        return Err(wrong_encoding(
            before.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1,
        ));
    }
    if bytes.contains(&b'\r') {
        // Lines end as models have seen them end. In place, since a copy takes as much again.
        let mut end = 0;
        for place in 0..bytes.len() {
            if !bytes[place..].starts_with(b"\r\n") {
                bytes[end] = bytes[place];
                end += 1;
            }
        }
        bytes.truncate(end);
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong_encoding(1))?;
    gather.document(text, whole);
    Ok(())
}

//! The footer of a Parquet file. The parquet crate allocates by its counts and recurses into its
//! schema, so the footer is validated first.

use super::super::source::RandomAccess;
use super::super::{DatasetProblem, builder};
use super::error::corrupt;
use super::thrift::{Field, Fields, STRUCT, Thrift, ThriftError};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

/// Maximum size of a footer in bytes.
const MAX_FOOTER: u64 = 64 << 20;

/// Maximum nesting depth of columns.
const MAX_DEPTH: usize = 64;

/// Maximum length of a column name in bytes: it is copied for every row.
const MAX_NAME: usize = 1024;

/// Maximum total length of all column paths in bytes.
const MAX_PATHS: usize = 128 << 20;

/// Maximum number of row groups, and of column chunks in all of them.
const MAX_ROW_GROUPS: usize = 1 << 16;
const MAX_COLUMN_CHUNKS: usize = 400_000;

/// Reads and validates the footer.
///
/// # Errors
/// If it is malformed or exceeds a limit.
pub(super) fn read(file: &RandomAccess) -> Result<ParquetMetaData, DatasetProblem> {
    const END: u64 = 8;
    let too_short = || corrupt("it is truncated");
    let body = file
        .len()
        .checked_sub(END)
        .filter(|&body| body > 4)
        .ok_or_else(too_short)?;
    let end = file.read(body, END as usize)?;
    let Some((length, b"PAR1")) = end.split_first_chunk::<4>() else {
        return Err(if end.ends_with(b"PARE") {
            DatasetProblem::Corrupt(
                "this Parquet file is encrypted, which Hearth does not read. Write it without encryption.".to_owned(),
            )
        } else {
            too_short()
        });
    };
    let length = u64::from(u32::from_le_bytes(*length));
    let start = body
        .checked_sub(length)
        .filter(|&start| start >= 4)
        .ok_or_else(too_short)?;
    if length > MAX_FOOTER {
        return Err(corrupt(format!("its footer has more than {} MiB", MAX_FOOTER >> 20)));
    }
    let footer = file.read(start, length as usize)?;
    if footer.len() as u64 != length {
        return Err(too_short());
    }
    check(&footer).map_err(|error| match error {
        FooterError::Malformed => corrupt("its footer is malformed"),
        FooterError::Limit(message) => corrupt(message),
    })?;
    ParquetMetaDataReader::decode_metadata(&footer).map_err(corrupt)
}

enum FooterError {
    Malformed,
    Limit(&'static str),
}

impl From<ThriftError> for FooterError {
    fn from(_: ThriftError) -> Self {
        Self::Malformed
    }
}

/// Validates a footer (`FileMetaData`).
fn check(footer: &[u8]) -> Result<(), FooterError> {
    let mut thrift = Thrift::new(footer);
    let mut fields = Fields::default();
    while let Some(field) = thrift.field(&mut fields)? {
        match field.id {
            2 => schema(&mut thrift, &field)?,
            4 => groups(&mut thrift, &field)?,
            _ => thrift.skip(field.kind)?,
        }
    }
    Ok(())
}

/// Validates the schema: a tree in pre-order.
fn schema(thrift: &mut Thrift, field: &Field) -> Result<(), FooterError> {
    let count = thrift.structs(field)?;
    if count > 2 * builder::MAX_COLUMNS {
        return Err(FooterError::Limit("it has too many columns"));
    }
    // For each open node: the number of remaining children, and the length of its path.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut paths = 0usize;
    // Nodes that are claimed as children, and not read yet.
    let mut claimed = 0usize;
    for index in 0..count {
        let (name, children) = node(thrift)?;
        // The parquet crate reserves room for all children of a group before it reads them.
        let nodes_left = count - index - 1;
        claimed = claimed.saturating_sub(1);
        let children = usize::try_from(children)
            .ok()
            .filter(|&children| children <= nodes_left - claimed.min(nodes_left));
        let children = children.ok_or(FooterError::Limit("its columns are inconsistent"))?;
        claimed += children;
        while open.last().is_some_and(|(children_left, _)| *children_left == 0) {
            open.pop();
        }
        let path = match open.last_mut() {
            Some((children_left, path)) => {
                *children_left -= 1;
                *path + name + size_of::<String>()
            }
            None => 0,
        };
        paths += path;
        if name > MAX_NAME || paths > MAX_PATHS {
            return Err(FooterError::Limit("the names of its columns are too long"));
        }
        if children > 0 {
            open.push((children, path));
        }
        if open.len() > MAX_DEPTH {
            return Err(FooterError::Limit("its columns are nested too deeply"));
        }
    }
    Ok(())
}

/// Reads a node of the schema (`SchemaElement`): the length of its name, and its number of
/// children.
fn node(thrift: &mut Thrift) -> Result<(usize, i64), FooterError> {
    let (mut name, mut children) = (0, 0);
    let mut fields = Fields::default();
    while let Some(field) = thrift.field(&mut fields)? {
        match field.id {
            4 => name = thrift.text(&field)?,
            5 => children = thrift.number(&field)?,
            _ => thrift.skip(field.kind)?,
        }
    }
    Ok((name, children))
}

/// Validates the row groups and their column chunks.
fn groups(thrift: &mut Thrift, field: &Field) -> Result<(), FooterError> {
    let count = thrift.structs(field)?;
    if count > MAX_ROW_GROUPS {
        return Err(FooterError::Limit("it has too many row groups"));
    }
    let mut chunks = 0;
    for _ in 0..count {
        let mut fields = Fields::default();
        while let Some(field) = thrift.field(&mut fields)? {
            if field.id != 1 {
                thrift.skip(field.kind)?;
                continue;
            }
            let columns = thrift.structs(&field)?;
            chunks += columns;
            if chunks > MAX_COLUMN_CHUNKS {
                return Err(FooterError::Limit("it has too many row groups and columns"));
            }
            for _ in 0..columns {
                thrift.skip(STRUCT)?;
            }
        }
    }
    Ok(())
}

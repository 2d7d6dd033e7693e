//! The footer of a Parquet file. The parquet crate allocates by the numbers in it and goes down its schema by recursion, so all
//! of it is gone through before.

use super::super::source::Places;
use super::super::{DatasetProblem, gather};
use super::damaged;
use super::thrift::{Fault, Field, Fields, STRUCT, Thrift};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

/// Bytes that a footer may have.
const LARGEST: u64 = 64 << 20;

/// How deep columns may lie in one another.
const DEEPEST: usize = 64;

/// Bytes that a column's name may have: it is copied for every row.
const LONGEST_NAME: usize = 1024;

/// Bytes of all columns' paths together.
const LARGEST_PATHS: usize = 128 << 20;

/// Parts of a file, each with all columns, and columns in all of them.
const MOST_GROUPS: usize = 1 << 16;
const MOST_CHUNKS: usize = 400_000;

/// Reads the footer.
///
/// # Errors
/// Where it is none, or goes over a limit.
pub(super) fn read(places: &Places) -> Result<ParquetMetaData, DatasetProblem> {
    const END: u64 = 8;
    let too_short = || damaged("it ends too early");
    let body = places
        .len()
        .checked_sub(END)
        .filter(|&body| body > 4)
        .ok_or_else(too_short)?;
    let end = places.read(body, END as usize)?;
    let Some((length, b"PAR1")) = end.split_first_chunk::<4>() else {
        return Err(match end.ends_with(b"PARE") {
            true => DatasetProblem::Damaged(
                "this Parquet file is encrypted, which Hearth does not read. Write it without encryption.".to_owned(),
            ),
            false => too_short(),
        });
    };
    let length = u64::from(u32::from_le_bytes(*length));
    let start = body
        .checked_sub(length)
        .filter(|&start| start >= 4)
        .ok_or_else(too_short)?;
    if length > LARGEST {
        return Err(damaged(format!("its footer has more than {} MiB", LARGEST >> 20)));
    }
    let footer = places.read(start, length as usize)?;
    if footer.len() as u64 != length {
        return Err(too_short());
    }
    check(&footer).map_err(|wrong| match wrong {
        Wrong::Fault => damaged("its footer contradicts itself"),
        Wrong::Over(what) => damaged(what),
    })?;
    ParquetMetaDataReader::decode_metadata(&footer).map_err(damaged)
}

enum Wrong {
    Fault,
    Over(&'static str),
}

impl From<Fault> for Wrong {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

/// Goes through a footer (`FileMetaData`).
fn check(footer: &[u8]) -> Result<(), Wrong> {
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

/// The schema: a tree, each node before its children.
fn schema(thrift: &mut Thrift, field: &Field) -> Result<(), Wrong> {
    let count = thrift.structs(field)?;
    if count > 2 * gather::MOST_COLUMNS {
        return Err(Wrong::Over("it has too many columns"));
    }
    // For each node on the way down: children that are still to come, and the bytes of the path.
    let mut open: Vec<(i64, usize)> = Vec::new();
    let mut paths = 0usize;
    for _ in 0..count {
        let (name, children) = node(thrift)?;
        while open.last().is_some_and(|(left, _)| *left == 0) {
            open.pop();
        }
        let path = match open.last_mut() {
            Some((left, path)) => {
                *left -= 1;
                *path + name + size_of::<String>()
            }
            None => 0,
        };
        paths += path;
        if children < 0 {
            return Err(Wrong::Over("its columns contradict one another"));
        }
        if name > LONGEST_NAME || paths > LARGEST_PATHS {
            return Err(Wrong::Over("the names of its columns are too long"));
        }
        if children > 0 {
            open.push((children, path));
        }
        if open.len() > DEEPEST {
            return Err(Wrong::Over("its columns lie too deep in one another"));
        }
    }
    Ok(())
}

/// A node of the schema (`SchemaElement`): the length of its name, and its children.
fn node(thrift: &mut Thrift) -> Result<(usize, i64), Wrong> {
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

/// The row groups and the columns in them.
fn groups(thrift: &mut Thrift, field: &Field) -> Result<(), Wrong> {
    let count = thrift.structs(field)?;
    if count > MOST_GROUPS {
        return Err(Wrong::Over("it has too many row groups"));
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
            if chunks > MOST_CHUNKS {
                return Err(Wrong::Over("it has too many row groups and columns"));
            }
            for _ in 0..columns {
                thrift.skip(STRUCT)?;
            }
        }
    }
    Ok(())
}

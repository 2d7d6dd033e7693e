//! Parquet: tables by columns, as the hubs keep most datasets.

use super::DatasetProblem;
use super::gather::Gather;
use super::source::Source;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reads a file, one row at a time.
pub(super) fn read(source: &Source, gather: &mut Gather) -> Result<(), DatasetProblem> {
    let mut guarded = AssertUnwindSafe(gather);
    // The crate that reads Parquet panics on some damaged files. Of the examples gathered until then none is used.
    let done = catch_unwind(move || rows(source, &mut guarded));
    done.unwrap_or_else(|_| Err(damaged("its columns contradict one another")))
}

fn damaged(why: impl std::fmt::Display) -> DatasetProblem {
    DatasetProblem::Damaged(format!(
        "this Parquet file is damaged: {why}. Download or export it again."
    ))
}

fn rows(source: &Source, gather: &mut Gather) -> Result<(), DatasetProblem> {
    let reader: Box<dyn FileReader> = match source {
        Source::File(file) => Box::new(SerializedFileReader::new(file.try_clone()?).map_err(damaged)?),
        Source::Bytes(bytes) => Box::new(SerializedFileReader::new(bytes.clone()).map_err(damaged)?),
    };
    check_codecs(reader.as_ref())?;
    let names = reader.metadata().file_metadata().schema().get_fields().iter();
    let names: Vec<String> = names.map(|column| column.name().to_owned()).collect();
    gather.columns(&names);
    let rows = RowIter::from_file(None, reader.as_ref()).map_err(damaged)?;
    for (row, number) in rows.zip(1u32..) {
        let fields = row.map_err(damaged)?.into_columns().into_iter();
        let fields = fields.map(|(name, field)| (name, value(field))).collect();
        if gather.row(number, fields).is_break() {
            break;
        }
    }
    Ok(())
}

/// Refuses what is compressed in ways that are not built in.
fn check_codecs(reader: &dyn FileReader) -> Result<(), DatasetProblem> {
    use parquet::basic::Compression;
    let groups = reader.metadata().row_groups().iter();
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

/// What a cell holds. Dates and raw bytes are no text to learn from.
fn value(field: Field) -> Value {
    match field {
        Field::Str(text) => Value::String(text),
        Field::Bool(value) => Value::Bool(value),
        Field::Byte(number) => number.into(),
        Field::Short(number) => number.into(),
        Field::Int(number) => number.into(),
        Field::Long(number) => number.into(),
        Field::UByte(number) => number.into(),
        Field::UShort(number) => number.into(),
        Field::UInt(number) => number.into(),
        Field::ULong(number) => number.into(),
        Field::Float16(number) => f32::from(number).into(),
        Field::Float(number) => number.into(),
        Field::Double(number) => number.into(),
        // Writers that do not mark texts as such leave bytes.
        Field::Bytes(bytes) => match bytes.as_utf8() {
            Ok(text) => Value::from(text),
            Err(_) => Value::Null,
        },
        Field::Group(row) => {
            let columns = row.into_columns().into_iter();
            Value::Object(columns.map(|(name, field)| (name, value(field))).collect())
        }
        Field::ListInternal(list) => Value::Array(list.elements().iter().cloned().map(value).collect()),
        Field::MapInternal(map) => {
            let mut object = Map::new();
            for (key, field) in map.entries() {
                if let Field::Str(key) = key {
                    object.insert(key.clone(), value(field.clone()));
                }
            }
            Value::Object(object)
        }
        Field::Null
        | Field::Decimal(_)
        | Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_) => Value::Null,
    }
}

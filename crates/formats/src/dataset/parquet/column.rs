//! Reads the values of a column row by row.

use super::super::json_value::Budget;
use super::super::source::RandomAccess;
use super::error::invalid;
use super::limits::Limits;
use super::pages::{DecodeCounters, Pages};
use parquet::basic::ConvertedType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
    Int96Type,
};
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::ColumnDescPtr;
use serde_json::Value;
use std::sync::Arc;

/// Rows decoded at once, for a column without lists.
const ROWS: usize = 256;

/// Rows decoded at once, for a column in lists: a row can have any number of entries.
const ROWS_OF_LISTS: usize = 16;

/// A column of a row group: a sequence of levels, some with a value.
pub(super) trait Column {
    /// Begins a row and decodes its levels if needed.
    ///
    /// # Errors
    /// If the column has no more rows, or exceeds a limit.
    fn begin_row(&mut self) -> Result<()>;

    /// Skips the rest of the current row.
    fn leave_row(&mut self);

    /// Definition and repetition level at the current position; `None` at the end of the decoded
    /// rows.
    fn levels(&self) -> Option<(i16, i16)>;

    /// Advances to the next level.
    fn advance(&mut self);

    /// The value at the current position; `None` if it exceeds the row's budget.
    ///
    /// # Errors
    /// If it is not UTF-8 in a column of strings.
    fn value(&self, budget: &Budget) -> Result<Option<Value>>;
}

/// Opens a column of a row group.
pub(super) fn open(
    file: &Arc<RandomAccess>,
    limits: &Arc<Limits>,
    chunk: &ColumnChunkMetaData,
) -> Result<Box<dyn Column>> {
    let counters = Arc::<DecodeCounters>::default();
    let column = chunk.column_descr_ptr();
    let pages = Pages::new(file, limits, &counters, chunk)?;
    let common = Common {
        limits: Arc::clone(limits),
        counters,
        column: column.clone(),
    };
    Ok(match get_column_reader(column, Box::new(pages)) {
        ColumnReader::BoolColumnReader(reader) => Typed::<BoolType>::boxed(common, reader),
        ColumnReader::Int32ColumnReader(reader) => Typed::<Int32Type>::boxed(common, reader),
        ColumnReader::Int64ColumnReader(reader) => Typed::<Int64Type>::boxed(common, reader),
        ColumnReader::Int96ColumnReader(reader) => Typed::<Int96Type>::boxed(common, reader),
        ColumnReader::FloatColumnReader(reader) => Typed::<FloatType>::boxed(common, reader),
        ColumnReader::DoubleColumnReader(reader) => Typed::<DoubleType>::boxed(common, reader),
        ColumnReader::ByteArrayColumnReader(reader) => Typed::<ByteArrayType>::boxed(common, reader),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => Typed::<FixedLenByteArrayType>::boxed(common, reader),
    })
}

struct Common {
    limits: Arc<Limits>,
    counters: Arc<DecodeCounters>,
    column: ColumnDescPtr,
}

struct Typed<T: DataType> {
    common: Common,
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
    /// Number of decoded levels.
    count: usize,
    /// The current level, the first level of the current row, and the next value.
    level: usize,
    row: usize,
    value: usize,
    /// Memory of these buffers in bytes.
    bytes: usize,
}

impl<T: DataType<T: Cell> + 'static> Typed<T> {
    fn boxed(common: Common, reader: ColumnReaderImpl<T>) -> Box<dyn Column> {
        Box::new(Self {
            common,
            reader,
            values: Vec::new(),
            definition: Vec::new(),
            repetition: Vec::new(),
            count: 0,
            level: 0,
            row: 0,
            value: 0,
            bytes: 0,
        })
    }

    /// Decodes the next rows.
    fn fill(&mut self) -> Result<()> {
        self.values.clear();
        self.definition.clear();
        self.repetition.clear();
        (self.level, self.value) = (0, 0);
        let counters = &self.common.counters;
        counters.begin();
        let rows = if self.common.column.max_rep_level() > 0 {
            ROWS_OF_LISTS
        } else {
            // Never cross a page boundary, so that few pages are in memory: one row loads the next
            // page, then the rest of it.
            counters.take(ROWS).max(1)
        };
        let (_, _, levels) = self.reader.read_records(
            rows,
            Some(&mut self.definition),
            Some(&mut self.repetition),
            &mut self.values,
        )?;
        if self.common.column.max_rep_level() == 0 && rows == 1 {
            counters.take(1);
        }
        self.count = levels;
        let bytes = self.values.capacity() * size_of::<T::T>()
            + (self.definition.capacity() + self.repetition.capacity()) * size_of::<i16>()
            + counters.texts();
        let before = std::mem::replace(&mut self.bytes, bytes);
        self.common.limits.replace_values(before, bytes)
    }

    fn definition(&self) -> i16 {
        self.definition.get(self.level).copied().unwrap_or(0)
    }
}

impl<T: DataType> Drop for Typed<T> {
    fn drop(&mut self) {
        // Shrinking cannot exceed the limit.
        let _ = self.common.limits.replace_values(self.bytes, 0);
    }
}

impl<T: DataType<T: Cell> + 'static> Column for Typed<T> {
    fn begin_row(&mut self) -> Result<()> {
        if self.level >= self.count {
            self.fill()?;
        }
        self.row = self.level;
        match self.levels() {
            Some((_, 0)) => Ok(()),
            _ => Err(invalid("its columns are inconsistent")),
        }
    }

    fn leave_row(&mut self) {
        if self.level == self.row {
            self.advance();
        }
        while self.levels().is_some_and(|(_, repetition)| repetition > 0) {
            self.advance();
        }
    }

    fn levels(&self) -> Option<(i16, i16)> {
        let repetition = self.repetition.get(self.level).copied().unwrap_or(0);
        (self.level < self.count).then(|| (self.definition(), repetition))
    }

    fn advance(&mut self) {
        if self.level < self.count {
            self.value += usize::from(self.definition() == self.common.column.max_def_level());
            self.level += 1;
        }
    }

    fn value(&self, budget: &Budget) -> Result<Option<Value>> {
        if self.definition() < self.common.column.max_def_level() {
            return Ok(Some(Value::Null));
        }
        match self.values.get(self.value) {
            Some(value) => value.value(self.common.column.converted_type(), budget),
            None => Err(invalid("its columns are inconsistent")),
        }
    }
}

/// Converts a Parquet value to JSON. Dates and raw bytes become null, as they are not text to train
/// on.
trait Cell {
    fn value(&self, kind: ConvertedType, budget: &Budget) -> Result<Option<Value>>;
}

impl Cell for bool {
    fn value(&self, _: ConvertedType, _: &Budget) -> Result<Option<Value>> {
        Ok(Some((*self).into()))
    }
}

impl Cell for i32 {
    fn value(&self, kind: ConvertedType, _: &Budget) -> Result<Option<Value>> {
        Ok(Some(match kind {
            ConvertedType::INT_8 => (*self as i8).into(),
            ConvertedType::INT_16 => (*self as i16).into(),
            ConvertedType::INT_32 | ConvertedType::NONE => (*self).into(),
            ConvertedType::UINT_8 => (*self as u8).into(),
            ConvertedType::UINT_16 => (*self as u16).into(),
            ConvertedType::UINT_32 => (*self as u32).into(),
            _ => Value::Null,
        }))
    }
}

impl Cell for i64 {
    fn value(&self, kind: ConvertedType, _: &Budget) -> Result<Option<Value>> {
        Ok(Some(match kind {
            ConvertedType::INT_64 | ConvertedType::NONE => (*self).into(),
            ConvertedType::UINT_64 => (*self as u64).into(),
            _ => Value::Null,
        }))
    }
}

impl Cell for f32 {
    fn value(&self, _: ConvertedType, _: &Budget) -> Result<Option<Value>> {
        Ok(Some((*self).into()))
    }
}

impl Cell for f64 {
    fn value(&self, _: ConvertedType, _: &Budget) -> Result<Option<Value>> {
        Ok(Some((*self).into()))
    }
}

impl Cell for parquet::data_type::Int96 {
    fn value(&self, _: ConvertedType, _: &Budget) -> Result<Option<Value>> {
        Ok(Some(Value::Null))
    }
}

impl Cell for ByteArray {
    fn value(&self, kind: ConvertedType, budget: &Budget) -> Result<Option<Value>> {
        let is_text = matches!(kind, ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON);
        let is_bytes = matches!(kind, ConvertedType::BSON | ConvertedType::NONE);
        if !is_text && !is_bytes {
            return Ok(Some(Value::Null));
        }
        if !budget.takes(self.len()) {
            return Ok(None);
        }
        match self.as_utf8() {
            Ok(text) => Ok(Some(Value::from(text))),
            Err(_) if is_text => Err(invalid("one of its texts is not UTF-8")),
            // Some writers do not annotate strings as UTF-8.
            Err(_) => Ok(Some(Value::Null)),
        }
    }
}

impl Cell for parquet::data_type::FixedLenByteArray {
    fn value(&self, kind: ConvertedType, budget: &Budget) -> Result<Option<Value>> {
        match kind {
            ConvertedType::NONE => ByteArray::from(self.clone()).value(kind, budget),
            _ => Ok(Some(Value::Null)),
        }
    }
}

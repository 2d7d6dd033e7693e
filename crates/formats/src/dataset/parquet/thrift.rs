//! Reader of the subset of Thrift's compact protocol that Parquet uses. Allocates nothing and
//! limits nesting.
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// Maximum nesting depth of values.
const MAX_DEPTH: usize = 32;

/// Maximum total number of list elements that are skipped.
const MAX_ELEMENTS: usize = 4 << 20;

/// Field and element types.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;

/// A decoding error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThriftError {
    /// The input is truncated; more bytes may help.
    End,
    /// The input is malformed or exceeds a limit.
    Malformed,
}

/// A reader over a byte slice.
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    position: usize,
    elements_left: usize,
}

/// Field ID and type.
pub(super) struct Field {
    pub id: i16,
    pub kind: u8,
}

/// Field state of a struct: the last field ID.
#[derive(Default)]
pub(super) struct Fields(i16);

impl<'a> Thrift<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            elements_left: MAX_ELEMENTS,
        }
    }

    /// Number of bytes consumed.
    pub fn position(&self) -> usize {
        self.position
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        let byte = *self.bytes.get(self.position).ok_or(ThriftError::End)?;
        self.position += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ThriftError::Malformed)
    }

    fn zigzag(&mut self) -> Result<i64, ThriftError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads the next field header of a struct; `None` at its end.
    pub fn field(&mut self, fields: &mut Fields) -> Result<Option<Field>, ThriftError> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        let id = match i16::from(byte >> 4) {
            0 => i16::try_from(self.zigzag()?).map_err(|_| ThriftError::Malformed)?,
            delta => fields.0.checked_add(delta).ok_or(ThriftError::Malformed)?,
        };
        fields.0 = id;
        Ok(Some(Field { id, kind: byte & 0xf }))
    }

    /// Reads an integer field.
    pub fn number(&mut self, field: &Field) -> Result<i64, ThriftError> {
        match field.kind {
            I16 | I32 | I64 => self.zigzag(),
            _ => Err(ThriftError::Malformed),
        }
    }

    /// Reads a boolean field, whose value is part of its type.
    pub fn flag(&self, field: &Field) -> Result<bool, ThriftError> {
        match field.kind {
            TRUE => Ok(true),
            FALSE => Ok(false),
            _ => Err(ThriftError::Malformed),
        }
    }

    /// Skips a string field and returns its length.
    pub fn text(&mut self, field: &Field) -> Result<usize, ThriftError> {
        if field.kind != BINARY {
            return Err(ThriftError::Malformed);
        }
        let length = self.varint()?;
        self.advance(length)?;
        Ok(length as usize)
    }

    /// Begins a list of structs and returns their number.
    pub fn structs(&mut self, field: &Field) -> Result<usize, ThriftError> {
        if field.kind != LIST {
            return Err(ThriftError::Malformed);
        }
        let (kind, count) = self.list()?;
        // Empty lists may have any element type.
        if kind != STRUCT && count > 0 {
            return Err(ThriftError::Malformed);
        }
        Ok(count)
    }

    /// Reads a list header: element type and count, which is at most the number of remaining bytes.
    fn list(&mut self) -> Result<(u8, usize), ThriftError> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        Ok((byte & 0xf, self.fitting(count)?))
    }

    /// Checks that at least `count` bytes remain.
    fn fitting(&self, count: u64) -> Result<usize, ThriftError> {
        let remaining = self.bytes.len() - self.position;
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= remaining)
            .ok_or(ThriftError::End)
    }

    fn advance(&mut self, bytes: u64) -> Result<(), ThriftError> {
        self.position += self.fitting(bytes)?;
        Ok(())
    }

    /// Skips the value of a field.
    pub fn skip(&mut self, kind: u8) -> Result<(), ThriftError> {
        match kind {
            TRUE | FALSE => Ok(()),
            _ => self.skip_deep(kind, 0),
        }
    }

    fn skip_deep(&mut self, kind: u8, depth: usize) -> Result<(), ThriftError> {
        if depth > MAX_DEPTH {
            return Err(ThriftError::Malformed);
        }
        match kind {
            TRUE | FALSE | BYTE => self.advance(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.advance(8),
            BINARY => {
                let length = self.varint()?;
                self.advance(length)
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                self.elements(count)?;
                (0..count).try_for_each(|_| self.skip_deep(kind, depth + 1))
            }
            MAP => {
                let count = self.varint()?;
                let count = self.fitting(count)?;
                self.elements(count)?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip_deep(kinds >> 4, depth + 1)?;
                    self.skip_deep(kinds & 0xf, depth + 1)
                })
            }
            STRUCT => {
                let mut fields = Fields::default();
                while let Some(field) = self.field(&mut fields)? {
                    if !matches!(field.kind, TRUE | FALSE) {
                        self.skip_deep(field.kind, depth + 1)?;
                    }
                }
                Ok(())
            }
            _ => Err(ThriftError::Malformed),
        }
    }

    fn elements(&mut self, count: usize) -> Result<(), ThriftError> {
        self.elements_left = self.elements_left.checked_sub(count).ok_or(ThriftError::Malformed)?;
        Ok(())
    }
}

//! Thrift's compact protocol, as much of it as a Parquet file's footer and pages need. Nothing is allocated, and what lies deep
//! is refused. <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// How deep values may lie in one another.
const DEEPEST: usize = 32;

/// Elements that all lists of a footer may have together, but for those that are counted on their own.
const MOST_ELEMENTS: usize = 4 << 20;

/// Types of fields and elements.
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

/// Why bytes are no Thrift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// They end too early: more of them may be.
    End,
    /// They contradict the protocol, or go over a limit.
    Malformed,
}

/// A reader over bytes.
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    place: usize,
    elements_left: usize,
}

/// A field's number and type.
pub(super) struct Field {
    pub id: i16,
    pub kind: u8,
}

/// Where the fields of a struct are.
#[derive(Default)]
pub(super) struct Fields(i16);

impl<'a> Thrift<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            place: 0,
            elements_left: MOST_ELEMENTS,
        }
    }

    /// Bytes that were read.
    pub fn place(&self) -> usize {
        self.place
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let byte = *self.bytes.get(self.place).ok_or(Fault::End)?;
        self.place += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Fault::Malformed)
    }

    fn zigzag(&mut self) -> Result<i64, Fault> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next field of a struct; none: it ends.
    pub fn field(&mut self, fields: &mut Fields) -> Result<Option<Field>, Fault> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        let id = match i16::from(byte >> 4) {
            0 => i16::try_from(self.zigzag()?).map_err(|_| Fault::Malformed)?,
            delta => fields.0.checked_add(delta).ok_or(Fault::Malformed)?,
        };
        fields.0 = id;
        Ok(Some(Field { id, kind: byte & 0xf }))
    }

    /// A number as a field's value.
    pub fn number(&mut self, field: &Field) -> Result<i64, Fault> {
        match field.kind {
            I16 | I32 | I64 => self.zigzag(),
            _ => Err(Fault::Malformed),
        }
    }

    /// A truth value, which a field's type holds.
    pub fn flag(&self, field: &Field) -> Result<bool, Fault> {
        match field.kind {
            TRUE => Ok(true),
            FALSE => Ok(false),
            _ => Err(Fault::Malformed),
        }
    }

    /// The length of a text, which is skipped.
    pub fn text(&mut self, field: &Field) -> Result<usize, Fault> {
        if field.kind != BINARY {
            return Err(Fault::Malformed);
        }
        let length = self.varint()?;
        self.forward(length)?;
        Ok(length as usize)
    }

    /// The number of structs in a list, which follow.
    pub fn structs(&mut self, field: &Field) -> Result<usize, Fault> {
        if field.kind != LIST {
            return Err(Fault::Malformed);
        }
        let (kind, count) = self.list()?;
        // Writers of empty lists do not say of what.
        if kind != STRUCT && count > 0 {
            return Err(Fault::Malformed);
        }
        Ok(count)
    }

    /// Begins a list: the type of its elements and how many there are, no more than bytes.
    fn list(&mut self) -> Result<(u8, usize), Fault> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        Ok((byte & 0xf, self.fitting(count)?))
    }

    fn fitting(&self, count: u64) -> Result<usize, Fault> {
        let left = self.bytes.len() - self.place;
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= left)
            .ok_or(Fault::End)
    }

    fn forward(&mut self, bytes: u64) -> Result<(), Fault> {
        self.place += self.fitting(bytes)?;
        Ok(())
    }

    /// Skips a field's value.
    pub fn skip(&mut self, kind: u8) -> Result<(), Fault> {
        match kind {
            TRUE | FALSE => Ok(()),
            _ => self.skip_deep(kind, 0),
        }
    }

    fn skip_deep(&mut self, kind: u8, depth: usize) -> Result<(), Fault> {
        if depth > DEEPEST {
            return Err(Fault::Malformed);
        }
        match kind {
            TRUE | FALSE | BYTE => self.forward(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.forward(8),
            BINARY => {
                let length = self.varint()?;
                self.forward(length)
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
            _ => Err(Fault::Malformed),
        }
    }

    fn elements(&mut self, count: usize) -> Result<(), Fault> {
        self.elements_left = self.elements_left.checked_sub(count).ok_or(Fault::Malformed)?;
        Ok(())
    }
}

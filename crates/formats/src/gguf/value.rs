//! The values of GGUF metadata.

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // The variants are the types of the format.
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(String),
    U64(u64),
    I64(i64),
    F64(f64),
    Array(Array),
}

/// A metadata array: values of one type. Nested arrays, which no known model uses, are refused when
/// a file is read.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // As above.
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Str(Strings),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// A list of strings in one allocation, since a vocabulary has a hundred thousand of them and is
/// read at every start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl Strings {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a string.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at an index.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.text[start..end])
    }

    /// Iterates over the strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let text = &self.text[start..end];
            start = end;
            text
        })
    }
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Self {
        let mut strings = Self::new();
        for text in texts {
            strings.push(text.as_ref());
        }
        strings
    }
}

impl Value {
    /// The type with an article, for errors: `an unsigned 32-bit integer`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "an unsigned 8-bit integer",
            Self::I8(_) => "a signed 8-bit integer",
            Self::U16(_) => "an unsigned 16-bit integer",
            Self::I16(_) => "a signed 16-bit integer",
            Self::U32(_) => "an unsigned 32-bit integer",
            Self::I32(_) => "a signed 32-bit integer",
            Self::F32(_) => "a 32-bit float",
            Self::Bool(_) => "a boolean",
            Self::Str(_) => "a string",
            Self::U64(_) => "an unsigned 64-bit integer",
            Self::I64(_) => "a signed 64-bit integer",
            Self::F64(_) => "a 64-bit float",
            Self::Array(Array::U8(_)) => "an array of unsigned 8-bit integers",
            Self::Array(Array::I8(_)) => "an array of signed 8-bit integers",
            Self::Array(Array::U16(_)) => "an array of unsigned 16-bit integers",
            Self::Array(Array::I16(_)) => "an array of signed 16-bit integers",
            Self::Array(Array::U32(_)) => "an array of unsigned 32-bit integers",
            Self::Array(Array::I32(_)) => "an array of signed 32-bit integers",
            Self::Array(Array::F32(_)) => "an array of 32-bit floats",
            Self::Array(Array::Bool(_)) => "an array of booleans",
            Self::Array(Array::Str(_)) => "an array of strings",
            Self::Array(Array::U64(_)) => "an array of unsigned 64-bit integers",
            Self::Array(Array::I64(_)) => "an array of signed 64-bit integers",
            Self::Array(Array::F64(_)) => "an array of 64-bit floats",
        }
    }

    /// The numbers of a scalar or an array: integers and floats of any width, and booleans as 0 and
    /// 1. `None` for strings.
    pub fn numbers(&self) -> Option<Box<dyn Iterator<Item = f64> + '_>> {
        let once = |number| Some(Box::new(std::iter::once(number)) as Box<dyn Iterator<Item = f64>>);
        match self {
            Self::F32(v) => once(f64::from(*v)),
            Self::F64(v) => once(*v),
            Self::Bool(v) => once(f64::from(u8::from(*v))),
            Self::Array(array) => array.numbers(),
            Self::Str(_) => None,
            integer => once(integer.integer()? as f64),
        }
    }

    /// An integer of any width as `i128`; `None` for other types.
    pub(super) fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(v) => v.into(),
            Self::I8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::U64(v) => v.into(),
            Self::I64(v) => v.into(),
            _ => return None,
        })
    }
}

impl Array {
    fn numbers(&self) -> Option<Box<dyn Iterator<Item = f64> + '_>> {
        Some(match self {
            Self::U8(v) => Box::new(v.iter().map(|&x| f64::from(x))),
            Self::I8(v) => Box::new(v.iter().map(|&x| f64::from(x))),
            Self::U16(v) => Box::new(v.iter().map(|&x| f64::from(x))),
            Self::I16(v) => Box::new(v.iter().map(|&x| f64::from(x))),
            Self::U32(v) => Box::new(v.iter().map(|&x| f64::from(x))),
            Self::I32(v) => Box::new(v.iter().map(|&x| f64::from(x))),
            Self::F32(v) => Box::new(v.iter().map(|&x| f64::from(x))),
            Self::Bool(v) => Box::new(v.iter().map(|&x| f64::from(u8::from(x)))),
            Self::U64(v) => Box::new(v.iter().map(|&x| x as f64)),
            Self::I64(v) => Box::new(v.iter().map(|&x| x as f64)),
            Self::F64(v) => Box::new(v.iter().copied()),
            Self::Str(_) => return None,
        })
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),*) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value)
            }
        })*
    };
}

macro_rules! array_from {
    ($($from:ty => $variant:ident),*) => {
        $(impl From<$from> for Value {
            fn from(values: $from) -> Self {
                Self::Array(Array::$variant(values))
            }
        })*
    };
}

value_from!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, f32 => F32, bool => Bool, String => Str,
    u64 => U64, i64 => I64, f64 => F64);
array_from!(Vec<u8> => U8, Vec<i8> => I8, Vec<u16> => U16, Vec<i16> => I16, Vec<u32> => U32, Vec<i32> => I32,
    Vec<f32> => F32, Vec<bool> => Bool, Strings => Str, Vec<u64> => U64, Vec<i64> => I64, Vec<f64> => F64);

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Str(value.to_owned())
    }
}

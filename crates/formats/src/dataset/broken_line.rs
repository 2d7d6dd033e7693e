//! Unreadable lines.

use serde_json::Value;

/// An unreadable line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLine {
    /// Line number, from 1.
    pub line: u32,
    /// Why it cannot be read.
    pub reason: BrokenReason,
}

/// Why a line cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokenReason {
    /// It is longer than the limit.
    TooLong {
        /// The limit in MiB.
        mib: u32,
    },
    /// Its values take more memory than the limit.
    TooMuchMemory {
        /// The limit in MiB.
        mib: u32,
    },
    /// It is not UTF-8.
    NotUtf8,
    /// It is not valid JSON.
    NotJson {
        /// serde's message, with the position in the line.
        detail: String,
    },
    /// It is JSON, but not an object.
    NotObject {
        /// The kind of its value.
        json: JsonKind,
    },
    /// A row of a table has more or fewer columns than the header.
    ColumnCount {
        /// Its columns.
        count: u32,
        /// Columns of the header.
        expected: u32,
        /// The character between columns.
        delimiter: Delimiter,
    },
    /// It lacks a column of the mapping.
    OtherColumns {
        /// The missing column.
        column: String,
        /// The first of its columns; `…` stands for the rest.
        columns: Vec<String>,
    },
    /// It is an object without members.
    NoColumns {
        /// The missing column.
        column: String,
    },
    /// A column has a list or an object where a text is expected.
    NotText {
        /// The column.
        column: String,
        /// The kind of its value.
        json: JsonKind,
    },
    /// Its prompt and its answer are empty.
    Empty,
    /// Its text is empty.
    EmptyText,
    /// Its conversation has no turns.
    EmptyConversation,
    /// Its conversation has no assistant message.
    NoAnswer,
    /// Its conversation is a text that is not a JSON list.
    ConversationIsText,
    /// Its conversation is not a list.
    NotConversation,
    /// A turn of its conversation is not an object.
    TurnNotObject {
        /// The turn, from 1.
        turn: u32,
    },
    /// A turn has no role.
    TurnWithoutRole {
        /// The turn, from 1.
        turn: u32,
    },
    /// A turn has the role of a tool.
    ToolRole {
        /// The turn, from 1.
        turn: u32,
        /// The role.
        role: String,
    },
    /// A turn has an unknown role.
    UnknownRole {
        /// The turn, from 1.
        turn: u32,
        /// The role.
        role: String,
    },
    /// A turn calls a tool.
    ToolCall {
        /// The turn, from 1.
        turn: u32,
    },
    /// A turn has parts that are not text.
    TurnNotText {
        /// The turn, from 1.
        turn: u32,
    },
    /// A turn has no text.
    TurnWithoutText {
        /// The turn, from 1.
        turn: u32,
    },
}

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list.
    List,
    /// An object.
    Object,
}

impl From<&Value> for JsonKind {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }
}

/// The character between the columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delimiter {
    /// A comma.
    Comma,
    /// A semicolon.
    Semicolon,
    /// A tab.
    Tab,
}

impl Delimiter {
    /// The character.
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
        }
    }
}

//! Lines of a dataset that cannot be read.

use crate::sentence::sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A malformed line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct BrokenLine {
    /// Line number, from 1.
    pub line: u32,
    /// Why it cannot be read.
    pub reason: BrokenReason,
}

/// Why a line cannot be read. Its `Display` is English, a sentence about the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum BrokenReason {
    /// It is too long.
    TooLong {
        /// The limit in MiB.
        mib: u32,
    },
    /// Its values take too much memory.
    TooMuchMemory {
        /// The limit in MiB.
        mib: u32,
    },
    /// It is not UTF-8.
    NotUtf8,
    /// It is not valid JSON.
    NotJson {
        /// The parser's error.
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
    /// It lacks a column that is used.
    OtherColumns {
        /// The missing column.
        column: String,
        /// The first of its columns; `…` stands for the rest.
        columns: Vec<String>,
    },
    /// It is an object without columns.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
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

/// The character between the columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Delimiter {
    /// A comma.
    Comma,
    /// A semicolon.
    Semicolon,
    /// A tab.
    Tab,
}

impl fmt::Display for BrokenReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("broken", self))
    }
}

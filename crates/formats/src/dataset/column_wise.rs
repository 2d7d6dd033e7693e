//! JSON with a list or an object per column, as pandas writes tables.

use super::columns::is_known;
use super::fields::{Fields, Name};
use serde_json::Value;

/// The rows of an object of columns. An object that is a single example is returned unchanged as
/// `Err`.
pub(super) fn rows(fields: Fields) -> Result<Vec<Fields>, Fields> {
    if !fields.iter().any(|(name, _)| is_known(name)) || !(are_lists(&fields) || are_indexed(&fields)) {
        return Err(fields);
    }
    let names: Vec<Name> = fields.iter().map(|(name, _)| name.clone()).collect();
    let mut columns: Vec<_> = fields.into_iter().map(|(_, column)| values(column)).collect();
    let mut rows = Vec::new();
    loop {
        let row: Option<Vec<Value>> = columns.iter_mut().map(Iterator::next).collect();
        match row {
            Some(row) => rows.push(names.iter().cloned().zip(row).collect()),
            None => return Ok(rows),
        }
    }
}

/// Whether each value is a list, and all have one length. A list of turns is a conversation.
fn are_lists(fields: &Fields) -> bool {
    let length = |value: &Value| {
        let list = value.as_array()?;
        (!list.iter().any(Value::is_object)).then_some(list.len())
    };
    let first_len = fields.first().and_then(|(_, value)| length(value));
    first_len.is_some_and(|len| len > 0) && fields.iter().all(|(_, value)| length(value) == first_len)
}

/// Whether each value is an object, and all have the same row numbers as keys.
fn are_indexed(fields: &Fields) -> bool {
    let is_number = |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    let Some(first) = fields.first().and_then(|(_, value)| value.as_object()) else {
        return false;
    };
    let has_same_keys = |value: &Value| value.as_object().is_some_and(|column| column.keys().eq(first.keys()));
    !first.is_empty() && first.keys().all(is_number) && fields.iter().all(|(_, value)| has_same_keys(value))
}

fn values(column: Value) -> Box<dyn Iterator<Item = Value>> {
    match column {
        Value::Array(values) => Box::new(values.into_iter()),
        Value::Object(values) => Box::new(values.into_iter().map(|(_, value)| value)),
        _ => Box::new(std::iter::empty()),
    }
}

//! Bounds of values from the window and from files. A value outside them is refused with a sentence
//! that names it.

use super::{Problem, ProblemCode};
use hearth_protocol::parse_json_schema;

/// Most bytes of a stop string, and of the id of a model or preset.
pub(super) const MAX_TEXT: usize = 1024;

/// Most bytes of the system prompt of a preset.
pub(super) const MAX_PROMPT: usize = 64 << 10;

/// Refuses a number outside its range.
pub(super) fn in_range(name: &str, value: f64, least: f64, most: f64) -> Result<(), Problem> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        refuse(format!("The {name} must be between {least} and {most}, not {value}."))
    }
}

/// Refuses a list that is too long, and one with a text that is empty or too long.
pub(super) fn texts(name: &str, given: &[String], most: usize, most_bytes: usize) -> Result<(), Problem> {
    count(&format!("{name}s"), given.len(), most)?;
    match given.iter().find(|text| text.is_empty() || text.len() > most_bytes) {
        None => Ok(()),
        Some(text) => refuse(format!(
            "A {name} has between 1 and {most_bytes} bytes, not {}.",
            text.len()
        )),
    }
}

/// Refuses a list that is too long.
pub(super) fn count(names: &str, given: usize, most: usize) -> Result<(), Problem> {
    if given > most {
        refuse(format!(
            "A conversation can have {most} {names}, not {given}. Remove some."
        ))
    } else {
        Ok(())
    }
}

/// Refuses a JSON schema that is too long, and one that is no JSON object.
pub(super) fn json_schema(text: &str) -> Result<(), Problem> {
    parse_json_schema(text).map_or_else(refuse, |_| Ok(()))
}

/// A request that is refused.
pub(super) fn refuse(message: String) -> Result<(), Problem> {
    Err(Problem {
        code: ProblemCode::BadRequest,
        message,
    })
}

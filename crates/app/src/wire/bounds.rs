//! Bounds of values from the window and from files. A value outside them is refused with a reason
//! that names it.

use super::{ChatReason, Problem, ProblemCode, SamplingSetting, TextList};
use hearth_protocol::parse_json_schema;
use std::fmt::Display;

/// Most bytes of a stop string, and of the id of a model or preset.
pub(super) const MAX_TEXT: usize = 1024;

/// Most bytes of the system prompt of a preset.
pub(super) const MAX_PROMPT: usize = 64 << 10;

/// Refuses a number outside its range.
pub(super) fn check_range<N: Copy + Into<f64> + Display>(
    setting: SamplingSetting,
    value: N,
    min: f64,
    max: f64,
) -> Result<(), Problem> {
    let number: f64 = value.into();
    if (min..=max).contains(&number) {
        Ok(())
    } else {
        refuse(ChatReason::OutOfRange {
            setting,
            least: min.to_string(),
            most: max.to_string(),
            value: value.to_string(),
        })
    }
}

/// Refuses a list that is too long, or that has a text that is empty or too long.
pub(super) fn check_texts(list: TextList, texts: &[String], max_count: usize, max_bytes: usize) -> Result<(), Problem> {
    check_count(list, texts.len(), max_count)?;
    texts
        .iter()
        .try_for_each(|text| check_text_length(list, text, max_bytes))
}

/// Refuses a text of a list that is empty or too long.
pub(super) fn check_text_length(list: TextList, text: &str, max_bytes: usize) -> Result<(), Problem> {
    if (1..=max_bytes).contains(&text.len()) {
        Ok(())
    } else {
        refuse(ChatReason::TextLength {
            entry: list,
            limit: max_bytes,
            length: text.len(),
        })
    }
}

/// Refuses a list that is too long.
pub(super) fn check_count(list: TextList, count: usize, limit: usize) -> Result<(), Problem> {
    if count > limit {
        refuse(ChatReason::TooManyTexts { list, limit, count })
    } else {
        Ok(())
    }
}

/// Refuses a JSON schema that is too long, or that is no JSON object.
pub(super) fn check_json_schema(text: &str) -> Result<(), Problem> {
    parse_json_schema(text).map(drop)
}

/// Refuses a request for a reason.
pub(super) fn refuse(reason: ChatReason) -> Result<(), Problem> {
    Err(Problem::new(ProblemCode::BadRequest, reason))
}

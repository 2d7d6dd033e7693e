//! The JSON schema of an answer.

use serde_json::{Map, Value};

/// Most bytes of [`GenerateRequest::json_schema`](crate::GenerateRequest::json_schema).
pub const MAX_JSON_SCHEMA_BYTES: usize = 64 << 10;

/// Parses the text of a schema. Whether its keywords are supported shows when it is used.
///
/// # Errors
/// It is too long or no JSON object; why, in sentences.
pub fn parse_json_schema(text: &str) -> Result<Map<String, Value>, String> {
    if text.len() > MAX_JSON_SCHEMA_BYTES {
        return Err(format!(
            "The JSON schema has {} bytes, but may have at most {MAX_JSON_SCHEMA_BYTES}. Shorten it.",
            text.len()
        ));
    }
    let object = "It must be a JSON object, such as {\"type\": \"object\"}.";
    match serde_json::from_str(text) {
        Ok(Value::Object(schema)) => Ok(schema),
        Ok(_) => Err(format!("The JSON schema is not a JSON object. {object}")),
        Err(error) => Err(format!("The JSON schema is not valid JSON: {error}. {object}")),
    }
}

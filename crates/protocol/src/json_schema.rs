//! The JSON schema of an answer.

use crate::{Problem, ProblemCode, RequestReason};
use serde_json::{Map, Value};

/// Maximum bytes of [`GenerateRequest::json_schema`](crate::GenerateRequest::json_schema).
pub const MAX_JSON_SCHEMA_BYTES: usize = 64 << 10;

/// Parses the text of a schema. Its keywords are checked when it is used.
///
/// # Errors
/// It is too long or not a JSON object.
pub fn parse_json_schema(text: &str) -> Result<Map<String, Value>, Problem> {
    let refuse = |reason: RequestReason| Err(Problem::new(ProblemCode::BadRequest, reason));
    if text.len() > MAX_JSON_SCHEMA_BYTES {
        return refuse(RequestReason::SchemaTooLong {
            length: u32::try_from(text.len()).unwrap_or(u32::MAX),
            most: MAX_JSON_SCHEMA_BYTES as u32,
        });
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(schema)) => Ok(schema),
        Ok(_) => refuse(RequestReason::SchemaNotAnObject),
        Err(error) => refuse(RequestReason::SchemaNotJson {
            detail: error.to_string(),
        }),
    }
}

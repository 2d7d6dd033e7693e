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

/// Keywords of an object. Without a `type`, a schema with them also allows every other value.
const OF_OBJECTS: [&str; 2] = ["properties", "required"];
/// Keywords that choose the type of a value.
const CHOOSE_TYPE: [&str; 7] = ["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"];

/// Adds `"type": "object"` to a schema and its subschemas with `properties` or `required` that do
/// not choose a type, as llama.cpp and OpenAI read them. Returns whether there is one.
pub fn assume_objects(schema: &mut Map<String, Value>) -> bool {
    assume(schema, false)
}

/// [`assume_objects`] for a schema that may be an alternative or a part of one with a `type`, which
/// then applies to it. The `type` of a part of `allOf` applies to the other parts, too.
fn assume(schema: &mut Map<String, Value>, has_type: bool) -> bool {
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| schema.contains_key(*keyword));
    let mut is_assumed = !has_type && has(&OF_OBJECTS) && !has(&CHOOSE_TYPE);
    if is_assumed {
        schema.insert("type".to_owned(), Value::from("object"));
    }
    let has_type = has_type || schema.contains_key("type");
    for (keyword, value) in schema {
        let is_same_value = matches!(keyword.as_str(), "anyOf" | "oneOf" | "allOf");
        let mut subschemas = subschemas(keyword, value);
        let has_typed_part = keyword == "allOf" && subschemas.iter().any(|part| part.contains_key("type"));
        let has_type = has_typed_part || (has_type && is_same_value);
        for subschema in &mut subschemas {
            is_assumed |= assume(subschema, has_type);
        }
    }
    is_assumed
}

/// The subschemas in the value of a keyword.
fn subschemas<'a>(keyword: &str, value: &'a mut Value) -> Vec<&'a mut Map<String, Value>> {
    let values: Vec<&mut Value> = match (keyword, value) {
        ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(map)) => {
            map.values_mut().collect()
        }
        ("anyOf" | "oneOf" | "allOf" | "items" | "prefixItems", Value::Array(list)) => list.iter_mut().collect(),
        ("items" | "additionalItems" | "additionalProperties", value) => vec![value],
        _ => Vec::new(),
    };
    values.into_iter().filter_map(Value::as_object_mut).collect()
}

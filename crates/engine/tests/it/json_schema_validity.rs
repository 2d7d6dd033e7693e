//! Tests answers that follow a JSON schema with an independent validator. The model is random, so
//! that only the mask can make an answer valid.

use crate::common::*;
use hearth_protocol::{FinishReason, GenerateRequest, LogitBias, Request, SamplingParams};
use serde_json::Value;

/// Schemas whose answers have an end: only numbers have no limit.
const SCHEMAS: [&str; 30] = [
    r#"{"type": "integer"}"#,
    r#"{"type": "number"}"#,
    r#"{"type": "integer", "minimum": 0}"#,
    r#"{"type": "integer", "maximum": -5}"#,
    r#"{"type": "integer", "minimum": 1000000000000}"#,
    r#"{"type": "integer", "exclusiveMinimum": -4, "exclusiveMaximum": 4}"#,
    r#"{"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 1000}"#,
    r#"{"type": "number", "minimum": 0}"#,
    r#"{"type": "number", "exclusiveMinimum": 0}"#,
    r#"{"type": "number", "maximum": -2.5}"#,
    r#"{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}"#,
    r#"{"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 100}"#,
    r#"{"type": ["integer", "null", "boolean"]}"#,
    r#"{"type": ["number", "string"], "maxLength": 3}"#,
    r#"{"type": "string", "minLength": 2, "maxLength": 5}"#,
    r#"{"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}$"}"#,
    r#"{"type": "string", "format": "date"}"#,
    r#"{"enum": ["red", "green", 7, 0.5, null, [1, 2], {"a": true}]}"#,
    r#"{"const": {"a": [1, -2.5, "x"]}}"#,
    r#"{"anyOf": [{"type": "number"}, {"const": "none"}]}"#,
    r#"{"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]}"#,
    r#"{"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 12}]}"#,
    r#"{"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3}"#,
    r#"{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": false, "minItems": 2}"#,
    r#"{"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false}"#,
    r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 4}, "tags": {"type": "array",
        "items": {"enum": ["x", "y"]}, "maxItems": 2}}, "required": ["name", "tags"], "additionalProperties": false}"#,
    r#"{"type": "object", "properties": {"at": {"type": "object", "properties": {"x": {"type": "number"}},
        "required": ["x"], "additionalProperties": false}}, "required": ["at"], "additionalProperties": false}"#,
    r##"{"$ref": "#/$defs/pair", "$defs": {"pair": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}},
        "required": ["a"], "additionalProperties": false}, "n": {"type": "integer"}}}"##,
    r#"{"type": "object", "properties": {}, "patternProperties": {"^[ab]$": {"type": "integer"}},
        "additionalProperties": false, "maxProperties": 2}"#,
    r#"{"properties": {"age": {"type": "integer"}}, "required": ["age"], "additionalProperties": false}"#,
];
const SEEDS: u64 = 20;

/// A request for an answer. Every other one has biases toward the characters of numbers, so that
/// it reaches their limits.
fn request(schema: &str, seed: u64) -> GenerateRequest {
    let preferred = ["", "1234567890", "", "1234567890.", "", "1234567890.e"][(seed % 6) as usize];
    let logit_bias = preferred.chars().map(|character| LogitBias::Text {
        text: character.to_string(),
        bias: Some(20.0),
    });
    GenerateRequest {
        json_schema: Some(schema.to_owned()),
        sampling: SamplingParams {
            temperature: 1.5,
            top_k: 0,
            seed: Some(seed),
            logit_bias: logit_bias.collect(),
            ..SamplingParams::default()
        },
        ..generate(raw("Once upon a time"), 900)
    }
}

/// The numbers in the text of a JSON value. Those in its strings are short here.
fn numbers(json: &str) -> impl Iterator<Item = &str> {
    json.split(|character: char| !character.is_ascii_digit() && !"+-.eE".contains(character))
        .filter(|part| part.starts_with(|first: char| first == '-' || first.is_ascii_digit()))
}

/// Whether a number is within the limits: an integer of 64 bits, or 17 digits with an exponent of
/// three.
fn is_limited(number: &str) -> bool {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, ""));
    let digits = digits.trim_start_matches('-').trim_start_matches("0.").replace('.', "");
    let is_short = digits.len() <= 17 && exponent.trim_start_matches(['+', '-']).len() <= 3;
    is_short || number.parse::<i64>().is_ok()
}

#[test]
fn every_answer_is_valid_for_an_independent_validator() {
    let mut worker = Worker::load_llama(1024);
    let mut longest = 0;
    for text_of_schema in SCHEMAS {
        let schema: Value = serde_json::from_str(text_of_schema).expect("JSON");
        let mut compiler = boon::Compiler::new();
        compiler.enable_format_assertions();
        compiler.add_resource("schema.json", schema).expect("a resource");
        let mut schemas = boon::Schemas::new();
        let schema = compiler.compile("schema.json", &mut schemas).expect("a schema");
        let send = |seed| worker.send(Request::Generate(request(text_of_schema, seed)));
        let ids: Vec<_> = (0..SEEDS).map(send).collect();
        for id in ids {
            let events = worker.events(id);
            let json = text(&events);
            assert_eq!(
                summary(&events).finish_reason,
                FinishReason::Stop,
                "{text_of_schema}: {json}"
            );
            let value: Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json:?}: {error}"));
            if let Err(error) = schemas.validate(&value, schema) {
                panic!("{text_of_schema}: {json}: {error}");
            }
            for number in numbers(&json) {
                assert!(is_limited(number), "{text_of_schema}: {number}");
                longest = longest.max(number.len());
            }
        }
    }
    assert!(longest >= 19, "no number reached a limit: {longest}");
}

/// The validator divides floats, so it cannot check multiples of 19 digits.
#[test]
fn multiples_end_within_the_limits() {
    let mut worker = Worker::load_llama(1024);
    for divisor in [7, 60, 1000] {
        // Multiples of large numbers have no limit.
        let maximum = if divisor > 100 { r#", "maximum": 1000000"# } else { "" };
        let schema = format!(r#"{{"type": "integer", "minimum": 1, "multipleOf": {divisor}{maximum}}}"#);
        for seed in 0..6 {
            let events = worker.answer(request(&schema, seed));
            let json = text(&events);
            assert_eq!(summary(&events).finish_reason, FinishReason::Stop, "{schema}: {json}");
            let value: i64 = json.parse().unwrap_or_else(|error| panic!("{schema}: {json}: {error}"));
            assert_eq!(value % divisor, 0, "{schema}: {json}");
        }
    }
}

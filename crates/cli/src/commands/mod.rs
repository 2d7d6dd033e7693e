//! The commands, one per file.

pub mod bench;
pub mod chat;
pub mod devices;
pub mod doctor;
pub mod export;
mod gradients;
pub mod list;
pub mod perplexity;
pub mod plan;
pub mod probe;
pub mod pull;
pub mod run;
pub mod tokenize;
pub mod train;
pub mod worker;

use crate::failure::Failure;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;

/// Prints one object as the last line.
fn print_json(object: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(object).map_err(Failure::new)?;
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// Prints a protocol type as the last line, with the command line's `snake_case` keys.
fn print_protocol(object: &impl Serialize) -> Result<(), Failure> {
    print_json(&with_snake_case_keys(
        serde_json::to_value(object).map_err(Failure::new)?,
    ))
}

/// Renames the `camelCase` keys of the protocol to `snake_case`. Values are unchanged.
fn with_snake_case_keys(json: Value) -> Value {
    match json {
        Value::Array(list) => list.into_iter().map(with_snake_case_keys).collect(),
        Value::Object(object) => {
            let entry = |(key, value): (String, Value)| (snake_case(&key), with_snake_case_keys(value));
            object.into_iter().map(entry).collect()
        }
        other => other,
    }
}

/// Converts `memoryTotal` to `memory_total`.
fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Peak resident memory of this process in MiB.
fn peak_rss_mb() -> Option<f64> {
    hearth_engine::memory::peak().map(|bytes| bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_of_the_protocol_become_snake_case_and_values_stay() {
        let wire =
            json!({"memoryTotal": 1, "backends": [{"check": {"bytesPerSecond": 2.0}}], "kind": "notThis", "id": null});
        let printed = json!({
            "memory_total": 1, "backends": [{"check": {"bytes_per_second": 2.0}}], "kind": "notThis", "id": null
        });
        assert_eq!(with_snake_case_keys(wire), printed);
    }
}

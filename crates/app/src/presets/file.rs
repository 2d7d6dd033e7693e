//! A preset's file: a JSON object with the version of the format in `hearthPreset`, the name, and
//! the settings that differ from their defaults. The file may be hostile.

use super::name;
use crate::{
    export::unwritable,
    wire::{ChatReason, PresetValues, Problem, ProblemCode},
};
use hearth_formats::durable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
};

/// The version of the format.
const VERSION: u32 = 1;

/// Most bytes of a file.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Most characters that a problem quotes from the file.
const MAX_QUOTED: usize = 40;

/// Fields whose values are objects of optional settings. Their `null`s are not written.
const OBJECT_FIELDS: [&str; 2] = ["sampling", "thinking"];

/// The content of a preset's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PresetFile {
    hearth_preset: u32,
    pub name: String,
    #[serde(flatten)]
    pub values: PresetValues,
}

impl PresetFile {
    pub fn new(name: String, values: PresetValues) -> Self {
        Self {
            hearth_preset: VERSION,
            name,
            values,
        }
    }
}

/// Reads a file.
///
/// # Errors
/// It cannot be read, or is no preset.
pub(super) fn read(path: &Path) -> Result<PresetFile, Problem> {
    let unreadable = |error: std::io::Error| {
        invalid(ChatReason::PresetNotOpened {
            detail: error.to_string(),
        })
    };
    let is_file = std::fs::metadata(path).map_err(unreadable)?.is_file();
    if !is_file {
        return Err(invalid(ChatReason::PresetNotAFile));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<PresetFile, Problem> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(invalid(ChatReason::PresetFileTooLarge { limit: MAX_BYTES }));
    }
    let json: Value = serde_json::from_slice(bytes).map_err(|_| invalid(ChatReason::PresetNotJson))?;
    let no_preset = || invalid(ChatReason::NotAPreset);
    let fields = json.as_object().ok_or_else(no_preset)?;
    match fields.get("hearthPreset").and_then(Value::as_u64) {
        None => return Err(no_preset()),
        Some(version) if version > u64::from(VERSION) => {
            return Err(invalid(ChatReason::PresetNewer));
        }
        Some(_) => {}
    }
    refuse_unknown_fields(fields)?;
    let mut preset: PresetFile = serde_json::from_slice(bytes).map_err(|error| {
        let detail = error.to_string().chars().take(4 * MAX_QUOTED).collect();
        invalid(ChatReason::PresetValue { detail })
    })?;
    preset.name = name::checked(&preset.name)?;
    preset.values.check()?;
    Ok(preset)
}

/// Refuses fields that this version does not know, because the next change would lose them.
fn refuse_unknown_fields(fields: &Map<String, Value>) -> Result<(), Problem> {
    let known = to_value(&PresetFile::new(String::new(), PresetValues::default()));
    let check = |fields: Option<&Map<String, Value>>, known: &Value| {
        let unknown = fields.and_then(|fields| fields.keys().find(|key| known.get(key.as_str()).is_none()));
        match unknown {
            None => Ok(()),
            Some(key) => Err(invalid(ChatReason::PresetField {
                name: key.chars().take(MAX_QUOTED).collect(),
            })),
        }
    };
    check(Some(fields), &known)?;
    for name in OBJECT_FIELDS {
        check(fields.get(name).and_then(Value::as_object), &known[name])?;
    }
    Ok(())
}

/// The problem of a file that is no preset.
pub(super) fn invalid(reason: ChatReason) -> Problem {
    Problem::new(ProblemCode::DataInvalid, reason)
}

/// Writes a file by atomic replacement.
///
/// # Errors
/// A value is out of range, or the file cannot be written.
pub(super) fn write(path: &Path, preset: &PresetFile) -> Result<(), Problem> {
    preset.values.check()?;
    let text = format!("{:#}\n", without_nulls(to_value(preset)));
    if text.len() as u64 > MAX_BYTES {
        let reason = ChatReason::PresetTooLarge {
            limit: MAX_BYTES,
            length: text.len(),
        };
        return Err(Problem::new(ProblemCode::BadRequest, reason));
    }
    durable::write_file(path, |out| out.write_all(text.as_bytes())).map_err(|error| unwritable(path, &error))
}

/// A preset as JSON. It is converted through text, so that an `f32` keeps its short decimal form.
fn to_value(preset: &PresetFile) -> Value {
    let text = serde_json::to_string(preset).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Removes `null`s and empty objects. The `null` of a logit bias stays: it bans a token.
fn without_nulls(mut json: Value) -> Value {
    for name in OBJECT_FIELDS {
        if let Some(object) = json.get_mut(name).and_then(Value::as_object_mut) {
            object.retain(|_, value| !value.is_null());
        }
    }
    if let Some(object) = json.as_object_mut() {
        object.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|object| !object.is_empty()));
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{LogitBias, SamplingOverrides};
    use proptest::prelude::*;

    /// The sentence of the problem of a refused file.
    fn refused(json: &str) -> String {
        let sentence = parse(json.as_bytes()).expect_err(json).to_string();
        assert!(sentence.len() < 300 && sentence.ends_with('.'), "{sentence}");
        sentence
    }

    #[test]
    fn a_file_contains_only_set_values_and_round_trips() {
        let values = PresetValues {
            sampling: SamplingOverrides {
                temperature: Some(0.2),
                dry_breakers: Some(Vec::new()),
                logit_bias: Some(vec![LogitBias::Id { id: 3, bias: None }]),
                ..SamplingOverrides::default()
            },
            ..PresetValues::default()
        };
        let preset = PresetFile::new("A \u{1f600}".to_owned(), values);
        let json = without_nulls(to_value(&preset));
        let expected = serde_json::json!({
            "hearthPreset": 1,
            "name": "A \u{1f600}",
            "sampling": {"temperature": 0.2, "dryBreakers": [], "logitBias": [{"id": 3, "bias": null}]},
        });
        assert_eq!(json, expected);
        assert_eq!(parse(json.to_string().as_bytes()), Ok(preset));
    }

    /// A file with every kind of value.
    const FULL_FILE: &str = r#"{"hearthPreset":1,"name":"x","systemPrompt":"y","sampling":{"temperature":0.2,"topK":3,
        "mirostat":true,"dryBreakers":["\n"],"logitBias":[{"text":"a","bias":-1.5},{"id":3,"bias":null}],"seed":7},
        "maxTokens":9,"stop":["z"],"thinking":{"enabled":true,"effort":"high"}}"#;

    proptest! {
        #[test]
        fn presets_from_corrupt_files_round_trip(
            changes in prop::collection::vec((0..FULL_FILE.len(), any::<u8>()), 0..4),
            length in 0..FULL_FILE.len() + 200,
        ) {
            let mut bytes = FULL_FILE.as_bytes().to_vec();
            for (index, byte) in changes {
                bytes[index] = byte;
            }
            bytes.truncate(length);
            if let Ok(preset) = parse(&bytes) {
                let written = without_nulls(to_value(&preset)).to_string();
                prop_assert_eq!(parse(written.as_bytes()), Ok(preset));
            }
        }
    }

    #[test]
    fn a_file_with_every_kind_of_value_is_read() {
        let preset = parse(FULL_FILE.as_bytes()).expect("a preset");
        assert_eq!(
            (preset.values.max_tokens, preset.values.sampling.seed),
            (Some(9), Some(7))
        );
    }

    #[test]
    fn a_hostile_file_is_refused_with_a_sentence() {
        assert!(refused("[]").contains("hearthPreset"));
        assert!(refused("{\"name\": \"x\"}").contains("hearthPreset"));
        assert!(refused("not json").contains("JSON"));
        assert!(refused(&"[".repeat(100_000)).contains("JSON"));
        assert!(refused("{\"hearthPreset\": 2, \"name\": \"x\"}").contains("newer"));
        let with_field = |rest: &str| refused(&format!("{{\"hearthPreset\": 1, \"name\": \"x\", {rest}}}"));
        assert!(with_field("\"color\": 1").contains("“color”"));
        assert!(with_field(&format!("\"{}\": 1", "k".repeat(9000))).contains("“kkkk"));
        assert!(with_field("\"sampling\": {\"top_q\": 1}").contains("“top_q”"));
        assert!(with_field("\"sampling\": {\"topP\": 7}").contains("top-p"));
        assert!(with_field("\"sampling\": {\"topP\": \"7\"}").contains("wrong kind"));
        assert!(with_field("\"maxTokens\": 0").contains("length limit"));
        assert!(with_field(&format!("\"systemPrompt\": \"{}\"", "x".repeat(70_000))).contains("system prompt"));
        assert!(refused("{\"hearthPreset\": 1}").contains("name"));
        assert!(refused(&format!("{{\"hearthPreset\": 1, \"name\": \"{}\"}}", "x".repeat(300))).contains("not 300"));
        let large = format!(
            "{{\"hearthPreset\": 1, \"name\": \"{}\"}}",
            "x".repeat(MAX_BYTES as usize)
        );
        assert!(refused(&large).contains("bytes"));
    }
}

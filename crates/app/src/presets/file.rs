//! A preset's file: a JSON object with the version of the format in `hearthPreset`, the name, and
//! the settings that differ from their defaults. Anybody may have written it.

use super::name;
use crate::{
    export::unwritable,
    wire::{PresetValues, Problem, ProblemCode},
};
use hearth_formats::durable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
};

/// The version that is written.
const VERSION: u32 = 1;

/// Most bytes of a file.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Most characters of a word of the file in a sentence.
const MAX_QUOTED: usize = 40;

/// The objects whose `null`s are left out of a file.
const OBJECTS: [&str; 2] = ["sampling", "thinking"];

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
/// Why it is no preset, as a sentence.
pub(super) fn read(path: &Path) -> Result<PresetFile, String> {
    let unreadable = |error: std::io::Error| format!("It cannot be opened: {error}.");
    let is_file = std::fs::metadata(path).map_err(unreadable)?.is_file();
    if !is_file {
        return Err("It is not a file.".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<PresetFile, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("It has more than {MAX_BYTES} bytes."));
    }
    let json: Value = serde_json::from_slice(bytes).map_err(|_| "It is not JSON.".to_owned())?;
    let none = || "It is not a preset of Hearth: it has no “hearthPreset”.".to_owned();
    let given = json.as_object().ok_or_else(none)?;
    match given.get("hearthPreset").and_then(Value::as_u64) {
        None => return Err(none()),
        Some(version) if version > u64::from(VERSION) => {
            return Err("It was written by a newer Hearth. Install that one to read it.".to_owned());
        }
        Some(_) => {}
    }
    refuse_unknown(given)?;
    let mut preset: PresetFile = serde_json::from_slice(bytes).map_err(|error| {
        let why: String = error.to_string().chars().take(4 * MAX_QUOTED).collect();
        format!("A value in it is of the wrong kind: {why}.")
    })?;
    preset.name = name::checked(&preset.name).map_err(|problem| problem.message)?;
    preset.values.check().map_err(|problem| problem.message)?;
    Ok(preset)
}

/// Refuses a field that this version does not know: it would be lost at the next change.
fn refuse_unknown(given: &Map<String, Value>) -> Result<(), String> {
    let known = to_value(&PresetFile::new(String::new(), PresetValues::default()));
    let check = |given: Option<&Map<String, Value>>, known: &Value| {
        let unknown = given.and_then(|given| given.keys().find(|key| known.get(key.as_str()).is_none()));
        match unknown {
            None => Ok(()),
            Some(key) => Err(format!(
                "Its field “{}” is none that this Hearth knows. Remove it, or update Hearth.",
                key.chars().take(MAX_QUOTED).collect::<String>()
            )),
        }
    };
    check(Some(given), &known)?;
    for name in OBJECTS {
        check(given.get(name).and_then(Value::as_object), &known[name])?;
    }
    Ok(())
}

/// Writes a file, which is replaced atomically.
///
/// # Errors
/// A value is out of range, or the file cannot be written.
pub(super) fn write(path: &Path, preset: &PresetFile) -> Result<(), Problem> {
    preset.values.check()?;
    let text = format!("{:#}\n", without_nulls(to_value(preset)));
    if text.len() as u64 > MAX_BYTES {
        return Err(Problem {
            code: ProblemCode::BadRequest,
            message: format!("A preset has at most {MAX_BYTES} bytes, not {}.", text.len()),
        });
    }
    durable::write_file(path, |out| out.write_all(text.as_bytes())).map_err(|error| unwritable(path, &error))
}

/// The JSON, through text: a float of 32 bits as a value would get the digits of 64.
fn to_value(preset: &PresetFile) -> Value {
    let text = serde_json::to_string(preset).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Removes what is not set. A bias that is `null` stays: it bans a token.
fn without_nulls(mut json: Value) -> Value {
    for name in OBJECTS {
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

    fn refused(json: &str) -> String {
        let why = parse(json.as_bytes()).expect_err(json);
        assert!(why.len() < 300 && why.ends_with('.'), "{why}");
        why
    }

    #[test]
    fn a_file_has_what_is_set_and_is_read_back() {
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
    const WHOLE: &str = r#"{"hearthPreset":1,"name":"x","systemPrompt":"y","sampling":{"temperature":0.2,"topK":3,
        "mirostat":true,"dryBreakers":["\n"],"logitBias":[{"text":"a","bias":-1.5},{"id":3,"bias":null}],"seed":7},
        "maxTokens":9,"stop":["z"],"thinking":{"enabled":true,"effort":"high"}}"#;

    proptest! {
        #[test]
        fn what_is_read_from_any_bytes_is_written_and_read_again(
            changes in prop::collection::vec((0..WHOLE.len(), any::<u8>()), 0..4),
            cut in 0..WHOLE.len() + 200,
        ) {
            let mut bytes = WHOLE.as_bytes().to_vec();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            bytes.truncate(cut);
            if let Ok(preset) = parse(&bytes) {
                let written = without_nulls(to_value(&preset)).to_string();
                prop_assert_eq!(parse(written.as_bytes()), Ok(preset));
            }
        }
    }

    #[test]
    fn a_whole_file_is_read() {
        let preset = parse(WHOLE.as_bytes()).expect("a preset");
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
        let with = |rest: &str| refused(&format!("{{\"hearthPreset\": 1, \"name\": \"x\", {rest}}}"));
        assert!(with("\"color\": 1").contains("“color”"));
        assert!(with(&format!("\"{}\": 1", "k".repeat(9000))).contains("“kkkk"));
        assert!(with("\"sampling\": {\"top_q\": 1}").contains("“top_q”"));
        assert!(with("\"sampling\": {\"topP\": 7}").contains("top-p"));
        assert!(with("\"sampling\": {\"topP\": \"7\"}").contains("wrong kind"));
        assert!(with("\"maxTokens\": 0").contains("length limit"));
        assert!(with(&format!("\"systemPrompt\": \"{}\"", "x".repeat(70_000))).contains("system prompt"));
        assert!(refused("{\"hearthPreset\": 1}").contains("name"));
        assert!(refused(&format!("{{\"hearthPreset\": 1, \"name\": \"{}\"}}", "x".repeat(300))).contains("not 300"));
        let large = format!(
            "{{\"hearthPreset\": 1, \"name\": \"{}\"}}",
            "x".repeat(MAX_BYTES as usize)
        );
        assert!(refused(&large).contains("bytes"));
    }
}

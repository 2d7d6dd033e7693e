//! Settings in the store.

use crate::{store::setting, wire::Settings};
use rusqlite::Connection;
use serde_json::Value;

/// Old keys of renamed settings, each after its present key.
const OLD_KEYS: [(&str, &str); 1] = [("promptCacheLimit", "keptBytes")];

/// Reads the value of a key, or of its old key.
fn value(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    let old_key = OLD_KEYS.iter().find(|(present, _)| *present == key);
    match (setting::get(connection, key)?, old_key) {
        (None, Some((_, old))) => setting::get(connection, old),
        (value, _) => Ok(value),
    }
}

/// Reads one row per field, so that an older Hearth leaves unknown settings alone. A value that
/// cannot be parsed counts as unset.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Settings> {
    let mut settings = Settings::default();
    let Ok(Value::Object(fields)) = serde_json::to_value(&settings) else {
        return Ok(settings);
    };
    for key in fields.keys() {
        let Some(text) = value(connection, key)? else {
            continue;
        };
        let with = serde_json::from_str::<Value>(&text).and_then(|value| {
            let mut whole = serde_json::to_value(&settings)?;
            whole[key] = value;
            serde_json::from_value(whole)
        });
        match with {
            Ok(with) => settings = with,
            Err(error) => tracing::warn!(key, %error, "a setting cannot be parsed"),
        }
    }
    Ok(settings)
}

/// Writes one row per field.
pub(crate) fn save(connection: &Connection, settings: &Settings) -> rusqlite::Result<()> {
    let fields =
        serde_json::to_value(settings).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let Value::Object(fields) = fields else { return Ok(()) };
    for (key, value) in fields {
        setting::set(connection, &key, &value.to_string())?;
    }
    Ok(())
}

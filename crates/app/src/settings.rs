//! Settings in the store.

use crate::{store::setting, wire::Settings};
use rusqlite::Connection;
use serde_json::Value;

/// The current and the old key of each renamed setting.
const OLD_KEYS: [(&str, &str); 1] = [("promptCacheLimit", "keptBytes")];

/// Reads the value of a key, or of its old key.
fn value(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    let old_key = OLD_KEYS.iter().find(|(current, _)| *current == key);
    match (setting::get(connection, key)?, old_key) {
        (None, Some((_, old))) => setting::get(connection, old),
        (value, _) => Ok(value),
    }
}

/// Reads the settings: one row per field, so that an older Hearth keeps settings that it does not
/// know. A value that cannot be parsed counts as unset.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Settings> {
    let mut settings = Settings::default();
    let Ok(Value::Object(fields)) = serde_json::to_value(&settings) else {
        return Ok(settings);
    };
    for key in fields.keys() {
        let Some(text) = value(connection, key)? else {
            continue;
        };
        let updated = serde_json::from_str::<Value>(&text).and_then(|value| {
            let mut fields = serde_json::to_value(&settings)?;
            fields[key] = value;
            serde_json::from_value(fields)
        });
        match updated {
            Ok(updated) => settings = updated,
            Err(error) => tracing::warn!(key, %error, "a setting cannot be parsed"),
        }
    }
    Ok(settings)
}

/// Writes the settings, one row per field.
pub(crate) fn save(connection: &Connection, settings: &Settings) -> rusqlite::Result<()> {
    let fields =
        serde_json::to_value(settings).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let Value::Object(fields) = fields else { return Ok(()) };
    for (key, value) in fields {
        setting::set(connection, &key, &value.to_string())?;
    }
    Ok(())
}

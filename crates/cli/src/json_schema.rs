//! The JSON schema for answers, from the command line.

use crate::args::SchemaArgs;
use crate::failure::Failure;
use crate::say;
use hearth_protocol::{MAX_JSON_SCHEMA_BYTES, assume_objects, parse_json_schema};
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The text of the requested schema. The engine validates it. A type that the engine assumes is
/// reported on standard error.
///
/// # Errors
/// The file cannot be read, is too long or is not UTF-8.
pub fn schema(args: &SchemaArgs) -> Result<Option<String>, Failure> {
    let text = match &args.json_schema_file {
        Some(path) => Some(read(path)?),
        None => args.json_schema.clone(),
    };
    let parsed = text.as_deref().and_then(|text| parse_json_schema(text).ok());
    if parsed.is_some_and(|mut schema| assume_objects(&mut schema)) {
        say!(
            "note: the JSON schema has \"properties\" or \"required\" without a \"type\", so it is read with \
             \"type\": \"object\"."
        );
    }
    Ok(text)
}

fn read(path: &Path) -> Result<String, Failure> {
    let failure =
        |reason: &dyn Display| Failure::new(format!("The JSON schema {} cannot be read: {reason}.", path.display()));
    let file = File::open(path).map_err(|error| failure(&error))?;
    let mut bytes = Vec::new();
    let limit = MAX_JSON_SCHEMA_BYTES as u64 + 1;
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| failure(&error))?;
    if bytes.len() > MAX_JSON_SCHEMA_BYTES {
        return Err(failure(&format!("it has more than {MAX_JSON_SCHEMA_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| failure(&"it is not UTF-8 text"))
}

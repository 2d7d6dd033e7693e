//! The JSON schema for answers, from the command line.

use crate::args::SchemaArgs;
use crate::failure::Failure;
use hearth_protocol::MAX_JSON_SCHEMA_BYTES;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The text of the requested schema. The engine validates it.
///
/// # Errors
/// The file cannot be read, is too long or is not UTF-8.
pub fn schema(args: &SchemaArgs) -> Result<Option<String>, Failure> {
    match &args.json_schema_file {
        Some(path) => read(path).map(Some),
        None => Ok(args.json_schema.clone()),
    }
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

//! The JSON schema of answers, from the command line.

use crate::args::SchemaArgs;
use crate::failure::Failure;
use hearth_protocol::MAX_JSON_SCHEMA_BYTES;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The schema as text, which the engine checks.
///
/// # Errors
/// The file cannot be read, is too long or is no UTF-8.
pub fn schema(args: &SchemaArgs) -> Result<Option<String>, Failure> {
    match &args.json_schema_file {
        Some(path) => read(path).map(Some),
        None => Ok(args.json_schema.clone()),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |why: &dyn Display| Failure::new(format!("The JSON schema {} cannot be read: {why}.", path.display()));
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    let limit = MAX_JSON_SCHEMA_BYTES as u64 + 1;
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error))?;
    if bytes.len() > MAX_JSON_SCHEMA_BYTES {
        return Err(failed(&format!("it has more than {MAX_JSON_SCHEMA_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| failed(&"it is not UTF-8 text"))
}

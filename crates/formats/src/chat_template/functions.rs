//! What chat templates call beyond plain Jinja, as Hugging Face's transformers provides it.

use super::json;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value};

/// What a template said when it raised an exception; found as the source of minijinja's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub String);

/// Adds the functions and filters.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", to_json);
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// The local time in a format of C's `strftime`.
fn strftime_now(format: String) -> Result<String, Error> {
    jiff::fmt::strtime::format(&format, &jiff::Zoned::now()).map_err(|error| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("strftime_now('{format}'): {error}"),
        )
    })
}

fn to_json(value: Value, options: Kwargs) -> Result<Value, Error> {
    // Texts are never escaped to ASCII, which is also what templates ask for.
    options.get::<Option<bool>>("ensure_ascii")?;
    let indent: Option<usize> = options.get("indent")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    json::write(&value, indent, sort_keys.unwrap_or(false)).map(Value::from_safe_string)
}

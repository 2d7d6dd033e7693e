//! Jinja 2 for chat templates: minijinja with the extensions of Hugging Face's transformers, and
//! with the semantics of the Python library wherever a template could observe a difference.
//!
//! transformers renders in an `ImmutableSandboxedEnvironment` with `trim_blocks`, `lstrip_blocks`,
//! `loopcontrols`, the tag `generation`, `tojson` without HTML escapes, `raise_exception` and
//! `strftime_now`. `tests/fixtures/templates` has its output for several thousand expressions and
//! for real templates, and lists the few remaining differences.

mod arguments;
pub(super) mod budget;
pub(super) mod build;
mod containers;
mod filters;
mod functions;
mod methods;
mod operators;
mod size;
mod slice;
mod source;
mod strftime;
mod striptags;
mod tests;
pub(super) mod text;

pub(super) use source::{Rewritten, rewrite};

use super::json;
use arguments::Arguments;
use jiff::Zoned;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value};

/// The message of `raise_exception`. It is the source of minijinja's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub String);

/// Prints a value with the current auto-escape mode.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let text = match state.auto_escape() {
        AutoEscape::Html if !value.is_safe() => text::str(&filters::escaped(&text::str(value))),
        AutoEscape::None | AutoEscape::Html => text::str(value),
        _ => return Err(arguments::fail("only HTML can be escaped")),
    };
    budget::check()?;
    out.write_str(&text).map_err(Error::from)
}

/// An environment for sources returned by [`rewrite`].
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    // In debug mode errors contain copies of all values.
    environment.set_debug(false);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_formatter(print);
    environment.set_unknown_method_callback(methods::call);
    tests::add(&mut environment);
    filters::add(&mut environment);
    operators::add(&mut environment);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("dict", operators::dict);
    environment.add_function("namespace", operators::namespace);
    environment.add_function("cycler", functions::cycler);
    environment.add_function("joiner", functions::joiner);
    environment.remove_global("debug");
    set_clock(&mut environment, Zoned::now);
    Ok(environment)
}

/// Sets the clock of `strftime_now`.
pub(super) fn set_clock(environment: &mut Environment<'_>, now: impl Fn() -> Zoned + Send + Sync + 'static) {
    environment.add_function("strftime_now", move |arguments: Rest<ValueOrKwargs>| {
        let arguments = Arguments::new(arguments.into_values())?;
        let format = arguments.text(0, "format")?;
        arguments.done(1)?;
        budget::charge_work(64 * budget::length(&format));
        budget::check()?;
        Ok::<_, Error>(strftime::strftime(&format, &now()))
    });
}

fn raise_exception(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let message = text::str(&Arguments::new(arguments.into_values())?.required(0, "message")?);
    let message = truncated(&message);
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// Truncates a message, which a template can make arbitrarily long.
pub(super) fn truncated(text: &str) -> String {
    const MAX_CHARACTERS: usize = 1000;
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// Python's `json.dumps`.
fn to_json(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let (value, arguments) = Arguments::of_filter(arguments)?;
    let layout = json::Layout {
        ascii: arguments.flag(0, "ensure_ascii")?.unwrap_or(false),
        indent: indent(&arguments)?,
        separators: separators(&arguments)?,
        sort_keys: arguments.flag(3, "sort_keys")?.unwrap_or(false),
    };
    arguments.done(4)?;
    let bytes = size::charge_deep(&value)?;
    budget::charge_work(if layout.sort_keys { bytes.saturating_mul(32) } else { 0 });
    let json = json::write(&value, layout)?;
    budget::charge(budget::length(&json))?;
    Ok(Value::from(json))
}

fn indent(arguments: &Arguments) -> Result<Option<String>, Error> {
    let Some(indent) = arguments.get(1, "indent")?.filter(|indent| !indent.is_none()) else {
        return Ok(None);
    };
    Ok(Some(match indent.as_str() {
        Some(text) => {
            budget::charge(budget::length(text))?;
            text.to_owned()
        }
        None => " ".repeat(
            usize::try_from(i64::try_from(indent)?)
                .unwrap_or(0)
                .min(json::MAX_INDENT),
        ),
    }))
}

fn separators(arguments: &Arguments) -> Result<Option<(String, String)>, Error> {
    let Some(separators) = arguments
        .get(2, "separators")?
        .filter(|separators| !separators.is_none())
    else {
        return Ok(None);
    };
    let separators: Vec<String> = separators
        .try_iter()?
        .take(3)
        .map(|separator| text::str(&separator))
        .collect();
    match <[String; 2]>::try_from(separators) {
        Ok([item_separator, key_separator]) => Ok(Some((item_separator, key_separator))),
        Err(_) => Err(arguments::fail("tojson: `separators` must be two strings")),
    }
}

//! Jinja 2 as chat templates know it: minijinja, with what Hugging Face's transformers adds, and made to do what the Python
//! library does wherever the two differ and a template could tell.
//!
//! transformers renders in an `ImmutableSandboxedEnvironment` with `trim_blocks`, `lstrip_blocks`, `loopcontrols`, a tag for the
//! model's own text, `tojson` without escapes for HTML, `raise_exception` and `strftime_now`. `tests/fixtures/templates` holds what it
//! renders for some thousand expressions and for real templates, and the few differences that are left.

mod arguments;
mod filters;
mod methods;
mod slice;
mod source;
mod strftime;
mod striptags;
mod tests;
pub(super) mod text;
mod views;

pub(super) use source::adapt;

use super::json;
use arguments::Arguments;
use jiff::Zoned;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value, escape_formatter};

/// What a template said when it raised an exception; found as the source of minijinja's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub String);

/// An environment for sources that [`adapt`] has gone over.
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_formatter(|out, state, value| {
        if value.kind() == ValueKind::String || !matches!(state.auto_escape(), AutoEscape::None) {
            return escape_formatter(out, state, value);
        }
        escape_formatter(out, state, &Value::from(text::str(value)))
    });
    environment.set_unknown_method_callback(methods::call);
    tests::add(&mut environment);
    filters::add(&mut environment);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("dict", dict);
    environment.add_function("cycler", minijinja_contrib::globals::cycler);
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    set_clock(&mut environment, Zoned::now);
    Ok(environment)
}

/// Makes `strftime_now` read another clock.
pub(super) fn set_clock(environment: &mut Environment<'_>, now: impl Fn() -> Zoned + Send + Sync + 'static) {
    environment.add_function("strftime_now", move |arguments: Rest<ValueOrKwargs>| {
        let arguments = Arguments::new(arguments.into_values())?;
        let format = arguments.text(0, "format")?;
        arguments.done(1)?;
        Ok::<_, Error>(strftime::strftime(&format, &now()))
    });
}

fn raise_exception(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let message = text::str(&Arguments::new(arguments.into_values())?.need(0, "message")?);
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// A dictionary of another one or of pairs, and of what is named.
fn dict(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    for given in arguments.into_values() {
        if given.kind() == ValueKind::Map {
            pairs.extend(
                given
                    .as_object()
                    .and_then(|object| object.try_iter_pairs())
                    .into_iter()
                    .flatten(),
            );
            continue;
        }
        for pair in given.try_iter()? {
            pairs.push((pair.get_item(&Value::from(0))?, pair.get_item(&Value::from(1))?));
        }
    }
    Ok(Value::from_pairs(pairs))
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
    json::write(&value, layout).map(Value::from)
}

fn indent(arguments: &Arguments) -> Result<Option<String>, Error> {
    let Some(indent) = arguments.get(1, "indent")?.filter(|indent| !indent.is_none()) else {
        return Ok(None);
    };
    Ok(Some(match indent.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(usize::try_from(i64::try_from(indent)?).unwrap_or(0).min(json::WIDEST)),
    }))
}

fn separators(arguments: &Arguments) -> Result<Option<(String, String)>, Error> {
    let Some(both) = arguments.get(2, "separators")?.filter(|both| !both.is_none()) else {
        return Ok(None);
    };
    let both: Vec<String> = both.try_iter()?.map(|separator| text::str(&separator)).collect();
    match <[String; 2]>::try_from(both) {
        Ok([items, keys]) => Ok(Some((items, keys))),
        Err(_) => Err(arguments::fail("tojson: `separators` are two texts")),
    }
}

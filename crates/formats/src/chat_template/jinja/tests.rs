//! Tests (`is …`) with the semantics of Jinja 2.

use super::containers::{Generator, View};
use super::text;
use minijinja::value::ValueKind;
use minijinja::{Environment, Value};

/// Adds the tests that minijinja lacks or defines differently.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("mapping", is_mapping);
    environment.add_test("callable", |value: &Value| {
        value.is_undefined() || value.kind() == ValueKind::Plain || text::is_macro(value)
    });
    environment.add_test("even", |value: &Value| remainder(value, 2.0) == Some(0.0));
    environment.add_test("odd", |value: &Value| remainder(value, 2.0) == Some(1.0));
    environment.add_test("lower", |value: &Value| {
        is_cased(&text::str(value), char::is_uppercase, char::is_lowercase)
    });
    environment.add_test("upper", |value: &Value| {
        is_cased(&text::str(value), char::is_lowercase, char::is_uppercase)
    });
}

fn is_mapping(value: &Value) -> bool {
    value.kind() == ValueKind::Map && !text::is_namespace(value) && !text::is_macro(value)
}

/// `none` is not iterable; an undefined value is.
fn is_iterable(value: &Value) -> bool {
    match value.kind() {
        ValueKind::None => false,
        ValueKind::Map => is_mapping(value),
        _ => value.try_iter().is_ok(),
    }
}

/// Whether a value has a length and can be indexed. True for strings and dictionaries, false for
/// views and generators.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq => true,
        ValueKind::Map => is_mapping(value),
        ValueKind::Iterable => {
            value.downcast_object_ref::<View>().is_none() && value.downcast_object_ref::<Generator>().is_none()
        }
        _ => false,
    }
}

fn remainder(value: &Value, divisor: f64) -> Option<f64> {
    let number = match value.kind() {
        ValueKind::Bool => f64::from(u8::from(value.is_true())),
        _ => f64::try_from(value.clone()).ok()?,
    };
    Some(number.rem_euclid(divisor))
}

/// Whether a string has letters of the case that `is_case` tests, and none of the other case.
pub(super) fn is_cased(text: &str, is_other: fn(char) -> bool, is_case: fn(char) -> bool) -> bool {
    text.chars().any(is_case) && !text.chars().any(is_other)
}

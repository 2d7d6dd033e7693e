//! What stands after `is`, as Jinja 2 decides it.

use super::text;
use super::views::{Generator, View};
use minijinja::value::ValueKind;
use minijinja::{Environment, Value};

/// Adds the tests that minijinja decides in another way, or lacks.
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

/// None is not iterable, what is undefined is.
fn is_iterable(value: &Value) -> bool {
    match value.kind() {
        ValueKind::None => false,
        ValueKind::Map => is_mapping(value),
        _ => value.try_iter().is_ok(),
    }
}

/// What has a length and can be indexed: texts and dictionaries too, but neither views nor generators.
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

/// Whether a text has letters of a case and none of the other.
pub(super) fn is_cased(text: &str, other: fn(char) -> bool, wanted: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(other)
}

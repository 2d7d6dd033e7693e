//! Filters that replace operators and literals in a rewritten source. They charge for the values
//! that they create and traverse.

use super::arguments::{Arguments, fail};
use super::budget;
use super::build;
use super::containers::List;
use super::filters::{Filter, escaped, is_string, modulo};
use super::source::names;
use super::{size, text};
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, Value};
use std::borrow::Cow;

/// Maximum initial names of a namespace.
const MAX_NAMES: usize = 256;

/// Adds the filters and functions of rewritten sources.
pub(super) fn add(environment: &mut Environment<'_>) {
    const FILTERS: [(&str, Filter); 20] = [
        (names::ADD, |value, operands| {
            operands
                .positional()
                .iter()
                .try_fold(value.clone(), |sum, next| add_values(&sum, next))
        }),
        (names::CONCATENATE, concatenate),
        (names::MULTIPLY, |value, operands| {
            operands
                .positional()
                .iter()
                .try_fold(value.clone(), |product, next| multiply(&product, next))
        }),
        (names::MODULO, |value, operands| {
            modulo(value, &operands.required(0, "right")?)
        }),
        (names::EQUAL, |value, operands| {
            compare_filter(names::EQUAL, value, operands)
        }),
        (names::NOT_EQUAL, |value, operands| {
            compare_filter(names::NOT_EQUAL, value, operands)
        }),
        (names::LESS, |value, operands| {
            compare_filter(names::LESS, value, operands)
        }),
        (names::LESS_EQUAL, |value, operands| {
            compare_filter(names::LESS_EQUAL, value, operands)
        }),
        (names::GREATER, |value, operands| {
            compare_filter(names::GREATER, value, operands)
        }),
        (names::GREATER_EQUAL, |value, operands| {
            compare_filter(names::GREATER_EQUAL, value, operands)
        }),
        (names::IN, |value, operands| compare_filter(names::IN, value, operands)),
        (names::NOT_IN, |value, operands| {
            compare_filter(names::NOT_IN, value, operands)
        }),
        (names::CHAIN, chain),
        (names::LIST, |value, operands| build::list(all_values(value, operands))),
        (names::TUPLE, |value, operands| {
            build::tuple(all_values(value, operands))
        }),
        (names::DICTIONARY, dictionary),
        (names::NESTED, |value, _| {
            build::check_nestable(value)?;
            Ok(value.clone())
        }),
        (names::TRAVERSE, |value, _| {
            size::charge_deep(value)?;
            budget::charge(budget::charge_scan(value)?.saturating_mul(budget::VALUE_BYTES))?;
            Ok(value.clone())
        }),
        (names::SCAN, |value, _| {
            budget::charge_scan(value)?;
            Ok(value.clone())
        }),
        ("sum", sum),
    ];
    for (name, filter) in FILTERS {
        environment.add_filter(name, move |arguments: Rest<ValueOrKwargs>| {
            budget::check()?;
            let (value, arguments) = Arguments::of_filter(arguments)?;
            filter(&value, &arguments)
        });
    }
    environment.add_function(names::STEP, |bytes: u64| budget::charge_step(bytes));
    const TESTS: [(&str, &[&str]); 7] = [
        (names::EQUAL, &["eq", "equalto", "=="]),
        (names::NOT_EQUAL, &["ne", "!="]),
        (names::LESS, &["lt", "lessthan", "<"]),
        (names::LESS_EQUAL, &["le", "<="]),
        (names::GREATER, &["gt", "greaterthan", ">"]),
        (names::GREATER_EQUAL, &["ge", ">="]),
        (names::IN, &["in"]),
    ];
    for (operator, tests) in TESTS {
        for &test in tests {
            environment.add_test(test, move |value: Value, other: Value| {
                compare(operator, &value, &other)
            });
        }
    }
}

fn all_values(value: &Value, others: &Arguments) -> Vec<Value> {
    let mut values = vec![value.clone()];
    values.extend(others.positional().iter().cloned());
    values
}

fn dictionary(value: &Value, others: &Arguments) -> Result<Value, Error> {
    let values = all_values(value, others);
    let pairs = values.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    build::dictionary(pairs.collect())
}

fn concatenate(value: &Value, operands: &Arguments) -> Result<Value, Error> {
    let parts = std::iter::once(value).chain(operands.positional());
    let parts: Vec<Cow<'_, str>> = parts
        .map(|part| part.as_str().map_or_else(|| Cow::Owned(text::str(part)), Cow::Borrowed))
        .collect();
    budget::concat(&parts)
}

fn unsupported_types(sign: &str, left: &Value, right: &Value) -> Error {
    fail(format!(
        "tried to use {sign} operator on unsupported types {} and {}",
        left.kind(),
        right.kind()
    ))
}

/// A value as an integer. Booleans count as integers.
fn integer(value: &Value) -> Option<i128> {
    let is_float = value.kind() == ValueKind::Number && !value.is_integer();
    i128::try_from(value.clone()).ok().filter(|_| !is_float)
}

fn float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        _ => f64::try_from(value.clone()).ok(),
    }
}

/// The result of an integer operation. `None` means that it overflowed.
fn integer_result(integer: Option<i128>, sign: &str) -> Result<Value, Error> {
    let integer = integer.ok_or_else(|| fail(format!("the result of {sign} is too large")))?;
    Ok(i64::try_from(integer).map_or_else(|_| Value::from(integer), Value::from))
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Python's `+`. A string added to safe text is escaped.
pub(super) fn add_values(left: &Value, right: &Value) -> Result<Value, Error> {
    if is_string(left) && is_string(right) {
        if left.is_safe() || right.is_safe() {
            let part = |value: &Value| {
                if value.is_safe() {
                    text::str(value)
                } else {
                    text::str(&escaped(&text::str(value)))
                }
            };
            return Ok(Value::from_safe_string(part(left) + &part(right)));
        }
        return budget::concat(&[left, right].map(|part| Cow::Borrowed(part.as_str().unwrap_or_default())));
    }
    if is_list(left) && is_list(right) && left.is_tuple() == right.is_tuple() {
        budget::check_bytes(
            (budget::charge_scan(left)? + budget::charge_scan(right)?).saturating_mul(budget::VALUE_BYTES),
        )?;
        let items = left.try_iter()?.chain(right.try_iter()?).collect();
        return if left.is_tuple() {
            build::tuple(items)
        } else {
            build::list(items)
        };
    }
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        return integer_result(left.checked_add(right), "+");
    }
    match (float(left), float(right)) {
        (Some(left), Some(right)) => Ok(Value::from(left + right)),
        _ => Err(unsupported_types("+", left, right)),
    }
}

/// Python's `*`. Strings and lists are repeated; a negative count gives an empty one.
fn multiply(left: &Value, right: &Value) -> Result<Value, Error> {
    let is_repeatable = |value: &Value| is_string(value) || is_list(value);
    let (repeated, times) = if is_repeatable(left) {
        (left, right)
    } else {
        (right, left)
    };
    if is_repeatable(repeated) {
        let times = times.as_i64().filter(|_| times.kind() == ValueKind::Number);
        let times = times.ok_or_else(|| fail("a string or a list can be multiplied by an integer only"))?;
        let times = u64::try_from(times).unwrap_or(0);
        let length = budget::charge_scan(repeated)?;
        if let Some(text) = repeated.as_str() {
            budget::charge(length.saturating_mul(times).saturating_mul(2))?;
            return Ok(Value::from(text.repeat(usize::try_from(times).unwrap_or(0))));
        }
        budget::check_bytes(length.saturating_mul(times).saturating_mul(budget::VALUE_BYTES))?;
        let items: Vec<Value> = repeated.try_iter()?.collect();
        // An empty list is not repeated, since iterating over it is not charged.
        let times = if items.is_empty() {
            0
        } else {
            usize::try_from(times).unwrap_or(0)
        };
        let items = std::iter::repeat_n(items, times).flatten().collect();
        return if repeated.is_tuple() {
            build::tuple(items)
        } else {
            build::list(items)
        };
    }
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        return integer_result(left.checked_mul(right), "*");
    }
    match (float(left), float(right)) {
        (Some(left), Some(right)) => Ok(Value::from(left * right)),
        _ => Err(unsupported_types("*", left, right)),
    }
}

/// The filter `sum`.
fn sum(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let attribute = arguments.get(0, "attribute")?.filter(|attribute| !attribute.is_none());
    let start = arguments.get(1, "start")?.unwrap_or_else(|| Value::from(0));
    arguments.done(2)?;
    value.try_iter()?.try_fold(start, |sum, item| {
        let item = match &attribute {
            Some(path) => super::filters::field(&item, path)?,
            None => item,
        };
        if item.is_undefined() {
            Ok(sum)
        } else {
            add_values(&sum, &item)
        }
    })
}

fn compare_filter(operator: &str, left: &Value, operands: &Arguments) -> Result<Value, Error> {
    Ok(Value::from(compare(operator, left, &operands.required(0, "right")?)?))
}

/// Chained comparisons, all of which must hold. `rest` alternates operators and operands.
fn chain(first: &Value, rest: &Arguments) -> Result<Value, Error> {
    let mut left = first.clone();
    for pair in rest.positional().chunks_exact(2) {
        let (operator, right) = (&pair[0], &pair[1]);
        if !compare(operator.as_str().unwrap_or_default(), &left, right)? {
            return Ok(Value::from(false));
        }
        left = right.clone();
    }
    Ok(Value::from(true))
}

/// Compares two values with minijinja's semantics.
fn compare(operator: &str, left: &Value, right: &Value) -> Result<bool, Error> {
    if left.as_object().is_some() || right.as_object().is_some() {
        size::charge_deep(left)?;
        size::charge_deep(right)?;
    } else {
        let length = |value: &Value| value.as_str().map_or(0, budget::length);
        budget::charge_work(4 + length(left).min(length(right)) / 4);
        budget::check()?;
    }
    Ok(match operator {
        names::EQUAL => left == right,
        names::NOT_EQUAL => left != right,
        names::LESS => left < right,
        names::LESS_EQUAL => left <= right,
        names::GREATER => left > right,
        names::GREATER_EQUAL => left >= right,
        names::IN => contains(right, left)?,
        names::NOT_IN => !contains(right, left)?,
        _ => return Err(fail("unknown comparison")),
    })
}

fn contains(container: &Value, value: &Value) -> Result<bool, Error> {
    if container.is_undefined() {
        return Ok(false);
    }
    if let Some(text) = container.as_str() {
        budget::charge_work(budget::length(text));
        budget::check()?;
        return Ok(match value.as_str() {
            Some(part) => text.contains(part),
            None => text.contains(&text::str(value)),
        });
    }
    match container.kind() {
        ValueKind::Map => {
            let object = container.as_object();
            Ok(object.is_some_and(|object| object.get_value(value).is_some()))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            if let Some(list) = container.downcast_object_ref::<List>() {
                return Ok(list.items().contains(value));
            }
            Ok(container.try_iter()?.any(|item| item == *value))
        }
        ValueKind::Plain => Ok(false),
        _ => Err(fail("cannot perform a containment check on this value")),
    }
}

/// The function `dict`: builds a dictionary from dictionaries, lists of pairs and keyword
/// arguments.
pub(super) fn dict(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    for argument in arguments.into_values() {
        budget::charge(budget::charge_scan(&argument)?.saturating_mul(2 * budget::VALUE_BYTES))?;
        if argument.kind() == ValueKind::Map {
            let object = argument.as_object();
            pairs.extend(object.and_then(|object| object.try_iter_pairs()).into_iter().flatten());
            continue;
        }
        for pair in argument.try_iter()? {
            pairs.push((pair.get_item(&Value::from(0))?, pair.get_item(&Value::from(1))?));
        }
    }
    build::dictionary(pairs)
}

/// The function `namespace`.
pub(super) fn namespace(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    for argument in arguments.into_values() {
        let Some(object) = argument.as_object().filter(|_| argument.kind() == ValueKind::Map) else {
            return Err(fail(format!(
                "namespace: expected a dictionary or keyword arguments, got {}",
                argument.kind()
            )));
        };
        for (key, value) in object.try_iter_pairs().into_iter().flatten() {
            build::check_nestable(&value)?;
            budget::charge(4 * budget::VALUE_BYTES)?;
            if let Some(key) = key.as_str() {
                budget::charge(budget::length(key))?;
                pairs.push((key.to_owned(), value));
            }
        }
    }
    budget::charge(4 * budget::VALUE_BYTES)?;
    // minijinja lists all names of a namespace to check whether it is empty.
    if pairs.len() > MAX_NAMES {
        return Err(fail(format!("a namespace of more than {MAX_NAMES} names")));
    }
    minijinja::functions::namespace(Some(ValueOrKwargs::from(Value::from(Kwargs::from_iter(pairs)))))
}

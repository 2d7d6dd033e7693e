//! The size of a value, including nested values.

use super::budget::{Limit, MAX_DEPTH, Size, VALUE_BYTES, charge_work, check, exceed, is_within, length};
use super::containers::{Cycler, Generator, List, View};
use super::text;
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

/// The size of a value. Hearth's containers cache it; other values are traversed.
pub(crate) fn size(value: &Value) -> Size {
    size_within(value, MAX_DEPTH)
}

fn size_within(value: &Value, max_depth: u32) -> Size {
    if !charge_work(32) {
        return Size::default();
    }
    if let Some(text) = value.as_str() {
        return Size {
            bytes: VALUE_BYTES + length(text),
            depth: 0,
        };
    }
    let Some(object) = value.as_object() else {
        return Size {
            bytes: VALUE_BYTES,
            depth: 0,
        };
    };
    let cached = object.downcast_ref::<List>().map(List::size);
    let cached = cached.or_else(|| object.downcast_ref::<View>().map(View::size));
    let cached = cached.or_else(|| object.downcast_ref::<Generator>().map(Generator::size));
    let cached = cached.or_else(|| object.downcast_ref::<Cycler>().map(Cycler::size));
    if let Some(size) = cached {
        return size;
    }
    let Some(max_depth) = max_depth.checked_sub(1) else {
        exceed(Limit::Depth);
        return Size::default();
    };
    match value.kind() {
        ValueKind::Map if !text::is_macro(value) => {
            let pairs = object.try_iter_pairs().into_iter().flatten();
            let pairs = pairs.take_while(|_| is_within());
            Size::containing(
                pairs.flat_map(|(key, value)| [size_within(&key, max_depth), size_within(&value, max_depth)]),
            )
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items = object.try_iter().into_iter().flatten();
            let items = items.take_while(|_| is_within());
            Size::containing(items.map(|item| size_within(&item, max_depth)))
        }
        _ => Size {
            bytes: VALUE_BYTES,
            depth: 0,
        },
    }
}

/// Charges the work of traversing a value, including nested values. Returns its bytes.
pub(crate) fn charge_deep(value: &Value) -> Result<u64, Error> {
    let bytes = size(value).bytes;
    charge_work(bytes);
    check()?;
    Ok(bytes)
}

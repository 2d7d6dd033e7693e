//! What a template may take: bytes that it makes, work that it causes, and how deep its values nest.
//!
//! minijinja's fuel counts instructions, and one instruction can take any time and memory. So `source` turns every operator and
//! literal into a filter of ours, and filters, methods, tests and functions charge the budget of the thread that renders. A
//! budget that is overstepped stays overstepped: code that cannot fail stops making text, and the next that can fails.
//!
//! Bytes are not given back, but for those of long texts that were added up: real templates put the whole conversation into one
//! text, message by message.

use super::list::{Cycler, List};
use super::text;
use super::views::{Generator, View};
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Bytes that a template may make beside [`BYTES_PER_INPUT`].
const BYTES: u64 = 128 << 20;

/// Bytes that a template may make for each byte of its conversation.
const BYTES_PER_INPUT: u64 = 64;

/// Units of work, each about what it takes to compare four bytes: some seconds in all.
const WORK: u64 = 1 << 33;

/// Units of work for each byte of the conversation.
const WORK_PER_INPUT: u64 = 1 << 13;

/// Bytes from which on a text counts as long.
const LONG: usize = 4 << 10;

/// The last resort against what is not counted. The budget of work ends a template long before.
const LONGEST: Duration = Duration::from_secs(60);

/// The deepest that values may nest: comparing, printing and dropping them recurses.
pub(crate) const DEEPEST: u32 = 200;

/// Bytes of a value in a list, beside its text.
pub(crate) const NODE: u64 = 48;

/// What a template overstepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Overstep {
    #[error("it makes too much text or too many values")]
    Bytes,
    #[error("it takes too long")]
    Work,
    #[error("its values nest too deeply")]
    Depth,
}

thread_local! {
    static BYTES_LEFT: Cell<u64> = const { Cell::new(0) };
    static WORK_LEFT: Cell<u64> = const { Cell::new(0) };
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
    static OVERSTEP: Cell<Option<Overstep>> = const { Cell::new(None) };
    /// The long texts that may be given back, and their bytes.
    static TEXTS: RefCell<Vec<(Weak<str>, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Gives this thread its work and its time, for all that is rendered on it.
pub(crate) fn start() {
    WORK_LEFT.set(WORK);
    END.set(Instant::now().checked_add(LONGEST));
}

/// Begins a rendering on this thread, for a conversation of so many bytes.
pub(crate) fn begin(input: u64) {
    BYTES_LEFT.set(BYTES.saturating_add(input.saturating_mul(BYTES_PER_INPUT)));
    WORK_LEFT.set(WORK_LEFT.get().saturating_add(input.saturating_mul(WORK_PER_INPUT)));
    OVERSTEP.set(None);
    TEXTS.with_borrow_mut(Vec::clear);
}

/// What was overstepped since [`begin`].
pub(crate) fn overstepped() -> Option<Overstep> {
    OVERSTEP.get()
}

/// Notes that the budget is overstepped; the first reason stays.
pub(crate) fn overstep(what: Overstep) {
    if OVERSTEP.get().is_none() {
        OVERSTEP.set(Some(what));
    }
}

/// Whether the budget still holds.
pub(crate) fn holds() -> bool {
    OVERSTEP.get().is_none()
}

/// An error where the budget is overstepped.
pub(crate) fn check() -> Result<(), Error> {
    match OVERSTEP.get() {
        None => Ok(()),
        Some(what) => Err(Error::new(ErrorKind::InvalidOperation, what.to_string()).with_source(what)),
    }
}

/// Charges work; whether the budget holds.
pub(crate) fn work(units: u64) -> bool {
    match WORK_LEFT.get().checked_sub(units) {
        Some(left) => WORK_LEFT.set(left),
        None => overstep(Overstep::Work),
    }
    holds()
}

/// Charges bytes that are made, and the work of making them; whether the budget holds.
pub(crate) fn take(bytes: u64) -> bool {
    if bytes > BYTES_LEFT.get() {
        give_back();
    }
    match BYTES_LEFT.get().checked_sub(bytes) {
        Some(left) => BYTES_LEFT.set(left),
        None => overstep(Overstep::Bytes),
    }
    work(bytes / 4)
}

/// Gives back the bytes of long texts that no value holds any more.
fn give_back() {
    TEXTS.with_borrow_mut(|texts| {
        work(8 * texts.len() as u64);
        texts.retain(|(text, bytes)| {
            let held = text.strong_count() > 0;
            if !held {
                BYTES_LEFT.set(BYTES_LEFT.get().saturating_add(*bytes));
            }
            held
        });
    });
}

/// Texts put together as a value, whose bytes are given back when it is gone.
pub(super) fn joined(parts: &[Cow<'_, str>]) -> Result<Value, Error> {
    let bytes = parts.iter().map(|part| length(part)).sum::<u64>();
    // The text, and the value that it is copied into.
    room(2 * bytes)?;
    let text = parts.concat();
    spend(bytes)?;
    if text.len() < LONG {
        return Ok(Value::from(text));
    }
    let text: Arc<str> = Arc::from(text);
    TEXTS.with_borrow_mut(|texts| texts.push((Arc::downgrade(&text), bytes)));
    Ok(Value::from(text))
}

/// [`take`], for what can fail.
pub(crate) fn spend(bytes: u64) -> Result<(), Error> {
    take(bytes);
    check()
}

/// An error where so many bytes, which are about to be made, would overstep the budget. They are charged when they are there.
pub(crate) fn room(bytes: u64) -> Result<(), Error> {
    if bytes > BYTES_LEFT.get() {
        give_back();
    }
    if bytes > BYTES_LEFT.get() {
        overstep(Overstep::Bytes);
    }
    check()
}

/// A step of a loop or a macro, whose body prints so many bytes of the template's own.
pub(crate) fn step(bytes: u64) -> Result<(), Error> {
    take(bytes);
    work(64);
    if END.get().is_some_and(|end| Instant::now() >= end) {
        overstep(Overstep::Work);
    }
    check()
}

/// The length of a text as a number of bytes.
pub(crate) fn length(text: &str) -> u64 {
    text.len() as u64
}

/// What a value holds, with all that is inside of it, however often it is there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    pub bytes: u64,
    /// How deep values lie in this one.
    pub depth: u32,
}

impl Size {
    /// The size of what holds these.
    pub fn around(sizes: impl IntoIterator<Item = Self>) -> Self {
        let mut whole = Self { bytes: NODE, depth: 0 };
        for size in sizes {
            whole.add(size);
        }
        whole.depth += 1;
        whole
    }

    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.depth = self.depth.max(other.depth);
    }
}

/// The size of a value. Lists know theirs, anything else is gone through.
pub(crate) fn size(value: &Value) -> Size {
    size_within(value, DEEPEST)
}

fn size_within(value: &Value, deepest: u32) -> Size {
    if !work(32) {
        return Size::default();
    }
    if let Some(text) = value.as_str() {
        return Size {
            bytes: NODE + length(text),
            depth: 0,
        };
    }
    let Some(object) = value.as_object() else {
        return Size { bytes: NODE, depth: 0 };
    };
    let known = object.downcast_ref::<List>().map(List::size);
    let known = known.or_else(|| object.downcast_ref::<View>().map(View::size));
    let known = known.or_else(|| object.downcast_ref::<Generator>().map(Generator::size));
    let known = known.or_else(|| object.downcast_ref::<Cycler>().map(Cycler::size));
    if let Some(size) = known {
        return size;
    }
    let Some(deeper) = deepest.checked_sub(1) else {
        overstep(Overstep::Depth);
        return Size::default();
    };
    match value.kind() {
        ValueKind::Map if !text::is_macro(value) => {
            let pairs = object.try_iter_pairs().into_iter().flatten();
            let pairs = pairs.take_while(|_| holds());
            Size::around(pairs.flat_map(|(key, value)| [size_within(&key, deeper), size_within(&value, deeper)]))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items = object.try_iter().into_iter().flatten();
            Size::around(items.take_while(|_| holds()).map(|item| size_within(&item, deeper)))
        }
        _ => Size { bytes: NODE, depth: 0 },
    }
}

/// Charges the work of going through all that is in a value.
pub(crate) fn go_through(value: &Value) -> Result<u64, Error> {
    let bytes = size(value).bytes;
    work(bytes);
    check()?;
    Ok(bytes)
}

/// Charges the work of going through a value's characters or items, but not through what is in these; how many bytes or items
/// there are.
pub(crate) fn go_along(value: &Value) -> Result<u64, Error> {
    let (length, each) = match (value.as_str(), value.as_object()) {
        (Some(text), _) => (length(text), 2),
        (None, Some(object)) if value.kind() != ValueKind::Plain => (object.enumerator_len().unwrap_or(1) as u64, 32),
        _ => (0, 0),
    };
    work(8 + length.saturating_mul(each));
    check()?;
    Ok(length)
}

/// Whether a value may become a part of another. A namespace or a loop may not: it could hold itself, or the one that holds it.
pub(crate) fn part(value: &Value) -> Result<(), Error> {
    let name = value.as_object().map_or("", |object| object.type_name());
    if name.ends_with("::Namespace") || name.ends_with("::Loop") {
        return Err(super::arguments::fail(
            "a namespace or a loop cannot be put into another value",
        ));
    }
    Ok(())
}

/// Charges a value that was made of others: its size must be within the budget's depth, and its own `nodes` are paid for.
pub(crate) fn made(size: Size, nodes: usize) -> Result<(), Error> {
    if size.depth > DEEPEST {
        overstep(Overstep::Depth);
    }
    spend((nodes as u64 + 1).saturating_mul(NODE))
}

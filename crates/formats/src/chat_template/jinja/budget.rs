//! The resource limits of a template: bytes allocated, units of work, and nesting depth of values.
//!
//! minijinja's fuel counts instructions, but a single instruction can take unbounded time and
//! memory. `source` therefore rewrites every operator and literal into one of Hearth's filters.
//! Filters, methods, tests and functions charge the budget of the rendering thread. An exceeded
//! budget stays exceeded: infallible code stops producing text, and the next fallible call returns
//! the error.
//!
//! Bytes are not refunded, except for large concatenated strings: real templates append the whole
//! conversation to one string, message by message.

use crate::interrupt;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Bytes that a template may allocate, in addition to [`BYTES_PER_INPUT`].
const BYTES: u64 = 128 << 20;

/// Bytes that a template may allocate per byte of the conversation.
const BYTES_PER_INPUT: u64 = 64;

/// Units of work, each about the time of comparing four bytes: a few seconds in total.
const WORK: u64 = 1 << 33;

/// Bytes that are copied or compared in a unit of work.
const BYTES_PER_UNIT: u64 = 4;

/// The cost of an iteration or call for [`interrupt::step`], which polls once per 32 of them.
const BYTES_PER_STEP: u64 = interrupt::INTERVAL / 32;

/// Additional units of work per byte of the conversation.
const WORK_PER_INPUT: u64 = 1 << 13;

/// Minimum bytes of a string whose memory is refunded.
const LARGE_TEXT: usize = 4 << 10;

/// Last resort against work that is not charged. The work limit is reached long before.
const MAX_DURATION: Duration = Duration::from_secs(60);

/// Maximum nesting depth of values: comparing, printing and dropping them recurses.
pub(crate) const MAX_DEPTH: u32 = 200;

/// Bytes charged for a value, excluding the text of a string.
pub(crate) const VALUE_BYTES: u64 = 48;

/// The limit that a template exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Limit {
    #[error("it makes too much text or too many values")]
    Bytes,
    #[error("it takes too long")]
    Work,
    #[error("its values nest too deeply")]
    Depth,
    #[error("it was interrupted")]
    Interrupted,
}

thread_local! {
    static BYTES_LEFT: Cell<u64> = const { Cell::new(0) };
    static WORK_LEFT: Cell<u64> = const { Cell::new(0) };
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    static EXCEEDED: Cell<Option<Limit>> = const { Cell::new(None) };
    /// Large strings, with the bytes that are refunded when they are dropped.
    static REFUNDABLE: RefCell<Vec<(Weak<str>, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Sets this thread's work limit and deadline, for everything rendered on it.
pub(crate) fn start_thread() {
    WORK_LEFT.set(WORK);
    DEADLINE.set(Instant::now().checked_add(MAX_DURATION));
}

/// Starts a rendering on this thread, for a conversation of `input` bytes.
pub(crate) fn start_render(input: u64) {
    BYTES_LEFT.set(BYTES.saturating_add(input.saturating_mul(BYTES_PER_INPUT)));
    WORK_LEFT.set(WORK_LEFT.get().saturating_add(input.saturating_mul(WORK_PER_INPUT)));
    EXCEEDED.set(None);
    REFUNDABLE.with_borrow_mut(Vec::clear);
}

/// The limit exceeded since [`start_render`], if any.
pub(crate) fn exceeded() -> Option<Limit> {
    EXCEEDED.get()
}

/// Marks the budget as exceeded. Only the first limit is kept.
pub(crate) fn exceed(limit: Limit) {
    if EXCEEDED.get().is_none() {
        EXCEEDED.set(Some(limit));
    }
}

/// Whether the budget is not exceeded.
pub(crate) fn is_within() -> bool {
    EXCEEDED.get().is_none()
}

/// Returns an error if the budget is exceeded.
pub(crate) fn check() -> Result<(), Error> {
    match EXCEEDED.get() {
        None => Ok(()),
        Some(limit) => Err(Error::new(ErrorKind::InvalidOperation, limit.to_string()).with_source(limit)),
    }
}

/// Charges work. Returns whether the budget is still within its limits.
pub(crate) fn charge_work(units: u64) -> bool {
    match WORK_LEFT.get().checked_sub(units) {
        Some(left) => WORK_LEFT.set(left),
        None => exceed(Limit::Work),
    }
    if interrupt::step(BYTES_PER_UNIT.saturating_mul(units)) {
        exceed(Limit::Interrupted);
    }
    is_within()
}

/// Charges allocated bytes and the work of writing them. Returns whether the budget is still within
/// its limits.
pub(crate) fn charge_bytes(bytes: u64) -> bool {
    if bytes > BYTES_LEFT.get() {
        refund();
    }
    match BYTES_LEFT.get().checked_sub(bytes) {
        Some(left) => BYTES_LEFT.set(left),
        None => exceed(Limit::Bytes),
    }
    charge_work(bytes / BYTES_PER_UNIT)
}

/// Refunds the bytes of large strings that were dropped.
fn refund() {
    REFUNDABLE.with_borrow_mut(|texts| {
        charge_work(8 * texts.len() as u64);
        texts.retain(|(text, bytes)| {
            let is_alive = text.strong_count() > 0;
            if !is_alive {
                BYTES_LEFT.set(BYTES_LEFT.get().saturating_add(*bytes));
            }
            is_alive
        });
    });
}

/// Concatenates strings to a value. The bytes of a large one are refunded when it is dropped.
pub(super) fn concat(parts: &[Cow<'_, str>]) -> Result<Value, Error> {
    let bytes = parts.iter().map(|part| length(part)).sum::<u64>();
    // The string, and its copy in the value.
    check_bytes(2 * bytes)?;
    let text = parts.concat();
    charge(bytes)?;
    if text.len() < LARGE_TEXT {
        return Ok(Value::from(text));
    }
    let text: Arc<str> = Arc::from(text);
    REFUNDABLE.with_borrow_mut(|texts| texts.push((Arc::downgrade(&text), bytes)));
    Ok(Value::from(text))
}

/// [`charge_bytes`] for fallible code.
pub(crate) fn charge(bytes: u64) -> Result<(), Error> {
    charge_bytes(bytes);
    check()
}

/// Returns an error if allocating `bytes` would exceed the budget. Charges nothing: the caller
/// charges the actual bytes afterwards.
pub(crate) fn check_bytes(bytes: u64) -> Result<(), Error> {
    if bytes > BYTES_LEFT.get() {
        refund();
    }
    if bytes > BYTES_LEFT.get() {
        exceed(Limit::Bytes);
    }
    check()
}

/// Charges one iteration of a loop or one call of a macro, whose body prints `bytes` of literal
/// text.
pub(crate) fn charge_step(bytes: u64) -> Result<(), Error> {
    charge_bytes(bytes);
    charge_work(64);
    if interrupt::step(BYTES_PER_STEP) {
        exceed(Limit::Interrupted);
    }
    if DEADLINE.get().is_some_and(|deadline| Instant::now() >= deadline) {
        exceed(Limit::Work);
    }
    check()
}

/// The length of a string in bytes.
pub(crate) fn length(text: &str) -> u64 {
    text.len() as u64
}

/// The size of a value, including nested values. Shared values are counted each time they occur.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    pub bytes: u64,
    /// Nesting depth of the values inside this one.
    pub depth: u32,
}

impl Size {
    /// The size of a container of values of these sizes.
    pub fn containing(sizes: impl IntoIterator<Item = Self>) -> Self {
        let mut container = Self {
            bytes: VALUE_BYTES,
            depth: 0,
        };
        for size in sizes {
            container.add(size);
        }
        container.depth += 1;
        container
    }

    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.depth = self.depth.max(other.depth);
    }
}

/// Charges the work of iterating over a value's characters or items, without values nested in the
/// items. Returns the number of bytes or items.
pub(crate) fn charge_scan(value: &Value) -> Result<u64, Error> {
    let (length, units_per_item) = match (value.as_str(), value.as_object()) {
        (Some(text), _) => (length(text), 2),
        (None, Some(object)) if value.kind() != ValueKind::Plain => (object.enumerator_len().unwrap_or(1) as u64, 32),
        _ => (0, 0),
    };
    charge_work(8 + length.saturating_mul(units_per_item));
    check()?;
    Ok(length)
}

/// Charges a container of `values` direct values, and checks its depth.
pub(crate) fn charge_value(size: Size, values: usize) -> Result<(), Error> {
    if size.depth > MAX_DEPTH {
        exceed(Limit::Depth);
    }
    charge((values as u64 + 1).saturating_mul(VALUE_BYTES))
}

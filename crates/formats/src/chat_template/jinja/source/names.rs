//! The names that stand in an adapted source for operators, literals and steps. A template may not use them itself.

/// Python's slices, as a method.
pub(in super::super) const SLICE: &str = "__slice__";
/// A subscript, as a method.
pub(in super::super) const ITEM: &str = "__item__";
/// `+`, `~`, `*` and the `%` of texts, as filters with all that follows the same sign.
pub(in super::super) const ADD: &str = "__add__";
pub(in super::super) const CONCATENATE: &str = "__concatenate__";
pub(in super::super) const MULTIPLY: &str = "__mul__";
pub(in super::super) const MODULO: &str = "__mod__";
/// Comparisons, as filters.
pub(in super::super) const EQUAL: &str = "__eq__";
pub(in super::super) const UNEQUAL: &str = "__ne__";
pub(in super::super) const LESS: &str = "__lt__";
pub(in super::super) const AT_MOST: &str = "__le__";
pub(in super::super) const MORE: &str = "__gt__";
pub(in super::super) const AT_LEAST: &str = "__ge__";
pub(in super::super) const IN: &str = "__in__";
pub(in super::super) const NOT_IN: &str = "__not_in__";
/// Several comparisons in a row, as a filter: names and operands by turns.
pub(in super::super) const CHAIN: &str = "__chain__";
/// Literals that are not constant, as filters of their first part.
pub(in super::super) const LIST: &str = "__list__";
pub(in super::super) const TUPLE: &str = "__tuple__";
pub(in super::super) const DICTIONARY: &str = "__dict__";
/// A value that goes into a namespace.
pub(in super::super) const PART: &str = "__part__";
/// A value all of which is used.
pub(in super::super) const ALL: &str = "__all__";
/// A value that is gone through from its beginning to its end.
pub(in super::super) const ALONG: &str = "__along__";
/// The function that each body of a loop or a macro begins with.
pub(in super::super) const STEP: &str = "__step__";

pub(super) const RESERVED: [&str; 22] = [
    SLICE,
    ITEM,
    ADD,
    CONCATENATE,
    MULTIPLY,
    MODULO,
    EQUAL,
    UNEQUAL,
    LESS,
    AT_MOST,
    MORE,
    AT_LEAST,
    IN,
    NOT_IN,
    CHAIN,
    LIST,
    TUPLE,
    DICTIONARY,
    PART,
    ALL,
    ALONG,
    STEP,
];

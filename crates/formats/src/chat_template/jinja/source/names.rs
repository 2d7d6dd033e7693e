//! Names of the filters, methods and functions that replace operators and literals in a rewritten
//! source. Templates must not use them.

/// A slice, as a method.
pub(in super::super) const SLICE: &str = "__slice__";
/// A subscript, as a method.
pub(in super::super) const ITEM: &str = "__item__";
/// `+`, `~`, `*` and the `%` of strings, as filters. A chain of the same operator becomes one
/// filter with all operands.
pub(in super::super) const ADD: &str = "__add__";
pub(in super::super) const CONCATENATE: &str = "__concatenate__";
pub(in super::super) const MULTIPLY: &str = "__mul__";
pub(in super::super) const MODULO: &str = "__mod__";
/// Comparisons, as filters.
pub(in super::super) const EQUAL: &str = "__eq__";
pub(in super::super) const NOT_EQUAL: &str = "__ne__";
pub(in super::super) const LESS: &str = "__lt__";
pub(in super::super) const LESS_EQUAL: &str = "__le__";
pub(in super::super) const GREATER: &str = "__gt__";
pub(in super::super) const GREATER_EQUAL: &str = "__ge__";
pub(in super::super) const IN: &str = "__in__";
pub(in super::super) const NOT_IN: &str = "__not_in__";
/// Chained comparisons, as a filter: alternating names and operands.
pub(in super::super) const CHAIN: &str = "__chain__";
/// Literals that are not constant, as filters on their first item.
pub(in super::super) const LIST: &str = "__list__";
pub(in super::super) const TUPLE: &str = "__tuple__";
pub(in super::super) const DICTIONARY: &str = "__dict__";
/// Refuses a value that must not be assigned to a namespace.
pub(in super::super) const NESTED: &str = "__nested__";
/// Charges the deep traversal of a value.
pub(in super::super) const TRAVERSE: &str = "__traverse__";
/// Charges the iteration over a value.
pub(in super::super) const SCAN: &str = "__scan__";
/// The function called at the start of each body of a loop or a macro.
pub(in super::super) const STEP: &str = "__step__";

/// All of these names.
pub(super) const RESERVED: [&str; 22] = [
    SLICE,
    ITEM,
    ADD,
    CONCATENATE,
    MULTIPLY,
    MODULO,
    EQUAL,
    NOT_EQUAL,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    IN,
    NOT_IN,
    CHAIN,
    LIST,
    TUPLE,
    DICTIONARY,
    NESTED,
    TRAVERSE,
    SCAN,
    STEP,
];

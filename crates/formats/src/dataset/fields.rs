//! The fields of a row, as every file format yields them.

use serde_json::Value;
use std::sync::Arc;

/// A column name, shared by the rows of a table.
pub(super) type Name = Arc<str>;

/// The fields of one row in file order.
pub(super) type Fields = Vec<(Name, Value)>;

/// Estimated bytes of a field without its text: vectors grow by doubling.
pub(super) const FIELD: usize = 2 * (size_of::<(Name, Value)>() + 2 * size_of::<usize>());

//! The suites of a test run, the files that each part depends on, and the choice of the parts that
//! a run executes.
//!
//! A suite is tests that are selected together. A few large ones, the products of cases (formats by
//! shapes, faults by disk operations, places by languages), have four parts, of which a run
//! executes at least one: the one whose last run is longest ago. Parts that a change affects always
//! run: see [`choose`]. `docs/decisions/0028-test-selection.md` says why this loses nothing.

mod inputs;
mod ledger;
mod select;
mod table;
mod tree;

pub use inputs::{Inputs, is_unbuilt};
pub use ledger::Ledger;
pub use select::{Choice, Mode, choose, print};
pub use table::{PARTS, SUITES, Stage, Suite, Tests};
pub use tree::{Tree, git_output};

//! The faults of one run. There is one at each operation, but not in each run.

use super::Kind;
use hearth_test_parts::Parts;

/// Returns the operations of `at` at which this run injects the fault of a test: all renames and
/// syncs, and the other operations in rotation among the parts of the product `faults`.
pub fn due(test: &str, operations: &[Kind], at: &[usize]) -> Vec<usize> {
    let parts = Parts::from_variable("faults");
    let mut by_turn = 0;
    let mut is_due = |at: &usize| {
        let kind = operations[*at];
        let case = format!("{test}: {at} {kind}");
        if kind.decides_what_is_left() {
            parts.always(&case);
            return true;
        }
        by_turn += 1;
        parts.includes(by_turn - 1, &case)
    };
    at.iter().copied().filter(|at| is_due(at)).collect()
}

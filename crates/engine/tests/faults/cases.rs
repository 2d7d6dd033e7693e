//! Selects the faults of one run of the tests: over four runs, there is a fault at every operation.

use super::Kind;
use hearth_test_parts::Parts;

/// Selects the operations of `indices` at which this run injects the fault of a test: all renames
/// and syncs, and the other operations in rotation among the parts of the suite `faults`.
pub fn select(test: &str, operations: &[Kind], indices: &[usize]) -> Vec<usize> {
    let parts = Parts::from_variable("faults");
    let mut rotated = 0;
    let mut is_selected = |index: &usize| {
        let kind = operations[*index];
        let case = format!("{test}: {index} {kind}");
        if kind.affects_durability() {
            parts.always(&case);
            return true;
        }
        rotated += 1;
        parts.includes(rotated - 1, &case)
    };
    indices.iter().copied().filter(|index| is_selected(index)).collect()
}

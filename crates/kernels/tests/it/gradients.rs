//! The gradient checks of `hearth doctor --gradients`.

use hearth_kernels::gradients;
use std::collections::BTreeMap;

#[test]
fn every_gradient_matches_central_differences() {
    let mut worst: BTreeMap<(&str, String), (f64, String)> = BTreeMap::new();
    let (mut failed, mut count) = (Vec::new(), 0);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    gradients::check(&mut |check| {
        count += 1;
        *counts.entry(check.op).or_default() += 1;
        if !check.passed() {
            failed.push(format!("{check:?}"));
        }
        let worst_of_op = worst.entry((check.op, format!("{:.0e}", check.tolerance))).or_default();
        if check.error > worst_of_op.0 {
            *worst_of_op = (check.error, check.arrangement);
        }
    });
    println!("{count} gradients; the worst of each operation: {worst:#?}");
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
    // Counts, so that no check is skipped unnoticed.
    let expected = [
        ("attention", 8),
        ("linear_cross_entropy", 56),
        ("gated", 300),
        ("glu", 24),
        ("linear_add", 120),
        ("norm_linears", 90),
        ("rms_norm", 3),
        ("rope", 8),
        ("rope and norms of Q and K", 24),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

//! Every gradient against differences, as `hearth doctor --gradients` shows it, on every level of instructions.

mod reference;

use hearth_kernels::gradients;
use std::collections::BTreeMap;

#[test]
fn every_gradient_is_that_of_differences() {
    let mut worst: BTreeMap<(&str, String), (f64, String)> = BTreeMap::new();
    let (mut failed, mut count) = (Vec::new(), 0);
    gradients::check(&mut |check| {
        count += 1;
        if !check.passed() {
            failed.push(format!("{check:?}"));
        }
        let of_op = worst.entry((check.op, format!("{:.0e}", check.tolerance))).or_default();
        if check.error > of_op.0 {
            *of_op = (check.error, check.arrangement);
        }
    });
    println!("{count} gradients; the worst of each operation: {worst:#?}");
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
    let ops = [
        "attention",
        "cross_entropy",
        "cross_entropy_through",
        "gated",
        "glu",
        "linear_add",
        "norm_linears",
        "rms_norm",
        "rope",
        "rope and head norms",
        "softmax",
    ];
    let mut seen: Vec<&str> = worst.keys().map(|(op, _)| *op).collect();
    seen.dedup();
    assert_eq!(seen, ops);
}

#[test]
fn lower_levels_pass_too() {
    reference::on_lower_levels();
}

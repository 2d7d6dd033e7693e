//! Tests of the inputs of the benchmarks: noise and weights.

use hearth_bench::{Weight, noise};
use hearth_kernels::Quant;

#[test]
fn noise_is_varied_and_within_its_range() {
    let values = noise(4096);
    assert!(values.iter().all(|value| (-1.0..=1.0).contains(value)));
    let mut distinct: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > 1500, "{} distinct values", distinct.len());
}

#[test]
fn a_weight_of_every_format_is_a_linear() {
    for quant in Quant::ALL {
        let weight = Weight::new(quant, 16, 256).unwrap_or_else(|error| panic!("{quant}: {error}"));
        assert!(weight.linear().is_ok(), "{quant}");
    }
    assert!(Weight::new(Quant::Q4_K, 16, 100).is_err(), "a row of no whole blocks");
}

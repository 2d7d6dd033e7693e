//! Any bytes as a dataset, by whatever name: refused, or examples. Start from the samples: `cargo +nightly fuzz run dataset assets/datasets`.
#![no_main]

use hearth_formats::dataset::{Dataset, ReadOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how.
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let name = ["x.jsonl", "x.json", "x.csv", "x.txt"][usize::from(how >> 1) % 4];
    let options = ReadOptions {
        mapping: None,
        skip_broken: how & 1 == 1,
    };
    if let Ok(dataset) = Dataset::from_bytes(bytes.to_vec(), name, &options) {
        assert!(!dataset.examples.is_empty());
        assert!(dataset.broken_total == 0 || options.skip_broken);
    }
});

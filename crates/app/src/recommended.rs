//! The order of the catalog on a machine: the first run offers the models at its beginning.

use crate::library::{catalog::Entry, hub::Expected};
use std::cmp::Reverse;

/// Number of recommended models of the catalog.
const RECOMMENDED: usize = 3;

/// The catalog's entries. First, of those for a first run that run well, the largest, the largest
/// of another family and the fastest; then the others in the catalog's order.
pub fn recommended_first<'a>(entries: &'a [Entry], expected: &Expected) -> Vec<&'a Entry> {
    // The first entry is bundled.
    let mut suited: Vec<&Entry> = entries
        .iter()
        .skip(1)
        .filter(|entry| entry.first_run && expected.runs_well(entry.size))
        .collect();
    suited.sort_by_key(|entry| Reverse(entry.size));
    let mut chosen: Vec<&Entry> = suited.first().copied().into_iter().collect();
    let family = |entry: &Entry| entry.id.split('-').next().unwrap_or_default().to_owned();
    chosen.extend(
        suited
            .iter()
            .find(|entry| chosen.iter().all(|other| family(other) != family(entry))),
    );
    for entry in suited.iter().rev().chain(suited.iter()) {
        if chosen.len() < RECOMMENDED && !chosen.contains(entry) {
            chosen.push(entry);
        }
    }
    let others = entries.iter().filter(|entry| !chosen.contains(entry));
    chosen.iter().copied().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::catalog::entries;
    use hearth_protocol::{AutoSelection, BackendOption, DeviceCheck, DeviceInfo};

    const GB: u64 = 1_000_000_000;

    /// A machine: memory of the CPU in GB, of which a quarter is in use; its speed in GB/s; and the
    /// memory of a GPU, which is 0 without one. The speed of the GPU is assumed.
    fn machine(memory: u64, speed: f64, gpu: u64) -> Vec<DeviceInfo> {
        let device = |id: &str, kind: &str, free| DeviceInfo {
            id: id.to_owned(),
            kind: kind.to_owned(),
            memory_free: Some(free),
            usable: true,
            ..DeviceInfo::default()
        };
        let check = DeviceCheck {
            bytes_per_second: speed * 1e9,
            ..DeviceCheck::default()
        };
        let measured = BackendOption {
            check: Some(check),
            ..BackendOption::default()
        };
        let cpu = DeviceInfo {
            backends: vec![measured],
            ..device("cpu", "cpu", memory * GB / 4 * 3)
        };
        let gpu = (gpu > 0).then(|| DeviceInfo {
            selection: Some(AutoSelection::Selected),
            ..device("gpu0", "discrete", gpu * GB)
        });
        [cpu].into_iter().chain(gpu).collect()
    }

    #[test]
    fn the_first_run_offers_what_suits_the_machine() {
        const SMALL: [&str; 3] = ["qwen3-4b-instruct-2507", "gemma-3-4b-it", "qwen3-0.6b"];
        const MIDDLE: [&str; 3] = ["gemma-3-12b-it", "qwen3-8b", "qwen3-0.6b"];
        const LARGE: [&str; 3] = ["qwen3-14b", "gemma-3-12b-it", "qwen3-0.6b"];
        for (memory, speed, gpu, expected) in [
            (8, 20.0, 0, SMALL),
            (16, 20.0, 0, SMALL),
            (32, 20.0, 0, SMALL),
            (64, 20.0, 0, SMALL),
            (8, 80.0, 0, SMALL),
            (16, 80.0, 0, MIDDLE),
            (32, 80.0, 0, LARGE),
            (64, 80.0, 0, LARGE),
            (8, 20.0, 6, MIDDLE),
            (16, 20.0, 8, LARGE),
            (32, 20.0, 12, LARGE),
            (64, 20.0, 24, LARGE),
        ] {
            let sorted = recommended_first(entries(), &Expected(&machine(memory, speed, gpu)));
            let offered: Vec<_> = sorted.iter().take(RECOMMENDED).map(|entry| entry.id.as_str()).collect();
            assert_eq!(offered, expected, "{memory} GB, {speed} GB/s, {gpu} GB on a GPU");
        }
    }

    #[test]
    fn every_model_is_listed_once() {
        let sorted = recommended_first(entries(), &Expected(&machine(16, 20.0, 0)));
        assert_eq!(sorted.len(), entries().len());
        assert!(entries().iter().all(|entry| sorted.contains(&entry)));
        assert!(sorted.iter().take(RECOMMENDED).all(|entry| entry.first_run));
    }
}

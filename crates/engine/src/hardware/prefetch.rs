//! The CPU's prefetching of weights in each format, as measured at a load and recorded.

use super::backends::cpu_subject;
use super::records::{PrefetchRecord, store};
use hearth_kernels::{Calibrated, Prefetch, Quant, team};
use serde::Serialize;

/// A recorded choice, for `hearth devices`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormatPrefetch {
    /// The format of the weights.
    pub format: String,
    /// Number of threads.
    pub threads: usize,
    /// Prefetch target and distance in bytes, such as `t1+1024`, or `none`.
    pub choice: String,
    /// Bytes of weights per second that were multiplied with it.
    pub bytes_per_second: f64,
}

/// Applies the choices that are recorded for the current number of threads, and the CPU's default
/// to other formats.
pub(crate) fn use_recorded_prefetches() {
    let (recorded, threads) = (prefetches(), team::threads());
    for quant in Quant::ALL {
        let is_of = |found: &&FormatPrefetch| found.format == quant.name() && found.threads == threads;
        let found = recorded.iter().find(is_of);
        Prefetch::choose(quant, found.and_then(|found| found.choice.parse().ok()));
    }
}

/// Whether a measurement outlives this process.
pub(crate) fn can_record_prefetches() -> bool {
    store().has_file()
}

/// Records the choices that a load measured.
pub(crate) fn record_prefetches(calibrated: &[Calibrated]) {
    if calibrated.is_empty() {
        return;
    }
    let subject = cpu_subject();
    let records = calibrated.iter().map(|found| PrefetchRecord {
        subject: subject.clone(),
        format: found.quant.name().to_owned(),
        threads: team::threads(),
        measurement: Calibrated::VERSION,
        choice: found.choice.to_string(),
        bytes_per_second: found.bytes_per_second,
    });
    store().add_prefetches(records.collect());
}

/// The recorded choices that make sense.
pub fn prefetches() -> Vec<FormatPrefetch> {
    let records = store().prefetches(&cpu_subject()).into_iter();
    let is_sound = |record: &PrefetchRecord| {
        Quant::from_name(&record.format).is_some() && record.choice.parse::<Prefetch>().is_ok()
    };
    records
        .filter(is_sound)
        .map(|record| FormatPrefetch {
            format: record.format,
            threads: record.threads,
            choice: record.choice,
            bytes_per_second: record.bytes_per_second,
        })
        .collect()
}

//! Recorded prefetch choices: for each weight format, the fastest prefetch on this CPU, measured
//! during a load.

use super::backends::cpu_subject;
use super::records::{FormatPrefetch, PrefetchRecord, store};
use hearth_kernels::{Calibrated, Prefetch, Quant, team};

/// Applies the choices recorded for the current number of threads. Other formats use the CPU's
/// default.
pub(crate) fn use_recorded_prefetches() {
    let (recorded, threads) = (prefetches(), team::threads());
    for quant in Quant::ALL {
        let matches = |prefetch: &&FormatPrefetch| prefetch.format == quant.name() && prefetch.threads == threads;
        let choice = recorded.iter().find(matches);
        Prefetch::choose(quant, choice.and_then(|prefetch| prefetch.choice.parse().ok()));
    }
}

/// Whether measurements are stored in a file, so that the next process can use them.
pub(crate) fn can_record_prefetches() -> bool {
    store().has_file()
}

/// Records the choices that a load measured.
pub(crate) fn record_prefetches(calibrated: &[Calibrated]) {
    if calibrated.is_empty() {
        return;
    }
    let subject = cpu_subject();
    let records = calibrated.iter().map(|calibrated| PrefetchRecord {
        subject: subject.clone(),
        measurement: Calibrated::VERSION,
        prefetch: FormatPrefetch {
            format: calibrated.quant.name().to_owned(),
            threads: team::threads(),
            choice: calibrated.choice.to_string(),
            bytes_per_second: calibrated.bytes_per_second,
        },
    });
    store().add_prefetches(records.collect());
}

/// The recorded choices that are valid.
pub fn prefetches() -> Vec<FormatPrefetch> {
    valid(store().prefetches(&cpu_subject()))
}

/// Drops records of formats and choices that this version does not know.
fn valid(records: Vec<PrefetchRecord>) -> Vec<FormatPrefetch> {
    let is_valid = |prefetch: &FormatPrefetch| {
        Quant::from_name(&prefetch.format).is_some() && prefetch.choice.parse::<Prefetch>().is_ok()
    };
    let prefetches = records.into_iter().map(|record| record.prefetch);
    prefetches.filter(is_valid).collect()
}

#[cfg(test)]
mod tests {
    use super::super::records::Subject;
    use super::*;

    #[test]
    fn records_with_an_unknown_format_or_choice_are_ignored() {
        let record = |format: &str, choice: &str| PrefetchRecord {
            subject: Subject::default(),
            measurement: Calibrated::VERSION,
            prefetch: FormatPrefetch {
                format: format.to_owned(),
                threads: 2,
                choice: choice.to_owned(),
                bytes_per_second: 1e9,
            },
        };
        let records = vec![
            record("Q4_K", "t1+1024"),
            record("Q9_X", "none"),
            record("Q8_0", "t7+64"),
            record("Q8_0", "t1+999999"),
        ];
        let expected = records[0].prefetch.clone();
        assert_eq!(valid(records), [expected]);
    }
}

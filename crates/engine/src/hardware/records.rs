//! Recorded device checks, decode costs, prefetching and memory limits (`devices.json`). The file
//! may be deleted at any time.

use crate::check::decode_cost::DecodeCost;
use hearth_formats::durable;
use hearth_kernels::Calibrated;
use hearth_protocol::DeviceCheck;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of decode costs: one per number of threads and version of Hearth.
const MAX_DECODE_COSTS: usize = 16;
/// Maximum number of prefetch records: one per format, number of threads and version of Hearth.
const MAX_PREFETCHES: usize = 128;

/// Records of all devices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Records {
    #[serde(deserialize_with = "readable")]
    checks: Vec<CheckRecord>,
    #[serde(deserialize_with = "readable")]
    limits: Vec<Limit>,
    #[serde(deserialize_with = "readable")]
    decode_costs: Vec<DecodeCostRecord>,
    #[serde(deserialize_with = "readable")]
    prefetches: Vec<PrefetchRecord>,
}

/// Deserializes the records that are readable. Records of other versions of Hearth are skipped, and
/// do not affect the others.
fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let records = Vec::<serde_json::Value>::deserialize(deserializer)?;
    let readable = records
        .into_iter()
        .filter_map(|record| serde_json::from_value(record).ok());
    Ok(readable.collect())
}

/// The subject of a device check. After an update of the driver or of Hearth, the device is checked
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The device's identity.
    pub identity: String,
    /// Product name, because the card in a slot may be replaced.
    pub name: String,
    /// Driver name and version.
    pub driver: Option<String>,
    /// The build of Hearth.
    pub build: String,
    /// Hearth's version.
    pub version: String,
    /// Version of the check: [`DeviceCheck::VERSION`].
    #[serde(default)]
    pub check: u32,
}

/// The last check of a device in one build.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CheckRecord {
    subject: Subject,
    check: DeviceCheck,
}

/// The decode cost of a CPU with this many threads.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct DecodeCostRecord {
    subject: Subject,
    threads: usize,
    /// Version of the measurement: [`DecodeCost::VERSION`].
    measurement: u32,
    cost: DecodeCost,
}

impl DecodeCostRecord {
    fn matches(&self, subject: &Subject, threads: usize) -> bool {
        self.subject == *subject && self.threads == threads && self.measurement == DecodeCost::VERSION
    }
}

/// The prefetch choice for a weight format, recorded and printed by `hearth devices`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormatPrefetch {
    /// The format of the weights.
    pub format: String,
    /// Number of threads.
    pub threads: usize,
    /// Prefetch target and distance in bytes, such as `t1+1024`, or `none`.
    pub choice: String,
    /// Measured speed of a product with it, in bytes of weights per second.
    pub bytes_per_second: f64,
}

/// The prefetch choice measured on a CPU for a weight format and a number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrefetchRecord {
    /// The CPU, with its instruction set.
    pub subject: Subject,
    /// Version of the measurement: [`Calibrated::VERSION`].
    pub measurement: u32,
    /// The choice.
    #[serde(flatten)]
    pub prefetch: FormatPrefetch,
}

/// Limit of the memory that can be allocated on a device.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Limit {
    identity: String,
    /// Smallest fraction of the free memory whose allocation failed.
    refused: f64,
}

/// The records' file, and the last records read or written.
#[derive(Debug, Default)]
pub struct Store {
    file: Option<PathBuf>,
    last: Option<Records>,
}

/// The store of this process.
static STORE: Mutex<Store> = Mutex::new(Store { file: None, last: None });

/// The store of this process, locked.
pub fn store() -> MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the file of the records. `None`, the default, keeps them in memory only.
pub fn set_records_file(file: Option<PathBuf>) {
    *store() = Store { file, last: None };
}

impl Store {
    /// Reads the records from the file, which another process may have written.
    fn read(&self) -> Records {
        let text = self.file.as_ref().and_then(|file| fs::read(file).ok());
        let records = text.and_then(|text| serde_json::from_slice(&text).ok());
        records.or_else(|| self.last.clone()).unwrap_or_default()
    }

    fn change(&mut self, change: impl FnOnce(&mut Records)) {
        let mut records = self.read();
        change(&mut records);
        if let Some(file) = &self.file
            && let Err(error) = write(file, &records)
        {
            tracing::warn!("{}: {error}", file.display());
        }
        self.last = Some(records);
    }

    /// The recorded check. `None` means that there is none, or that its values are impossible.
    pub fn check(&self, subject: &Subject) -> Option<DeviceCheck> {
        let mut checks = self.read().checks.into_iter();
        checks
            .find(|record| record.subject == *subject)
            .map(|record| record.check)
            .filter(DeviceCheck::is_sound)
    }

    /// Records a check, replacing earlier checks of the same device in the same build. One that
    /// other programs slowed down does not replace a better one of the same subject. Returns
    /// whether it was recorded.
    pub fn record_check(&mut self, subject: Subject, check: DeviceCheck) -> bool {
        let is_better = |old: &DeviceCheck| !old.was_busy() || old.bytes_per_second > check.bytes_per_second;
        if check.was_busy() && self.check(&subject).as_ref().is_some_and(is_better) {
            return false;
        }
        self.change(|records| {
            let key = |subject: &Subject| (subject.identity.clone(), subject.build.clone());
            records.checks.retain(|record| key(&record.subject) != key(&subject));
            records.checks.push(CheckRecord { subject, check });
        });
        true
    }

    /// The recorded decode cost of a CPU with this many threads. `None` means that it is not
    /// measured.
    pub fn decode_cost(&self, subject: &Subject, threads: usize) -> Option<DecodeCost> {
        let mut costs = self.read().decode_costs.into_iter();
        costs
            .find(|record| record.matches(subject, threads))
            .map(|record| record.cost)
    }

    /// Records the decode cost of a CPU with this many threads. Keeps the costs of formats that
    /// another process has recorded meanwhile.
    pub fn add_decode_cost(&mut self, subject: Subject, threads: usize, cost: DecodeCost) {
        self.change(|records| {
            let costs = &mut records.decode_costs;
            if let Some(existing) = costs.iter_mut().find(|record| record.matches(&subject, threads)) {
                return existing.cost.merge(cost);
            }
            costs.push(DecodeCostRecord {
                subject,
                threads,
                measurement: DecodeCost::VERSION,
                cost,
            });
            costs.drain(..costs.len().saturating_sub(MAX_DECODE_COSTS));
        });
    }

    /// Removes the decode costs of a CPU, to measure them again.
    pub fn remove_decode_costs(&mut self, subject: &Subject) {
        self.change(|records| records.decode_costs.retain(|record| record.subject != *subject));
    }

    /// Whether records outlive this process.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the prefetch choices measured on a CPU.
    pub fn prefetches(&self, subject: &Subject) -> Vec<PrefetchRecord> {
        let mut prefetches = self.read().prefetches;
        prefetches.retain(|record| record.subject == *subject && record.measurement == Calibrated::VERSION);
        prefetches
    }

    /// Records measured prefetch choices, replacing earlier records of the same formats.
    pub fn add_prefetches(&mut self, added: Vec<PrefetchRecord>) {
        self.change(|records| {
            let prefetches = &mut records.prefetches;
            let is_replaced = |old: &PrefetchRecord| {
                let replaces = |new: &PrefetchRecord| {
                    new.subject == old.subject
                        && new.prefetch.format == old.prefetch.format
                        && new.prefetch.threads == old.prefetch.threads
                };
                added.iter().any(replaces)
            };
            prefetches.retain(|record| !is_replaced(record));
            prefetches.extend(added);
            prefetches.drain(..prefetches.len().saturating_sub(MAX_PREFETCHES));
        });
    }

    /// Removes the prefetch choices of a CPU, to measure them again.
    pub fn remove_prefetches(&mut self, subject: &Subject) {
        self.change(|records| records.prefetches.retain(|record| record.subject != *subject));
    }

    /// Smallest fraction of a device's free memory whose allocation failed. `None` means that no
    /// allocation failed.
    pub fn refused_fraction(&self, identity: &str) -> Option<f64> {
        let mut limits = self.read().limits.into_iter();
        limits
            .find(|limit| limit.identity == identity)
            .map(|limit| limit.refused)
    }

    /// Records that the allocation of `bytes` failed when `free` bytes were free.
    pub fn record_refusal(&mut self, identity: &str, bytes: u64, free: u64) {
        let fraction = fraction(bytes, free).min(1.0);
        let smallest = self.refused_fraction(identity);
        let refused = smallest.map_or(fraction, |smallest| smallest.min(fraction));
        let identity = identity.to_owned();
        self.change(|records| {
            records.limits.retain(|limit| limit.identity != identity);
            records.limits.push(Limit { identity, refused });
        });
    }

    /// Records that `bytes` were allocated when `free` bytes were free. If the allocation of a
    /// smaller fraction had failed, another program was the cause, and that record is removed.
    pub fn record_allocation(&mut self, identity: &str, bytes: u64, free: u64) {
        if self
            .refused_fraction(identity)
            .is_some_and(|refused| refused <= fraction(bytes, free))
        {
            self.change(|records| records.limits.retain(|limit| limit.identity != identity));
        }
    }
}

fn fraction(bytes: u64, total: u64) -> f64 {
    bytes as f64 / total.max(1) as f64
}

/// Replaces the file atomically, since other workers may write it at the same time.
fn write(file: &Path, records: &Records) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_vec(records)?;
    durable::write_file(file, |out| out.write_all(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::Mismatch;

    /// A store whose file was not read yet.
    fn store_in(file: PathBuf) -> Store {
        Store {
            file: Some(file),
            last: None,
        }
    }

    #[test]
    fn decode_costs_are_recorded_per_cpu_and_number_of_threads() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = store_in(folder.path().join("devices.json"));
        let subject = |version: &str| Subject {
            version: version.to_owned(),
            ..Subject::default()
        };
        store.add_decode_cost(subject("1"), 2, DecodeCost::default());
        assert_eq!(store.decode_cost(&subject("1"), 2), Some(DecodeCost::default()));
        assert_eq!(store.decode_cost(&subject("1"), 4), None);
        assert_eq!(store.decode_cost(&subject("2"), 2), None);
        for threads in 3..40 {
            store.add_decode_cost(subject("2"), threads, DecodeCost::default());
        }
        assert_eq!(store.decode_cost(&subject("1"), 2), None, "the oldest are dropped");
        store.remove_decode_costs(&subject("2"));
        assert_eq!(store.decode_cost(&subject("2"), 39), None);
    }

    #[test]
    fn a_format_has_one_record_of_prefetching_for_each_cpu_and_number_of_threads() {
        let folder = tempfile::tempdir().expect("a folder");
        let subject = |name: &str| Subject {
            name: name.to_owned(),
            ..Subject::default()
        };
        let with_threads = |cpu: &str, format: &str, choice: &str, threads| PrefetchRecord {
            subject: subject(cpu),
            measurement: Calibrated::VERSION,
            prefetch: FormatPrefetch {
                format: format.to_owned(),
                threads,
                choice: choice.to_owned(),
                bytes_per_second: 1e9,
            },
        };
        let record = |cpu: &str, format: &str, choice: &str| with_threads(cpu, format, choice, 2);
        let mut store = store_in(folder.path().join("devices.json"));
        store.add_prefetches(vec![record("a", "Q4_K", "none"), record("a", "Q8_0", "t1+1024")]);
        store.add_prefetches(vec![record("b", "Q4_K", "t1+4096"), record("a", "Q4_K", "t0+512")]);
        let single_threaded = with_threads("a", "Q4_K", "none", 1);
        store.add_prefetches(vec![single_threaded.clone()]);
        let expected = vec![
            record("a", "Q8_0", "t1+1024"),
            record("a", "Q4_K", "t0+512"),
            single_threaded,
        ];
        assert_eq!(store.prefetches(&subject("a")), expected);
        store.remove_prefetches(&subject("a"));
        assert_eq!(store.prefetches(&subject("a")), []);
        assert_eq!(store.prefetches(&subject("b")), vec![record("b", "Q4_K", "t1+4096")]);
        store.add_prefetches((0..200).map(|index| record("a", &index.to_string(), "none")).collect());
        assert_eq!(store.prefetches(&subject("a")).len(), MAX_PREFETCHES);
        assert_eq!(store.prefetches(&subject("b")), [], "the oldest are dropped");
    }

    #[test]
    fn a_check_beside_other_programs_replaces_no_better_one() {
        let mut store = Store::default();
        let subject = Subject::default();
        let mut record = |bytes_per_second: f64, load: Option<f32>| {
            let check = DeviceCheck {
                bytes_per_second,
                load,
                ..DeviceCheck::default()
            };
            store.record_check(subject.clone(), check);
            store.check(&subject).expect("a check").bytes_per_second
        };
        assert_eq!(record(4.0, Some(0.9)), 4.0);
        assert_eq!(record(3.0, Some(0.9)), 4.0, "the better of two");
        assert_eq!(record(5.0, Some(0.5)), 5.0);
        assert_eq!(record(20.0, Some(0.1)), 20.0);
        assert_eq!(record(30.0, Some(0.9)), 20.0, "an idle one stays");
        assert_eq!(record(18.0, Some(0.0)), 18.0, "a newer idle one counts");
        assert_eq!(record(17.0, None), 17.0, "a GPU");
    }

    #[test]
    fn records_outlive_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("deeper").join("devices.json");
        let open = || store_in(file.clone());
        let subject = |identity: &str, driver: &str, build: &str| Subject {
            identity: identity.to_owned(),
            driver: Some(driver.to_owned()),
            build: build.to_owned(),
            ..Subject::default()
        };
        let check = |speed| DeviceCheck {
            bytes_per_second: speed,
            ..DeviceCheck::default()
        };
        let mut store = open();
        assert_eq!(store.check(&subject("a", "1", "cuda")), None);
        store.record_check(subject("a", "1", "cuda"), check(1.0));
        store.record_check(subject("a", "1", "vulkan"), check(2.0));
        store.record_check(subject("b", "1", "cuda"), check(3.0));
        store.record_refusal("a", 30, 40);
        store.record_refusal("a", 36, 40);

        let mut store = open();
        assert_eq!(store.check(&subject("a", "1", "cuda")), Some(check(1.0)));
        assert_eq!(store.check(&subject("a", "2", "cuda")), None, "another driver");
        let newer_check = Subject {
            check: 1,
            ..subject("a", "1", "cuda")
        };
        assert_eq!(
            store.check(&newer_check),
            None,
            "a record of an earlier version of the check"
        );
        assert_eq!(
            (store.refused_fraction("a"), store.refused_fraction("b")),
            (Some(0.75), None)
        );
        store.record_check(subject("a", "2", "cuda"), check(4.0));
        assert_eq!(store.check(&subject("a", "1", "cuda")), None, "the old driver's");
        assert_eq!(store.check(&subject("a", "1", "vulkan")), Some(check(2.0)));
        store.record_allocation("a", 20, 40);
        assert_eq!(store.refused_fraction("a"), Some(0.75));
        store.record_allocation("a", 31, 40);
        assert_eq!(store.refused_fraction("a"), None);

        // A malformed file.
        fs::write(&file, b"{\"checks\": 3").expect("it is written");
        let mut store = open();
        assert_eq!(store.check(&subject("b", "1", "cuda")), None);
        store.record_check(subject("b", "1", "cuda"), check(5.0));
        assert_eq!(open().check(&subject("b", "1", "cuda")), Some(check(5.0)));
    }

    /// A check with NaN would rank first, because no number is smaller than NaN.
    #[test]
    fn a_check_with_impossible_times_is_not_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = store_in(folder.path().join("devices.json"));
        for layer_seconds in [f64::NAN, f64::INFINITY, -1.0] {
            let check = DeviceCheck {
                layer_seconds,
                ..DeviceCheck::default()
            };
            store.record_check(Subject::default(), check);
            assert_eq!(store.check(&Subject::default()), None, "{layer_seconds}");
        }
        store.record_check(Subject::default(), DeviceCheck::default());
        assert!(store.check(&Subject::default()).is_some());
    }

    #[test]
    fn an_unreadable_check_loses_neither_the_others_nor_the_limits() {
        // `a` is from an earlier version, which named the mismatch `wrong`. `b` has another shape.
        const TEXT: &str = r#"{
            "checks": [
                {
                    "subject": {"identity": "a", "name": "", "driver": null, "build": "cuda", "version": "0.1.0"},
                    "check": {"wrong": "It miscomputes", "bytes_per_second": 1.0, "macs_per_second": 2.0}
                },
                {
                    "subject": {"identity": "b", "name": "", "driver": null, "build": "cuda", "version": "0.1.0"},
                    "check": ["It miscomputes", 1.0, 2.0, true, 4.0, 5.0, 6.0]
                },
                {
                    "subject": {"identity": "c", "name": "", "driver": null, "build": "cuda", "version": "0.1.0"},
                    "check": {"mismatch": null, "bytes_per_second": 3.0, "macs_per_second": 4.0}
                }
            ],
            "limits": [{"identity": "b", "refused": [0.5]}, {"identity": "a", "refused": 0.75}]
        }"#;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("devices.json");
        fs::write(&file, TEXT).expect("it is written");
        let mut store = store_in(file);
        let check = |store: &Store, identity: &str| {
            store.check(&Subject {
                identity: identity.to_owned(),
                build: "cuda".to_owned(),
                version: "0.1.0".to_owned(),
                ..Subject::default()
            })
        };
        let wrong = DeviceCheck {
            mismatch: Some(Mismatch::Detail {
                detail: "It miscomputes".to_owned(),
            }),
            bytes_per_second: 1.0,
            macs_per_second: 2.0,
            ..DeviceCheck::default()
        };
        let correct = DeviceCheck {
            bytes_per_second: 3.0,
            macs_per_second: 4.0,
            ..DeviceCheck::default()
        };
        let assert_kept = |store: &Store| {
            assert_eq!(check(store, "a").as_ref(), Some(&wrong));
            assert_eq!(check(store, "b"), None);
            assert_eq!(check(store, "c").as_ref(), Some(&correct));
            assert_eq!(store.refused_fraction("a"), Some(0.75));
        };
        assert_kept(&store);
        store.record_refusal("b", 1, 2);
        assert_kept(&store);
    }

    #[test]
    fn without_a_file_records_are_in_memory() {
        let mut store = Store::default();
        store.record_refusal("a", 1, 2);
        assert_eq!(store.refused_fraction("a"), Some(0.5));
    }
}

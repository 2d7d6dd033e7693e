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

/// Maximum number of decode costs: of numbers of threads, and of earlier versions.
const MAX_DECODE_COSTS: usize = 16;
/// Maximum number of records of prefetching: formats, numbers of threads, and earlier versions.
const MAX_PREFETCHES: usize = 128;

/// Records of all devices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Records {
    #[serde(deserialize_with = "readable")]
    checks: Vec<Checked>,
    #[serde(deserialize_with = "readable")]
    limits: Vec<Limit>,
    #[serde(deserialize_with = "readable")]
    decode_costs: Vec<DecodeCostRecord>,
    #[serde(deserialize_with = "readable")]
    prefetches: Vec<PrefetchRecord>,
}

/// The records that can be read: one of another version of Hearth loses none of the others.
fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let records = Vec::<serde_json::Value>::deserialize(deserializer)?;
    let readable = records
        .into_iter()
        .filter_map(|record| serde_json::from_value(record).ok());
    Ok(readable.collect())
}

/// The subject of a device check. Another driver or version of Hearth has to be checked again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The device's identity.
    pub identity: String,
    /// Product name, since another card may be put into the slot.
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

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Checked {
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
    fn is_of(&self, subject: &Subject, threads: usize) -> bool {
        self.subject == *subject && self.threads == threads && self.measurement == DecodeCost::VERSION
    }
}

/// The choice for a format, recorded and printed by `hearth devices`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// Limit on the allocatable memory of a device.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Limit {
    identity: String,
    /// Smallest fraction of the free bytes that was refused.
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
    /// The current records; another process may have written the file.
    fn read(&self) -> Records {
        let text = self.file.as_ref().and_then(|file| fs::read(file).ok());
        let read = text.and_then(|text| serde_json::from_slice(&text).ok());
        read.or_else(|| self.last.clone()).unwrap_or_default()
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

    /// The recorded check. `None` means not checked, or that the record makes no sense.
    pub fn check(&self, subject: &Subject) -> Option<DeviceCheck> {
        let mut checks = self.read().checks.into_iter();
        checks
            .find(|checked| checked.subject == *subject)
            .map(|checked| checked.check)
            .filter(DeviceCheck::is_sound)
    }

    /// Records a check, replacing earlier checks of the same device in the same build.
    pub fn checked(&mut self, subject: Subject, check: DeviceCheck) {
        self.change(|records| {
            let about = |subject: &Subject| (subject.identity.clone(), subject.build.clone());
            records
                .checks
                .retain(|checked| about(&checked.subject) != about(&subject));
            records.checks.push(Checked { subject, check });
        });
    }

    /// The recorded decode cost of a CPU with this many threads. `None` means not measured.
    pub fn decode_cost(&self, subject: &Subject, threads: usize) -> Option<DecodeCost> {
        let mut costs = self.read().decode_costs.into_iter();
        costs
            .find(|record| record.is_of(subject, threads))
            .map(|record| record.cost)
    }

    /// Records the decode cost of a CPU with this many threads. Formats that another process has
    /// recorded meanwhile remain.
    pub fn add_decode_cost(&mut self, subject: Subject, threads: usize, cost: DecodeCost) {
        self.change(|records| {
            let costs = &mut records.decode_costs;
            if let Some(known) = costs.iter_mut().find(|record| record.is_of(&subject, threads)) {
                return known.cost.merge(cost);
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
            let all = &mut records.prefetches;
            let is_new = |record: &PrefetchRecord| {
                let is_same = |new: &PrefetchRecord| {
                    new.subject == record.subject
                        && new.prefetch.format == record.prefetch.format
                        && new.prefetch.threads == record.prefetch.threads
                };
                added.iter().any(is_same)
            };
            all.retain(|record| !is_new(record));
            all.extend(added);
            all.drain(..all.len().saturating_sub(MAX_PREFETCHES));
        });
    }

    /// Removes the prefetch choices of a CPU, to measure them again.
    pub fn remove_prefetches(&mut self, subject: &Subject) {
        self.change(|records| records.prefetches.retain(|record| record.subject != *subject));
    }

    /// Smallest fraction of a device's free memory that was refused. `None` means nothing was
    /// refused.
    pub fn refused(&self, identity: &str) -> Option<f64> {
        let mut limits = self.read().limits.into_iter();
        limits
            .find(|limit| limit.identity == identity)
            .map(|limit| limit.refused)
    }

    /// Records that `bytes` were refused when `free` bytes were free.
    pub fn note_refused(&mut self, identity: &str, bytes: u64, free: u64) {
        let share = share(bytes, free).min(1.0);
        let refused = self.refused(identity).map_or(share, |known| known.min(share));
        let identity = identity.to_owned();
        self.change(|records| {
            records.limits.retain(|limit| limit.identity != identity);
            records.limits.push(Limit { identity, refused });
        });
    }

    /// Records that `bytes` were allocated when `free` bytes were free. If as large a fraction was
    /// refused before, another program was the cause, and that record is removed.
    pub fn note_had(&mut self, identity: &str, bytes: u64, free: u64) {
        if self
            .refused(identity)
            .is_some_and(|refused| refused <= share(bytes, free))
        {
            self.change(|records| records.limits.retain(|limit| limit.identity != identity));
        }
    }
}

fn share(bytes: u64, of: u64) -> f64 {
    bytes as f64 / of.max(1) as f64
}

/// Replaces the file atomically. Other workers may write it at the same time.
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

    /// A store in a file that nothing has read.
    fn store_in(file: PathBuf) -> Store {
        Store {
            file: Some(file),
            last: None,
        }
    }

    #[test]
    fn decode_costs_are_those_of_a_cpu_and_its_threads() {
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
        assert_eq!(store.decode_cost(&subject("1"), 2), None, "the oldest ones go");
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
        let with_one = with_threads("a", "Q4_K", "none", 1);
        store.add_prefetches(vec![with_one.clone()]);
        let of_a = vec![record("a", "Q8_0", "t1+1024"), record("a", "Q4_K", "t0+512"), with_one];
        assert_eq!(store.prefetches(&subject("a")), of_a);
        store.remove_prefetches(&subject("a"));
        assert_eq!(store.prefetches(&subject("a")), []);
        assert_eq!(store.prefetches(&subject("b")), vec![record("b", "Q4_K", "t1+4096")]);
        store.add_prefetches((0..200).map(|at| record("a", &at.to_string(), "none")).collect());
        assert_eq!(store.prefetches(&subject("a")).len(), MAX_PREFETCHES);
        assert_eq!(store.prefetches(&subject("b")), [], "the oldest ones go");
    }

    #[test]
    fn records_outlive_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("deeper").join("devices.json");
        let opened = || store_in(file.clone());
        let subject = |identity: &str, driver: &str, build: &str| Subject {
            identity: identity.to_owned(),
            driver: Some(driver.to_owned()),
            build: build.to_owned(),
            ..Subject::default()
        };
        let found = |speed| DeviceCheck {
            bytes_per_second: speed,
            ..DeviceCheck::default()
        };
        let mut store = opened();
        assert_eq!(store.check(&subject("a", "1", "cuda")), None);
        store.checked(subject("a", "1", "cuda"), found(1.0));
        store.checked(subject("a", "1", "vulkan"), found(2.0));
        store.checked(subject("b", "1", "cuda"), found(3.0));
        store.note_refused("a", 30, 40);
        store.note_refused("a", 36, 40);

        let mut store = opened();
        assert_eq!(store.check(&subject("a", "1", "cuda")), Some(found(1.0)));
        assert_eq!(store.check(&subject("a", "2", "cuda")), None, "another driver");
        let asks_more = Subject {
            check: 1,
            ..subject("a", "1", "cuda")
        };
        assert_eq!(store.check(&asks_more), None, "an earlier version of the check");
        assert_eq!((store.refused("a"), store.refused("b")), (Some(0.75), None));
        store.checked(subject("a", "2", "cuda"), found(4.0));
        assert_eq!(store.check(&subject("a", "1", "cuda")), None, "the old driver's");
        assert_eq!(store.check(&subject("a", "1", "vulkan")), Some(found(2.0)));
        store.note_had("a", 20, 40);
        assert_eq!(store.refused("a"), Some(0.75));
        store.note_had("a", 31, 40);
        assert_eq!(store.refused("a"), None);

        // A malformed file.
        fs::write(&file, b"{\"checks\": 3").expect("it is written");
        let mut store = opened();
        assert_eq!(store.check(&subject("b", "1", "cuda")), None);
        store.checked(subject("b", "1", "cuda"), found(5.0));
        assert_eq!(opened().check(&subject("b", "1", "cuda")), Some(found(5.0)));
    }

    /// It would rank first: no number is smaller than NaN.
    #[test]
    fn a_check_with_impossible_times_is_not_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = store_in(folder.path().join("devices.json"));
        for layer_seconds in [f64::NAN, f64::INFINITY, -1.0] {
            let check = DeviceCheck {
                layer_seconds,
                ..DeviceCheck::default()
            };
            store.checked(Subject::default(), check);
            assert_eq!(store.check(&Subject::default()), None, "{layer_seconds}");
        }
        store.checked(Subject::default(), DeviceCheck::default());
        assert!(store.check(&Subject::default()).is_some());
    }

    #[test]
    fn an_unreadable_check_loses_neither_the_others_nor_the_limits() {
        // `a`: of an earlier version, which named the mismatch `wrong`. `b`: of another shape.
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
            mismatch: Some("It miscomputes".to_owned()),
            bytes_per_second: 1.0,
            macs_per_second: 2.0,
            ..DeviceCheck::default()
        };
        let right = DeviceCheck {
            bytes_per_second: 3.0,
            macs_per_second: 4.0,
            ..DeviceCheck::default()
        };
        let kept = |store: &Store| {
            assert_eq!(check(store, "a").as_ref(), Some(&wrong));
            assert_eq!(check(store, "b"), None);
            assert_eq!(check(store, "c").as_ref(), Some(&right));
            assert_eq!(store.refused("a"), Some(0.75));
        };
        kept(&store);
        store.note_refused("b", 1, 2);
        kept(&store);
    }

    #[test]
    fn without_a_file_records_are_in_memory() {
        let mut store = Store::default();
        store.note_refused("a", 1, 2);
        assert_eq!(store.refused("a"), Some(0.5));
    }
}

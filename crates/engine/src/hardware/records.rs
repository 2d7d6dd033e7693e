//! What was found out about devices, kept from one start to the next. It may be deleted at any time.

use hearth_protocol::DeviceCheck;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was found out about all devices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Records {
    checks: Vec<Checked>,
    limits: Vec<Limit>,
}

/// What a check of a device is about. Another driver, or another Hearth, has to be checked again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The device's identity.
    pub identity: String,
    /// Its name: in a slot there may be another card tomorrow.
    pub name: String,
    /// The driver's name and version.
    pub driver: Option<String>,
    /// The build of Hearth.
    pub build: String,
    /// Hearth's version.
    pub version: String,
    /// Which check it was: [`DeviceCheck::VERSION`].
    #[serde(default)]
    pub check: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Checked {
    subject: Subject,
    check: DeviceCheck,
}

/// What of a device's memory could be had.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Limit {
    identity: String,
    /// Of the bytes that were said to be free, this share was refused together.
    refused: f64,
}

/// Where it is kept, and what was read or written last.
#[derive(Debug, Default)]
pub struct Store {
    file: Option<PathBuf>,
    last: Option<Records>,
}

/// That of this process.
static STORE: Mutex<Store> = Mutex::new(Store { file: None, last: None });

/// What is kept in this process.
pub fn store() -> MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what is found out about devices in this file; none: only in memory, as it is before the first call.
pub fn keep_in(file: Option<PathBuf>) {
    *store() = Store { file, last: None };
}

impl Store {
    /// What is there now: another process may have written it.
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

    /// What was found when this was checked; none: it was not.
    pub fn check(&self, subject: &Subject) -> Option<DeviceCheck> {
        let mut checks = self.read().checks.into_iter();
        checks
            .find(|checked| checked.subject == *subject)
            .map(|checked| checked.check)
    }

    /// Keeps what was found, in place of what was found of that device in that build before.
    pub fn checked(&mut self, subject: Subject, check: DeviceCheck) {
        self.change(|records| {
            let about = |subject: &Subject| (subject.identity.clone(), subject.build.clone());
            records
                .checks
                .retain(|checked| about(&checked.subject) != about(&subject));
            records.checks.push(Checked { subject, check });
        });
    }

    /// The smallest share of a device's free memory that was refused; none: nothing was.
    pub fn refused(&self, identity: &str) -> Option<f64> {
        let mut limits = self.read().limits.into_iter();
        limits
            .find(|limit| limit.identity == identity)
            .map(|limit| limit.refused)
    }

    /// Notes that `bytes` of `free` were refused.
    pub fn note_refused(&mut self, identity: &str, bytes: u64, free: u64) {
        let share = share(bytes, free).min(1.0);
        let refused = self.refused(identity).map_or(share, |known| known.min(share));
        let identity = identity.to_owned();
        self.change(|records| {
            records.limits.retain(|limit| limit.identity != identity);
            records.limits.push(Limit { identity, refused });
        });
    }

    /// Notes that `bytes` of `free` were had: where as much was refused before, that was another program's doing.
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

/// Replaces the file as a whole: who reads it meanwhile reads the old one.
fn write(file: &Path, records: &Records) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = file.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&beside, serde_json::to_vec(records)?)?;
    fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_out_outlives_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("deeper").join("devices.json");
        let opened = || Store {
            file: Some(file.clone()),
            last: None,
        };
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
        assert_eq!(store.check(&asks_more), None, "an earlier check, which asked less");
        assert_eq!((store.refused("a"), store.refused("b")), (Some(0.75), None));
        store.checked(subject("a", "2", "cuda"), found(4.0));
        assert_eq!(store.check(&subject("a", "1", "cuda")), None, "the old driver's");
        assert_eq!(store.check(&subject("a", "1", "vulkan")), Some(found(2.0)));
        store.note_had("a", 20, 40);
        assert_eq!(store.refused("a"), Some(0.75));
        store.note_had("a", 31, 40);
        assert_eq!(store.refused("a"), None);

        // Whatever is in it.
        fs::write(&file, b"{\"checks\": 3").expect("it is written");
        let mut store = opened();
        assert_eq!(store.check(&subject("b", "1", "cuda")), None);
        store.checked(subject("b", "1", "cuda"), found(5.0));
        assert_eq!(opened().check(&subject("b", "1", "cuda")), Some(found(5.0)));
    }

    #[test]
    fn without_a_file_it_lasts_as_long_as_the_process() {
        let mut store = Store::default();
        store.note_refused("a", 1, 2);
        assert_eq!(store.refused("a"), Some(0.5));
    }
}

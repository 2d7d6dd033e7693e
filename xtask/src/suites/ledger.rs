//! The ledger: when each part of each suite last passed on this machine, and with which files.
//!
//! It is in the cache folder, next to the shared build folder, so that runs in a checkout and in CI
//! rotate through the same parts. Losing it only costs time: parts without a record run.

use crate::process::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Version of the file; others are not read.
const VERSION: u32 = 1;

/// All records.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ledger {
    version: u32,
    /// By suite and part, such as `gpu 2/4`.
    records: BTreeMap<String, Record>,
    #[serde(skip)]
    file: PathBuf,
}

/// The record of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The last time it passed, in any checkout.
    pub passed: Option<Pass>,
    /// Hash of its inputs when it last passed in CI's work tree, whose only ignored files are those
    /// that the run itself makes.
    pub inputs: Option<String>,
    /// Whether its last run failed.
    pub failed: bool,
    /// Whether its last run in CI's work tree failed.
    #[serde(default)]
    pub failed_in_ci: bool,
}

/// A time at which a part passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// The commit that was checked out.
    pub commit: String,
    /// Seconds since 1970.
    pub time: u64,
}

impl Pass {
    /// Age in words.
    pub fn age(&self) -> String {
        let seconds = now().saturating_sub(self.time);
        let age = match seconds {
            0..3600 => format!("{} min", seconds / 60),
            3600..172_800 => format!("{} h", seconds / 3600),
            _ => format!("{} days", seconds / 86_400),
        };
        let commit = self.commit.get(..8).unwrap_or(&self.commit);
        format!("{age} ago at {commit}")
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

impl Ledger {
    /// Reads the ledger in this folder; empty if there is none, or it cannot be read.
    pub fn read(folder: &Path) -> Self {
        let file = folder.join("ledger.json");
        let empty = || Self {
            version: VERSION,
            records: BTreeMap::new(),
            file: file.clone(),
        };
        let Ok(text) = fs::read_to_string(&file) else {
            return empty();
        };
        match serde_json::from_str::<Self>(&text) {
            Ok(ledger) if ledger.version == VERSION => Self { file, ..ledger },
            _ => {
                println!("{} cannot be read; all tests count as not run.", file.display());
                empty()
            }
        }
    }

    /// The time at which a part passed, in seconds since 1970. `None` for a time in the future,
    /// which a wrong clock has written.
    pub fn passed_at(&self, suite: &str, part: usize, parts: usize) -> Option<u64> {
        let time = self.record(suite, part, parts)?.passed.as_ref()?.time;
        (time <= now()).then_some(time)
    }

    /// The record of a part; numbers begin with 1.
    pub fn record(&self, suite: &str, part: usize, parts: usize) -> Option<&Record> {
        self.records.get(&key(suite, part, parts))
    }

    /// Records a passed or failed part. `inputs` is their hash if the run was CI's.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set(&mut self, part: (&str, usize, usize), passed: bool, commit: &str, inputs: Option<&str>) -> Outcome {
        self.set_at(now(), part, passed, commit, inputs)
    }

    /// As [`Ledger::set`], at a time in seconds since 1970.
    pub(super) fn set_at(
        &mut self,
        time: u64,
        part: (&str, usize, usize),
        passed: bool,
        commit: &str,
        inputs: Option<&str>,
    ) -> Outcome {
        // Another run may have written it since.
        if let Some(folder) = self.file.parent() {
            self.records = Self::read(folder).records;
        }
        let record = self.records.entry(key(part.0, part.1, part.2)).or_default();
        record.failed = !passed;
        if inputs.is_some() {
            record.failed_in_ci = !passed;
        }
        if passed {
            record.passed = Some(Pass {
                commit: commit.to_owned(),
                time,
            });
            if let Some(inputs) = inputs {
                record.inputs = Some(inputs.to_owned());
            }
        }
        self.write()
    }

    /// Writes the file atomically.
    fn write(&self) -> Outcome {
        let failed = |error: std::io::Error| format!("{} could not be written ({error}).", self.file.display());
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        let new = self.file.with_extension(format!("{}.new", std::process::id()));
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &self.file))
            .map_err(failed)
    }
}

fn key(suite: &str, part: usize, parts: usize) -> String {
    format!("{suite} {part}/{parts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_and_a_failure_keeps_the_last_pass() {
        let folder = std::env::temp_dir().join(format!("hearth-ledger-{}", std::process::id()));
        let mut ledger = Ledger::read(&folder);
        assert_eq!(ledger.record("gpu", 2, 4), None);
        ledger.set(("gpu", 2, 4), true, "abc", Some("inputs")).expect("written");
        ledger.set(("gpu", 2, 4), true, "def", None).expect("written");
        ledger
            .set(("gpu", 2, 4), false, "ghi", Some("other inputs"))
            .expect("written");
        let reread = Ledger::read(&folder);
        let record = reread.record("gpu", 2, 4).expect("a record");
        assert_eq!(record.passed.as_ref().map(|pass| pass.commit.as_str()), Some("def"));
        assert_eq!((record.inputs.as_deref(), record.failed), (Some("inputs"), true));
        // A pass in another checkout does not clear a failure of CI.
        ledger.set(("gpu", 2, 4), true, "jkl", None).expect("written");
        let reread = Ledger::read(&folder);
        let record = reread.record("gpu", 2, 4).expect("a record");
        assert_eq!((record.failed, record.failed_in_ci), (false, true));
        assert_eq!(reread.record("gpu", 1, 4), None);
        fs::write(folder.join("ledger.json"), "{").expect("written");
        assert_eq!(Ledger::read(&folder).record("gpu", 2, 4), None);
        fs::remove_dir_all(&folder).expect("the folder of the test");
    }
}

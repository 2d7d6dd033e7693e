//! The cause of a process's death: out of memory, killed, or other.

use std::process::ExitStatus;

/// The system's count of OOM kills. Linux only: `oom_kill` of `/proc/vmstat`, which includes those
/// of memory cgroups. <https://docs.kernel.org/admin-guide/mm/index.html>
#[derive(Debug, Clone, Copy)]
pub(crate) struct KillCount(Option<u64>);

impl KillCount {
    /// The current count.
    pub fn now() -> Self {
        let counters = if cfg!(target_os = "linux") {
            std::fs::read_to_string("/proc/vmstat").unwrap_or_default()
        } else {
            String::new()
        };
        Self(oom_kills(&counters))
    }

    /// Whether a process has been killed since; most likely this one, as the largest.
    fn has_risen(self, now: Self) -> bool {
        matches!((self.0, now.0), (Some(before), Some(now)) if now > before)
    }
}

fn oom_kills(counters: &str) -> Option<u64> {
    let line = counters.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

/// The cause of a process's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// An allocation failed, or the OOM killer killed it.
    OutOfMemory,
    /// Killed for an unknown reason. Systems and their daemons do so when memory runs short; so can
    /// the user.
    Killed,
    /// It crashed or exited.
    Other,
}

impl Death {
    /// The cause, from the exit status, the last lines of the log, and the kill counts at its start
    /// (`started`) and after its death (`now`).
    pub fn new<'a>(
        status: ExitStatus,
        started: KillCount,
        now: KillCount,
        mut log: impl Iterator<Item = &'a str>,
    ) -> Self {
        if !status.success() && (has_no_memory_left(status) || log.any(says_out_of_memory)) {
            return Self::OutOfMemory;
        }
        if !was_killed(status) {
            Self::Other
        } else if started.has_risen(now) {
            Self::OutOfMemory
        } else {
            Self::Killed
        }
    }
}

/// Whether it is an out-of-memory message of Rust's standard library, C++'s or a driver.
fn says_out_of_memory(line: &str) -> bool {
    let allocation_failed = line.contains("memory allocation of ") && line.contains(" bytes failed");
    allocation_failed || line.contains("std::bad_alloc")
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    const SIGKILL: i32 = 9;
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(SIGKILL)
}

#[cfg(not(unix))]
fn was_killed(_: ExitStatus) -> bool {
    false
}

/// Whether the exit code is Windows' `STATUS_NO_MEMORY` or `STATUS_COMMITMENT_LIMIT`.
#[cfg(windows)]
fn has_no_memory_left(status: ExitStatus) -> bool {
    matches!(status.code().map(|code| code as u32), Some(0xC000_0017 | 0xC000_012D))
}

#[cfg(not(windows))]
fn has_no_memory_left(_: ExitStatus) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oom_kill_count_is_parsed() {
        assert_eq!(oom_kills("oom_killer 7\npgfault 1\noom_kill 12\nnuma 3\n"), Some(12));
        assert_eq!(oom_kills("pgfault 1\n"), None);
        assert_eq!(KillCount::now().0.is_some(), cfg!(target_os = "linux"));
    }

    #[cfg(unix)]
    #[test]
    fn out_of_memory_is_distinguished_from_other_deaths() {
        use std::os::unix::process::ExitStatusExt;
        let [killed, aborted, fell, exited, fine] = [9, 6, 11, 5 << 8, 0].map(ExitStatus::from_raw);
        let failed = "memory allocation of 123456 bytes failed";
        let thrown = "terminate called after throwing an instance of 'std::bad_alloc'";
        let (same, risen, unknown) = ([Some(3), Some(3)], [Some(3), Some(4)], [None, Some(1)]);
        for (status, counts, log, expected) in [
            (aborted, same, &["loading", failed][..], Death::OutOfMemory),
            (aborted, same, &[thrown], Death::OutOfMemory),
            (aborted, risen, &["assertion failed"], Death::Other),
            (fell, same, &[], Death::Other),
            (killed, same, &[], Death::Killed),
            (killed, unknown, &[], Death::Killed),
            (killed, risen, &[], Death::OutOfMemory),
            (exited, risen, &[], Death::Other),
            // It recovered from a failed allocation and exited normally.
            (fine, same, &[failed], Death::Other),
        ] {
            let [started, now] = counts.map(KillCount);
            assert_eq!(
                Death::new(status, started, now, log.iter().copied()),
                expected,
                "{status:?}, {counts:?}, {log:?}"
            );
        }
    }
}

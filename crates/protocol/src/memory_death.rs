//! The cause of a process's death: out of memory, killed, or other.

use std::process::ExitStatus;

/// The system's count of OOM kills. Linux only: `oom_kill` of `/proc/vmstat`, which includes kills
/// in memory cgroups. <https://docs.kernel.org/admin-guide/mm/index.html>
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

    /// Whether the count was higher later: the OOM killer has killed a process, most likely the
    /// worker, since it prefers the largest one.
    fn has_risen(self, later: Self) -> bool {
        matches!((self.0, later.0), (Some(before), Some(after)) if after > before)
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
    /// The cause, from the exit status, the last lines of the log, and the kill counts at the
    /// process's start and after its death.
    pub fn new<'a>(
        status: ExitStatus,
        kills_at_start: KillCount,
        kills_after: KillCount,
        mut log: impl Iterator<Item = &'a str>,
    ) -> Self {
        if !status.success() && (has_no_memory_left(status) || log.any(says_out_of_memory)) {
            return Self::OutOfMemory;
        }
        if !was_killed(status) {
            Self::Other
        } else if kills_at_start.has_risen(kills_after) {
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
        let [killed, aborted, crashed, exited, succeeded] = [9, 6, 11, 5 << 8, 0].map(ExitStatus::from_raw);
        let allocation_failure = "memory allocation of 123456 bytes failed";
        let bad_alloc = "terminate called after throwing an instance of 'std::bad_alloc'";
        let (unchanged, risen, unknown) = ([Some(3), Some(3)], [Some(3), Some(4)], [None, Some(1)]);
        for (status, counts, log, expected) in [
            (
                aborted,
                unchanged,
                &["loading", allocation_failure][..],
                Death::OutOfMemory,
            ),
            (aborted, unchanged, &[bad_alloc], Death::OutOfMemory),
            (aborted, risen, &["assertion failed"], Death::Other),
            (crashed, unchanged, &[], Death::Other),
            (killed, unchanged, &[], Death::Killed),
            (killed, unknown, &[], Death::Killed),
            (killed, risen, &[], Death::OutOfMemory),
            (exited, risen, &[], Death::Other),
            // It recovered from a failed allocation and exited normally.
            (succeeded, unchanged, &[allocation_failure], Death::Other),
        ] {
            let [kills_at_start, kills_after] = counts.map(KillCount);
            assert_eq!(
                Death::new(status, kills_at_start, kills_after, log.iter().copied()),
                expected,
                "{status:?}, {counts:?}, {log:?}"
            );
        }
    }
}

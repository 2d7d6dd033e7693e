//! How a process ended: out of memory, killed, or otherwise.

use std::process::ExitStatus;

/// How often the system had killed a process for want of memory when a worker was started. Only Linux counts:
/// `oom_kill` of `/proc/vmstat`, which has those of memory cgroups as well. <https://docs.kernel.org/admin-guide/mm/index.html>
#[derive(Debug, Clone, Copy)]
pub(crate) struct KillCount(Option<u64>);

impl KillCount {
    /// As it is now.
    pub fn now() -> Self {
        let counters = match cfg!(target_os = "linux") {
            true => std::fs::read_to_string("/proc/vmstat").unwrap_or_default(),
            false => String::new(),
        };
        Self(oom_kills(&counters))
    }

    /// Whether a process has been killed since: this one most likely, being the largest.
    fn has_risen(self, now: Self) -> bool {
        matches!((self.0, now.0), (Some(before), Some(now)) if now > before)
    }
}

fn oom_kills(counters: &str) -> Option<u64> {
    let line = counters.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

/// How a process ended, as far as memory is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// It asked for memory that there was not, or the system ended it to have memory back.
    OutOfMemory,
    /// Something killed it that gives no reason. Systems and their helpers do that where memory runs short; so can a person.
    Killed,
    /// It crashed, or ended by itself.
    Other,
}

impl Death {
    /// That of a process which ended so, having written these last lines to its log.
    /// `started` and `now`: the counts when it was started and after it ended.
    pub fn of<'a>(
        status: ExitStatus,
        started: KillCount,
        now: KillCount,
        mut log: impl Iterator<Item = &'a str>,
    ) -> Self {
        if !status.success() && (has_no_memory_left(status) || log.any(says_out_of_memory)) {
            return Self::OutOfMemory;
        }
        match was_killed(status) {
            true if started.has_risen(now) => Self::OutOfMemory,
            true => Self::Killed,
            false => Self::Other,
        }
    }
}

/// What Rust's standard library, C++'s and drivers write before they give up.
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

/// Whether Windows says so: `STATUS_NO_MEMORY`, `STATUS_COMMITMENT_LIMIT`.
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
    fn the_count_of_killed_processes_is_found_among_others() {
        assert_eq!(oom_kills("oom_killer 7\npgfault 1\noom_kill 12\nnuma 3\n"), Some(12));
        assert_eq!(oom_kills("pgfault 1\n"), None);
        assert_eq!(KillCount::now().0.is_some(), cfg!(target_os = "linux"));
    }

    #[cfg(unix)]
    #[test]
    fn a_death_for_want_of_memory_is_told_from_others() {
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
            // One that went on after a failed allocation ended as it should.
            (fine, same, &[failed], Death::Other),
        ] {
            let [started, now] = counts.map(KillCount);
            assert_eq!(
                Death::of(status, started, now, log.iter().copied()),
                expected,
                "{status:?}, {counts:?}, {log:?}"
            );
        }
    }
}

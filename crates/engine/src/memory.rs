//! Memory of this process: what it took at most, and giving back what is no longer used.

/// The largest resident memory of this process so far, in bytes; none where the system does not tell.
#[cfg(target_os = "linux")]
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The largest resident memory of this process so far, in bytes; none where the system does not tell.
#[cfg(all(unix, not(target_os = "linux")))]
pub fn peak() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one rusage where it is told to, and zeroes are a valid one should it fail.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    // macOS counts bytes, the other systems kibibytes.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    u64::try_from(usage.ru_maxrss).ok().map(|most| most * unit)
}

/// The largest resident memory of this process so far, in bytes; none where the system does not tell.
#[cfg(windows)]
pub fn peak() -> Option<u64> {
    use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
    use windows_sys::Win32::System::Threading::GetCurrentProcess;
    let size = u32::try_from(size_of::<PROCESS_MEMORY_COUNTERS>()).ok()?;
    let mut counters = PROCESS_MEMORY_COUNTERS {
        cb: size,
        ..Default::default()
    };
    // SAFETY: the handle is this process's own, and `size` is that of the counters to be written.
    let told = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &mut counters, size) };
    (told != 0).then_some(counters.PeakWorkingSetSize as u64)
}

/// The resident memory of this process now, in bytes; none where the system does not tell.
pub fn resident() -> Option<u64> {
    use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};
    let this = sysinfo::get_current_pid().ok()?;
    let mut system = System::new().ok()?;
    let kind = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[this]), false, kind);
    system.process(this).map(|process| process.memory())
}

/// Returns to the system what is free: the buffers that kernels keep, and what the allocator holds, as glibc does.
pub fn give_back() {
    hearth_kernels::scratch::release();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim only touches memory that nobody holds, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_what_was_touched() {
        let before = peak().expect("this system tells");
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = peak().expect("this system tells");
        assert!(after >= before.max(touched.len() as u64), "{before} {after}");
        let now = resident().expect("this system tells");
        // The two are counted by different means, on Linux a few pages apart.
        let slack = 1 << 20;
        assert!(
            now + slack >= touched.len() as u64 && now <= after + slack,
            "{now} {after}"
        );
    }
}

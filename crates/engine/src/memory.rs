//! Resident memory of processes, and the release of free memory to the system.

/// Peak resident memory of this process in bytes. `None` if unknown.
#[cfg(target_os = "linux")]
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Peak resident memory of this process in bytes. `None` if unknown.
#[cfg(all(unix, not(target_os = "linux")))]
pub fn peak() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one rusage to the pointer. If it fails, the zeroed value is valid.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    // macOS counts bytes, other systems kibibytes.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    u64::try_from(usage.ru_maxrss).ok().map(|max| max * unit)
}

/// Peak resident memory of this process in bytes. `None` if unknown.
#[cfg(windows)]
pub fn peak() -> Option<u64> {
    use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
    use windows_sys::Win32::System::Threading::GetCurrentProcess;
    let size = u32::try_from(size_of::<PROCESS_MEMORY_COUNTERS>()).ok()?;
    let mut counters = PROCESS_MEMORY_COUNTERS {
        cb: size,
        ..Default::default()
    };
    // SAFETY: the handle is the pseudo handle of this process, and `size` is the size of
    // `counters`.
    let success = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &mut counters, size) };
    (success != 0).then_some(counters.PeakWorkingSetSize as u64)
}

/// Current resident memory of this process in bytes. `None` if unknown.
pub fn resident() -> Option<u64> {
    resident_of(sysinfo::get_current_pid().ok()?)
}

fn resident_of(process: sysinfo::Pid) -> Option<u64> {
    use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};
    let mut system = System::new().ok()?;
    let kind = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[process]), false, kind);
    system.process(process).map(|process| process.memory())
}

/// Private resident memory of a process in bytes, without mapped files. `None` if it does not
/// exist.
#[cfg(target_os = "linux")]
pub fn private(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Resident memory of a process in bytes, which on this system includes mapped files. `None` if it
/// does not exist.
#[cfg(not(target_os = "linux"))]
pub fn private(process: u32) -> Option<u64> {
    resident_of(sysinfo::Pid::from_u32(process))
}

/// Returns free memory to the system: the kernels' scratch buffers, and glibc's free lists.
pub fn release() {
    hearth_kernels::scratch::release();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim accesses only free memory, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_touched_memory() {
        let before = peak().expect("known on this system");
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = peak().expect("known on this system");
        assert!(after >= before.max(touched.len() as u64), "{before} {after}");
        let now = resident().expect("known on this system");
        // The two have different sources, on Linux a few pages apart.
        let slack = 1 << 20;
        assert!(
            now + slack >= touched.len() as u64 && now <= after + slack,
            "{now} {after}"
        );
    }
}

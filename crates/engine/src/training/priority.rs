//! Leaving the processor to whatever else runs.

/// Gives this process the lowest ordinary priority. A system that refuses is no reason not to run.
#[cfg(unix)]
pub fn lower() {
    /// The lowest that every Unix has.
    const LOWEST: i32 = 19;
    // SAFETY: it changes a number of this process's own (0 is the caller), and touches no memory.
    let refused = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST) } != 0;
    if refused {
        tracing::warn!("the system keeps the priority: {}", std::io::Error::last_os_error());
    }
}

/// Gives this process a priority below that of others. A system that refuses is no reason not to run.
#[cfg(windows)]
pub fn lower() {
    use windows_sys::Win32::System::Threading::{BELOW_NORMAL_PRIORITY_CLASS, GetCurrentProcess, SetPriorityClass};
    // SAFETY: the handle is this process's own.
    let refused = unsafe { SetPriorityClass(GetCurrentProcess(), BELOW_NORMAL_PRIORITY_CLASS) } == 0;
    if refused {
        tracing::warn!("the system keeps the priority: {}", std::io::Error::last_os_error());
    }
}

//! Lowers the priority of this process.

/// Sets the lowest ordinary priority. Errors are logged.
#[cfg(unix)]
pub fn lower() {
    /// The highest nice value, which is the same on every Unix.
    const LOWEST: i32 = 19;
    // SAFETY: it changes the priority of this process (0 is the caller), and accesses no memory.
    let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST) } != 0;
    if failed {
        tracing::warn!("the priority could not be lowered: {}", std::io::Error::last_os_error());
    }
}

/// Sets a priority below normal. Errors are logged.
#[cfg(windows)]
pub fn lower() {
    use windows_sys::Win32::System::Threading::{BELOW_NORMAL_PRIORITY_CLASS, GetCurrentProcess, SetPriorityClass};
    // SAFETY: the handle is the pseudo handle of this process.
    let failed = unsafe { SetPriorityClass(GetCurrentProcess(), BELOW_NORMAL_PRIORITY_CLASS) } == 0;
    if failed {
        tracing::warn!("the priority could not be lowered: {}", std::io::Error::last_os_error());
    }
}

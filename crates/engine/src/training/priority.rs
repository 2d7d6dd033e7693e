//! Lowering the priority of this process.

/// Sets the lowest ordinary priority. Errors are logged.
#[cfg(unix)]
pub fn lower() {
    /// The highest nice value of every Unix.
    const LOWEST: i32 = 19;
    // SAFETY: it changes this process's own priority (0 is the caller), and touches no memory.
    let refused = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST) } != 0;
    if refused {
        tracing::warn!("the priority could not be lowered: {}", std::io::Error::last_os_error());
    }
}

/// Sets a priority below normal. Errors are logged.
#[cfg(windows)]
pub fn lower() {
    use windows_sys::Win32::System::Threading::{BELOW_NORMAL_PRIORITY_CLASS, GetCurrentProcess, SetPriorityClass};
    // SAFETY: the handle is this process's own.
    let refused = unsafe { SetPriorityClass(GetCurrentProcess(), BELOW_NORMAL_PRIORITY_CLASS) } == 0;
    if refused {
        tracing::warn!("the priority could not be lowered: {}", std::io::Error::last_os_error());
    }
}

//! Free disk space.

use std::path::Path;

/// Bytes available to this user on the file system of a folder; `None` if the system does not
/// report them.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast)] // The integer widths depend on the system.
pub fn free_space(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let folder = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut stats = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is NUL-terminated, statvfs writes one value through the pointer, and the
    // value was initialized with zeros, which are valid.
    let stats = unsafe {
        if libc::statvfs(folder.as_ptr(), stats.as_mut_ptr()) != 0 {
            return None;
        }
        stats.assume_init()
    };
    (stats.f_bavail as u64).checked_mul(stats.f_frsize as u64)
}

/// Bytes available to this user on the file system of a folder; `None` if the system does not
/// report them.
#[cfg(windows)]
pub fn free_space(folder: &Path) -> Option<u64> {
    use std::os::windows::ffi::OsStrExt;
    use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
    let folder: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let mut available = 0;
    // SAFETY: the path is NUL-terminated, the output pointer is valid, and the others may be null.
    let ok = unsafe {
        GetDiskFreeSpaceExW(
            folder.as_ptr(),
            &mut available,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    (ok != 0).then_some(available)
}

/// Bytes available to this user on the file system of a folder; `None` if the system does not
/// report them.
#[cfg(not(any(unix, windows)))]
pub fn free_space(_folder: &Path) -> Option<u64> {
    None
}

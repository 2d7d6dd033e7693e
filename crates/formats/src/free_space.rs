//! Free disk space.

use std::path::Path;

/// Free bytes for this user on the disk of a folder; `None` if the system does not report them.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast)] // The integer widths depend on the system.
pub fn free_space(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let folder = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut about = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is NUL-terminated; statvfs writes one value through the pointer, and zeroes
    // are a valid value if it fails.
    let about = unsafe {
        if libc::statvfs(folder.as_ptr(), about.as_mut_ptr()) != 0 {
            return None;
        }
        about.assume_init()
    };
    (about.f_bavail as u64).checked_mul(about.f_frsize as u64)
}

/// Free bytes for this user on the disk of a folder; `None` if the system does not report them.
#[cfg(windows)]
pub fn free_space(folder: &Path) -> Option<u64> {
    use std::os::windows::ffi::OsStrExt;
    use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
    let folder: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: the path is NUL-terminated, and the one non-null output pointer is valid.
    let ok = unsafe { GetDiskFreeSpaceExW(folder.as_ptr(), &mut free, std::ptr::null_mut(), std::ptr::null_mut()) };
    (ok != 0).then_some(free)
}

/// Free bytes for this user on the disk of a folder; `None` if the system does not report them.
#[cfg(not(any(unix, windows)))]
pub fn free_space(_folder: &Path) -> Option<u64> {
    None
}

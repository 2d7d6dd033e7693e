//! How much room a disk has.

use std::path::Path;

/// Bytes that this user may still write to the disk of a folder; none where the system does not
/// tell.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast)] // How wide the numbers are depends on the system.
pub fn free_space(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let folder = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut about = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path ends with a zero; statvfs writes one value where it is told to, and zeroes
    // are a valid one should it fail.
    let about = unsafe {
        if libc::statvfs(folder.as_ptr(), about.as_mut_ptr()) != 0 {
            return None;
        }
        about.assume_init()
    };
    (about.f_bavail as u64).checked_mul(about.f_frsize as u64)
}

/// Bytes that this user may still write to the disk of a folder; none where the system does not
/// tell.
#[cfg(windows)]
pub fn free_space(folder: &Path) -> Option<u64> {
    use std::os::windows::ffi::OsStrExt;
    use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
    let folder: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: the path ends with a zero, and the one number that is asked for has a place.
    let told = unsafe { GetDiskFreeSpaceExW(folder.as_ptr(), &mut free, std::ptr::null_mut(), std::ptr::null_mut()) };
    (told != 0).then_some(free)
}

/// Bytes that this user may still write to the disk of a folder; none where the system does not
/// tell.
#[cfg(not(any(unix, windows)))]
pub fn free_space(_folder: &Path) -> Option<u64> {
    None
}

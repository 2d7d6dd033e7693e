//! What the disk has left.

use std::path::Path;

/// Bytes that this process may still write to the disk of a folder; none where the system does not tell.
#[cfg(unix)]
pub fn free(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut about = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path ends with a zero, statvfs writes one statvfs where it is told to, and zeroes are a valid one should it fail.
    let about = unsafe {
        if libc::statvfs(path.as_ptr(), about.as_mut_ptr()) != 0 {
            return None;
        }
        about.assume_init()
    };
    // Some systems count in 32 bits.
    #[allow(clippy::unnecessary_cast)]
    let (blocks, size) = (about.f_bavail as u64, about.f_frsize as u64);
    Some(blocks.saturating_mul(size))
}

/// Bytes that this process may still write to the disk of a folder; none where the system does not tell.
#[cfg(windows)]
pub fn free(folder: &Path) -> Option<u64> {
    use std::os::windows::ffi::OsStrExt;
    use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
    let path: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let (mut free, nothing) = (0, std::ptr::null_mut());
    // SAFETY: the path ends with a zero, `free` takes the one number that is asked for, and the others may be null.
    let told = unsafe { GetDiskFreeSpaceExW(path.as_ptr(), &mut free, nothing, nothing) };
    (told != 0).then_some(free)
}

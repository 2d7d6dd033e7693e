//! Interposes the C library's functions that change files. Calls on files of the armed folder are
//! counted, and one of them fails.

mod cases;

pub use cases::select;

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Exit code of a process killed by a fault.
pub const KILLED: i32 = 99;

/// A fault at an operation. Operations are counted from 0.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// No fault: the operations are only counted.
    Count { cannot_exchange: bool },
    /// The process is killed before the operation, or in the middle of a write. Unsynced data is
    /// lost.
    Kill { at: usize, cannot_exchange: bool },
    /// The disk is full from this operation on.
    Full { at: usize },
    /// This operation fails, and no other.
    Broken { at: usize },
}

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Open,
    Write,
    Sync,
    Rename,
    Remove,
    Mkdir,
    Resize,
    Link,
}

const KINDS: [Kind; 8] = [
    Kind::Open,
    Kind::Write,
    Kind::Sync,
    Kind::Rename,
    Kind::Remove,
    Kind::Mkdir,
    Kind::Resize,
    Kind::Link,
];

impl Kind {
    /// Whether the operation fails on a full disk.
    pub fn needs_space(self) -> bool {
        matches!(self, Self::Open | Self::Write | Self::Mkdir | Self::Resize | Self::Link)
    }

    /// Whether the state of the files after a power failure depends on the operation.
    fn affects_durability(self) -> bool {
        matches!(self, Self::Sync | Self::Rename)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Mkdir => "mkdir",
            Self::Resize => "resize",
            Self::Link => "link",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exchange = |cannot_exchange: &bool| if *cannot_exchange { "apart" } else { "at once" };
        match self {
            Self::Count { cannot_exchange } => write!(f, "count 0 {}", exchange(cannot_exchange)),
            Self::Kill { at, cannot_exchange } => write!(f, "kill {at} {}", exchange(cannot_exchange)),
            Self::Full { at } => write!(f, "full {at} at once"),
            Self::Broken { at } => write!(f, "broken {at} at once"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.splitn(3, ' ');
        let kind = words.next().unwrap_or_default();
        let at = words.next().and_then(|at| at.parse().ok()).ok_or("no number")?;
        let cannot_exchange = words.next() == Some("apart");
        match kind {
            "count" => Ok(Self::Count { cannot_exchange }),
            "kill" => Ok(Self::Kill { at, cannot_exchange }),
            "full" => Ok(Self::Full { at }),
            "broken" => Ok(Self::Broken { at }),
            _ => Err(format!("no fault '{kind}'")),
        }
    }
}

pub fn write_kinds(path: &Path, kinds: &[Kind]) {
    let numbers: Vec<u8> = kinds.iter().map(|kind| *kind as u8).collect();
    fs::write(path, numbers).expect("it is written");
}

pub fn read_kinds(path: &Path) -> Vec<Kind> {
    let numbers = fs::read(path).expect("it is read");
    numbers.into_iter().map(|number| KINDS[number as usize]).collect()
}

/// The armed fault.
struct Armed {
    folder: Vec<u8>,
    fault: Fault,
    kinds: Vec<Kind>,
    /// Files with unsynced data.
    dirty: BTreeSet<(u64, u64)>,
}

static IS_ARMED: AtomicBool = AtomicBool::new(false);
static ARMED: Mutex<Option<Armed>> = Mutex::new(None);
/// For each file descriptor, whether its file is in the folder.
static IN_FOLDER: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];
/// Number of interposed calls, armed or not. Shows that interposition works.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Injects the fault into later operations on files of the folder.
pub fn arm(folder: &Path, fault: Fault) {
    let armed = Armed {
        folder: folder.as_os_str().as_bytes().to_owned(),
        fault,
        kinds: Vec::new(),
        dirty: BTreeSet::new(),
    };
    *ARMED.lock().unwrap_or_else(PoisonError::into_inner) = Some(armed);
    IS_ARMED.store(true, Ordering::SeqCst);
}

/// Ends the injection. Returns the kinds of all counted operations.
pub fn disarm() -> Vec<Kind> {
    IS_ARMED.store(false, Ordering::SeqCst);
    assert!(CALLS.load(Ordering::SeqCst) > 0, "the calls are interposed");
    let armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner).take();
    armed.map(|armed| armed.kinds).unwrap_or_default()
}

/// The outcome of an operation.
enum Outcome {
    Success,
    Error(c_int),
    Kill,
}

/// Counts an operation, and returns its outcome.
fn outcome(kind: Kind) -> Outcome {
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(armed) = armed.as_mut() else {
        return Outcome::Success;
    };
    let index = armed.kinds.len();
    armed.kinds.push(kind);
    match armed.fault {
        Fault::Kill { at, .. } if index == at => Outcome::Kill,
        Fault::Full { at } if index >= at && kind.needs_space() => Outcome::Error(libc::ENOSPC),
        Fault::Broken { at } if index == at => Outcome::Error(libc::EIO),
        _ => Outcome::Success,
    }
}

/// Ends the process as in a power failure: unsynced data is removed. The log is an exception, since
/// it is never synced and nothing depends on it.
fn kill() -> ! {
    IS_ARMED.store(false, Ordering::SeqCst);
    if let Some(armed) = ARMED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let mut folders = vec![std::path::PathBuf::from(std::ffi::OsStr::from_bytes(&armed.folder))];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
            {
                let Ok(metadata) = fs::symlink_metadata(&path) else {
                    continue;
                };
                if metadata.is_dir() {
                    folders.push(path);
                } else if armed.dirty.contains(&(metadata.dev(), metadata.ino())) && !path.ends_with("log.jsonl") {
                    let result = fs::OpenOptions::new()
                        .write(true)
                        .open(&path)
                        .and_then(|file| file.set_len(0));
                    result.expect("it is truncated");
                }
            }
        }
    }
    // SAFETY: `_exit` ends the process and has no preconditions.
    unsafe { libc::_exit(KILLED) }
}

fn fail(errno: c_int) -> c_int {
    // SAFETY: the pointer is to this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Executes an operation, with its fault if `is_counted`.
fn operate(kind: Kind, is_counted: bool, call: impl FnOnce() -> c_int) -> c_int {
    CALLS.fetch_add(1, Ordering::Relaxed);
    if !(is_counted && IS_ARMED.load(Ordering::SeqCst)) {
        return call();
    }
    match outcome(kind) {
        Outcome::Success => call(),
        Outcome::Error(errno) => fail(errno),
        Outcome::Kill => kill(),
    }
}

/// Whether a path is in the armed folder.
///
/// # Safety
/// `path` is a string that ends with NUL.
unsafe fn is_in_folder(path: *const c_char) -> bool {
    if !IS_ARMED.load(Ordering::SeqCst) {
        return false;
    }
    // SAFETY: guaranteed by the caller.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    armed.as_ref().is_some_and(|armed| path.starts_with(&armed.folder))
}

/// Whether a path, relative to a directory, is in the armed folder.
///
/// # Safety
/// See [`is_in_folder`].
unsafe fn is_in_folder_at(directory: c_int, path: *const c_char) -> bool {
    // SAFETY: guaranteed by the caller.
    mark(directory).is_some_and(|mark| mark.load(Ordering::SeqCst)) || unsafe { is_in_folder(path) }
}

fn mark(descriptor: c_int) -> Option<&'static AtomicBool> {
    usize::try_from(descriptor).ok().and_then(|index| IN_FOLDER.get(index))
}

fn is_marked(descriptor: c_int) -> bool {
    mark(descriptor).is_some_and(|mark| mark.load(Ordering::SeqCst))
}

fn set_dirty(descriptor: c_int, dirty: bool) {
    // SAFETY: a zeroed stat64 is valid.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` lives until the call returns.
    if unsafe { libc::fstat64(descriptor, &mut stat) } != 0 {
        return;
    }
    if let Some(armed) = ARMED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        let file = (stat.st_dev, stat.st_ino);
        if dirty {
            armed.dirty.insert(file);
        } else {
            armed.dirty.remove(&file);
        }
    }
}

/// Opens a file, and marks its descriptor if the file is in the armed folder.
///
/// # Safety
/// See `openat` of the C library.
unsafe fn open(directory: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    let in_folder = unsafe { is_in_folder_at(directory, path) };
    let changes_file = flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    let descriptor = operate(Kind::Open, in_folder && changes_file, || {
        // SAFETY: guaranteed by the caller.
        unsafe { libc::syscall(libc::SYS_openat, directory, path, flags, mode) as c_int }
    });
    if let Some(mark) = mark(descriptor) {
        mark.store(in_folder, Ordering::SeqCst);
    }
    descriptor
}

/// # Safety
/// See the C library. The mode, which is passed only with some flags, is read like any argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { open(libc::AT_FDCWD, path, flags, mode) }
}

/// # Safety
/// See [`open64`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { open(directory, path, flags, mode) }
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    if let Some(mark) = mark(descriptor) {
        mark.store(false, Ordering::SeqCst);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { libc::syscall(libc::SYS_close, descriptor) as c_int }
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: c_int, bytes: *const c_void, count: usize) -> isize {
    let system_call = |count: usize| {
        // SAFETY: guaranteed by the caller, whose count is not exceeded.
        unsafe { libc::syscall(libc::SYS_write, descriptor, bytes, count) as isize }
    };
    if !(is_marked(descriptor) && IS_ARMED.load(Ordering::SeqCst)) {
        return system_call(count);
    }
    set_dirty(descriptor, true);
    match outcome(Kind::Write) {
        Outcome::Success => system_call(count),
        Outcome::Error(errno) => fail(errno) as isize,
        Outcome::Kill => {
            system_call(count / 2);
            kill()
        }
    }
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut libc::off64_t,
    to: c_int,
    to_at: *mut libc::off64_t,
    count: usize,
    flags: std::ffi::c_uint,
) -> isize {
    let system_call = |count: usize| {
        // SAFETY: guaranteed by the caller.
        unsafe { libc::syscall(libc::SYS_copy_file_range, from, from_at, to, to_at, count, flags) as isize }
    };
    if !(is_marked(to) && IS_ARMED.load(Ordering::SeqCst)) {
        return system_call(count);
    }
    set_dirty(to, true);
    match outcome(Kind::Write) {
        Outcome::Success => system_call(count),
        Outcome::Error(errno) => fail(errno) as isize,
        Outcome::Kill => kill(),
    }
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    operate(Kind::Link, unsafe { is_in_folder_at(to_directory, to) }, || unsafe {
        libc::syscall(libc::SYS_linkat, from_directory, from, to_directory, to, flags) as c_int
    })
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(descriptor: c_int) -> c_int {
    let in_folder = is_marked(descriptor);
    // Nothing is flushed, because it would take most of the time and power does not fail here.
    // [`kill`] removes the data that was not synced.
    let result = operate(Kind::Sync, in_folder, || 0);
    if in_folder && result == 0 {
        set_dirty(descriptor, false);
    }
    result
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { fsync(descriptor) }
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(descriptor: c_int, length: libc::off64_t) -> c_int {
    operate(Kind::Resize, is_marked(descriptor), || {
        // SAFETY: guaranteed by the caller.
        unsafe { libc::syscall(libc::SYS_ftruncate, descriptor, length) as c_int }
    })
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: guaranteed by the caller.
    operate(Kind::Rename, unsafe { is_in_folder(to) }, || unsafe {
        libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) as c_int
    })
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat2(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: std::ffi::c_uint,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    let in_folder = unsafe { is_in_folder(to) };
    if in_folder {
        let armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(
            Fault::Count { cannot_exchange: true }
            | Fault::Kill {
                cannot_exchange: true, ..
            },
        ) = armed.as_ref().map(|armed| &armed.fault)
        {
            return fail(libc::EINVAL);
        }
    }
    operate(Kind::Rename, in_folder, || {
        // SAFETY: guaranteed by the caller.
        unsafe { libc::syscall(libc::SYS_renameat2, from_directory, from, to_directory, to, flags) as c_int }
    })
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: guaranteed by the caller.
    operate(Kind::Remove, unsafe { is_in_folder_at(directory, path) }, || unsafe {
        libc::syscall(libc::SYS_unlinkat, directory, path, flags) as c_int
    })
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

/// # Safety
/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: libc::mode_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    operate(Kind::Mkdir, unsafe { is_in_folder(path) }, || unsafe {
        libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path, mode) as c_int
    })
}

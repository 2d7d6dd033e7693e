//! The limit of memory that an input is held to, on every system and without a sanitizer: an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Limited;

#[global_allocator]
static LIMITED: Limited = Limited;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Counts `bytes`; false where they are too many.
fn take(bytes: usize) -> bool {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if now <= MOST.load(Ordering::Relaxed) {
        return true;
    }
    give(bytes);
    // Unbuffered, so that nothing is allocated. Code that handles a failed allocation continues; an abort prints nothing else.
    let _ = writeln!(
        std::io::stderr(),
        "hearth-fuzz: {bytes} bytes beyond the limit of memory were asked for"
    );
    false
}

fn give(bytes: usize) {
    NOW.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: the system's allocator does it all, or nothing is given.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match take(layout.size()) {
            // SAFETY: as the caller promises.
            true => unsafe { System.alloc(layout) },
            false => std::ptr::null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match take(layout.size()) {
            // SAFETY: as the caller promises.
            true => unsafe { System.alloc_zeroed(layout) },
            false => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there while it moves.
        if !take(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promises.
        let moved = unsafe { System.realloc(place, layout, size) };
        give(if moved.is_null() { size } else { layout.size() });
        moved
    }
}

/// Does `work` with at most `mib` MiB beside what is allocated already. More is not given: the process aborts, unless `work` can do without.
pub fn within<T>(mib: usize, work: impl FnOnce() -> T) -> T {
    struct Unlimited;
    impl Drop for Unlimited {
        fn drop(&mut self) {
            MOST.store(usize::MAX, Ordering::Relaxed);
        }
    }
    let _unlimited = Unlimited;
    MOST.store(NOW.load(Ordering::Relaxed).saturating_add(mib << 20), Ordering::Relaxed);
    work()
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn what_is_beyond_the_limit_is_not_given() {
        within(8, || {
            assert!(Vec::<u8>::new().try_reserve(4 << 20).is_ok());
            assert!(Vec::<u8>::new().try_reserve(9 << 20).is_err());
        });
        assert!(Vec::<u8>::new().try_reserve(9 << 20).is_ok());
    }
}

//! Memory limit per input, on every system and without a sanitizer: a counting allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

struct LimitedAllocator;

#[global_allocator]
static ALLOCATOR: LimitedAllocator = LimitedAllocator;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Counts an allocation; returns `false` if it exceeds the limit.
fn reserve(bytes: usize) -> bool {
    let total = ALLOCATED.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if total <= LIMIT.load(Ordering::Relaxed) {
        return true;
    }
    release(bytes);
    // Unbuffered, so that nothing is allocated. Code that handles a failed allocation continues; an
    // abort prints nothing else.
    let _ = writeln!(
        std::io::stderr(),
        "hearth-fuzz: an allocation of {bytes} bytes exceeds the memory limit"
    );
    false
}

fn release(bytes: usize) {
    ALLOCATED.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: forwards to the system allocator, or returns null.
unsafe impl GlobalAlloc for LimitedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if reserve(layout.size()) {
            // SAFETY: the caller upholds the same contract.
            unsafe { System.alloc(layout) }
        } else {
            std::ptr::null_mut()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if reserve(layout.size()) {
            // SAFETY: the caller upholds the same contract.
            unsafe { System.alloc_zeroed(layout) }
        } else {
            std::ptr::null_mut()
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        release(layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks exist during the move.
        if !reserve(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds the same contract.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        release(if moved.is_null() { size } else { layout.size() });
        moved
    }
}

/// Runs `work` with at most `mib` MiB in addition to existing allocations. Beyond that allocations
/// fail and the process aborts, unless `work` handles it.
pub fn within<T>(mib: usize, work: impl FnOnce() -> T) -> T {
    struct ResetLimit;
    impl Drop for ResetLimit {
        fn drop(&mut self) {
            LIMIT.store(usize::MAX, Ordering::Relaxed);
        }
    }
    let _unlimited = ResetLimit;
    LIMIT.store(
        ALLOCATED.load(Ordering::Relaxed).saturating_add(mib << 20),
        Ordering::Relaxed,
    );
    work()
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn allocations_beyond_the_limit_fail() {
        within(8, || {
            assert!(Vec::<u8>::new().try_reserve(4 << 20).is_ok());
            assert!(Vec::<u8>::new().try_reserve(9 << 20).is_err());
        });
        assert!(Vec::<u8>::new().try_reserve(9 << 20).is_ok());
    }
}

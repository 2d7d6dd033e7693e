//! Thread team: a thread pool with low-latency, work-stealing parallel loops.
//!
//! Decoding a token dispatches work some 150 times in a few milliseconds, so the latency of a
//! dispatch matters as much as the work. Workers spin, then yield, then park; an [`Awake`] guard
//! held during a forward pass prevents parking between dispatches. Even then they park after some
//! milliseconds without work, because the caller may be waiting for a GPU.
//!
//! A run consists of *work chunks* with consecutive indices; in this module, a chunk is a work
//! chunk. Each thread starts with its own range of chunks and processes it in order, so that it
//! streams from memory; idle threads steal chunks from the end of another thread's range.
//!
//! Callers split sums by chunk index, so results do not depend on the thread that takes a chunk.

pub mod trace;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard};
use std::thread;

/// Spins before a worker starts to yield: some tens of microseconds, longer than the gap between
/// two kernels of a layer.
const SPINS: u32 = 4096;
/// Yields before a worker parks, unless an [`Awake`] guard exists.
const YIELDS: u32 = 64;
/// Spins between two yields of a worker that a guard keeps awake, so that a busy machine gets the
/// core back.
const SPINS_PER_YIELD: u32 = 512;
/// Spins before a worker parks although a guard keeps it awake: some milliseconds, longer than the
/// serial parts of a forward pass on the CPU.
const SPINS_AWAKE: u32 = 1 << 17;

/// The work of a run: called with the index of each chunk.
type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// The range of chunks of a thread that no thread has taken: start in the lower half, end in the
/// upper half. Aligned to avoid false sharing.
#[derive(Default)]
#[repr(align(128))]
struct ChunkRange(AtomicU64);

impl ChunkRange {
    /// Publishes a range. The cache line may be owned by the thread that last took a chunk from it;
    /// a release store does not wait for the line.
    fn set(&self, chunks: Range<usize>) {
        self.0
            .store(chunks.start as u64 | (chunks.end as u64) << 32, Ordering::Release);
    }

    /// Takes the chunk that `pop` removes from the range; `None` if the range is empty.
    #[inline]
    fn take(&self, pop: fn(&mut Range<u32>) -> u32) -> Option<usize> {
        let mut current = self.0.load(Ordering::Acquire);
        loop {
            let mut range = current as u32..(current >> 32) as u32;
            if range.is_empty() {
                return None;
            }
            let chunk = pop(&mut range);
            let new = u64::from(range.start) | u64::from(range.end) << 32;
            match self
                .0
                .compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(chunk as usize),
                Err(actual) => current = actual,
            }
        }
    }
}

/// Removes and returns the first chunk of a range, which is not empty.
fn pop_front(range: &mut Range<u32>) -> u32 {
    range.start += 1;
    range.start - 1
}

/// Removes and returns the last chunk of a range, which is not empty.
fn pop_back(range: &mut Range<u32>) -> u32 {
    range.end -= 1;
    range.end
}

/// A value in its own cache lines, so that writes to its neighbors do not delay its readers (false
/// sharing).
#[derive(Default)]
#[repr(align(128))]
struct CacheAligned<T>(T);

/// The data that a worker reads when a run starts.
struct Run {
    /// Number of runs so far: when it changes, idle workers look for chunks again.
    number: AtomicUsize,
    /// The work. Written only while no chunk is unfinished, read only by the holder of an
    /// unfinished one.
    work: UnsafeCell<*const Work<'static>>,
}

/// State shared by the threads of a team.
struct Shared {
    /// The chunks of each possible thread.
    ranges: Box<[ChunkRange]>,
    /// The current run, written only at its start.
    current: CacheAligned<Run>,
    /// Number of chunks that no thread has reported as finished.
    unfinished: CacheAligned<AtomicUsize>,
    /// Payload of the first panic of a chunk.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Number of threads, including the caller.
    size: AtomicUsize,
    /// Number of [`Awake`] guards.
    guards: AtomicUsize,
    /// Number of idle workers that wait for `wake_idle`.
    parked: AtomicUsize,
    /// Lowest index of the surplus workers that wait for `wake_surplus`; [`NONE`] means none waits.
    surplus_from: AtomicUsize,
    quit: AtomicBool,
    lock: Mutex<()>,
    wake_idle: Condvar,
    wake_surplus: Condvar,
}

/// See [`Shared::surplus_from`].
const NONE: usize = usize::MAX;

// SAFETY: `Run::work` is the only part that is not Sync; taking a chunk orders the reads of the
// work after its write (see `run_chunks`).
unsafe impl Sync for Shared {}
// SAFETY: the target of `work` is Sync and is dereferenced only while `Team::run` keeps it alive.
unsafe impl Send for Shared {}

thread_local! {
    /// `true` while this thread executes a chunk; a nested run is then executed inline.
    static IN_WORK_CHUNK: Cell<bool> = const { Cell::new(false) };
}

/// Locks, ignoring poison: no mutex here guards state that a panic could leave inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// Takes a chunk for thread `index` of `threads`: from the start of the thread's own range,
    /// else from the end of another thread's. `None` means that all chunks are taken.
    #[inline]
    fn take(&self, index: usize, threads: usize) -> Option<usize> {
        let ranges = &self.ranges[..threads];
        ranges[index]
            .take(pop_front)
            .or_else(|| (1..threads).find_map(|offset| ranges[(index + offset) % threads].take(pop_back)))
    }

    /// Runs chunks as thread `index` until all are taken, then reports the finished ones together:
    /// threads would contend for a counter that is updated after each chunk.
    fn run_chunks(&self, index: usize, threads: usize) {
        let mut finished = 0;
        while let Some(chunk) = self.take(index, threads) {
            // SAFETY: the chunk is unfinished, so the work is not being written, and it is alive
            // because `Team::run` returns only when `unfinished` is zero.
            let work = unsafe { &**self.current.0.work.get() };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(chunk))) {
                lock(&self.panic).get_or_insert(panic);
            }
            finished += 1;
        }
        if finished > 0 {
            self.unfinished.0.fetch_sub(finished, Ordering::Release);
        }
    }

    /// Wakes parked workers for a run of `threads` threads.
    fn wake(&self, threads: usize) {
        if self.parked.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.lock));
            self.wake_idle.notify_all();
        }
        // Surplus workers sleep through the runs of fewer threads.
        if self.surplus_from.load(Ordering::SeqCst) < threads {
            let guard = lock(&self.lock);
            self.surplus_from.store(NONE, Ordering::SeqCst);
            drop(guard);
            self.wake_surplus.notify_all();
        }
    }

    /// Returns `true` if worker `index` is beyond the size of the team.
    fn is_surplus(&self, index: usize) -> bool {
        index >= self.size.load(Ordering::SeqCst) && !self.quit.load(Ordering::SeqCst)
    }

    /// Returns `true` if worker `index`, which has found no more chunks in run `last_run`, may
    /// park. Guards keep it awake unless `ignore_guards`. A surplus worker parks in
    /// [`park_surplus`](Self::park_surplus).
    fn may_park(&self, index: usize, last_run: usize, ignore_guards: bool) -> bool {
        let kept_awake = !ignore_guards && self.guards.load(Ordering::SeqCst) > 0;
        let idle = self.current.0.number.load(Ordering::SeqCst) == last_run && !kept_awake;
        idle && !self.is_surplus(index) && !self.quit.load(Ordering::SeqCst)
    }

    /// Waits while worker `index` may park; see [`may_park`](Self::may_park).
    fn park(&self, index: usize, last_run: usize, ignore_guards: bool) {
        self.parked.fetch_add(1, Ordering::SeqCst);
        self.wait(&self.wake_idle, || self.may_park(index, last_run, ignore_guards));
        self.parked.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits until worker `index` is no longer surplus and a run begins.
    fn park_surplus(&self, index: usize) {
        self.wait(&self.wake_surplus, || {
            if !self.is_surplus(index) {
                return false;
            }
            self.surplus_from.fetch_min(index, Ordering::SeqCst);
            // Checks again: a run that grew the team before may not have seen this worker.
            self.is_surplus(index)
        });
    }

    /// Waits while `should_wait` returns true. It is called with the lock held.
    fn wait(&self, condvar: &Condvar, should_wait: impl Fn() -> bool) {
        let mut guard = lock(&self.lock);
        while should_wait() {
            guard = condvar.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Main loop of worker `index`.
    fn work(&self, index: usize) {
        IN_WORK_CHUNK.set(true);
        let mut spins = 0_u32;
        let mut last_run = 0;
        while !self.quit.load(Ordering::Relaxed) {
            let size = self.size.load(Ordering::Relaxed);
            if index >= size {
                self.park_surplus(index);
                continue;
            }
            let run = self.current.0.number.load(Ordering::Acquire);
            if run != last_run {
                last_run = run;
                self.run_chunks(index, size);
                spins = 0;
                continue;
            }
            spins = spins.saturating_add(1);
            if spins < SPINS {
                std::hint::spin_loop();
            } else if spins < SPINS_AWAKE && self.guards.load(Ordering::Relaxed) > 0 {
                match spins % SPINS_PER_YIELD {
                    0 => thread::yield_now(),
                    _ => std::hint::spin_loop(),
                }
            } else if spins < SPINS + YIELDS {
                thread::yield_now();
            } else {
                self.park(index, last_run, spins >= SPINS_AWAKE);
                spins = 0;
            }
        }
    }
}

/// A team of threads: the caller and its workers.
pub struct Team {
    shared: Arc<Shared>,
    /// Started workers; locked during a run.
    workers: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Team {
    /// A team of `threads` threads, including the caller. The number is clamped to between one and
    /// the number of hardware threads, because threads that wait for a core delay the others.
    /// Workers start on first use.
    pub fn new(threads: usize) -> Self {
        let shared = Shared {
            ranges: (0..max_threads()).map(|_| ChunkRange::default()).collect(),
            current: CacheAligned(Run {
                number: AtomicUsize::new(0),
                work: UnsafeCell::new(&|_| ()),
            }),
            unfinished: CacheAligned::default(),
            panic: Mutex::new(None),
            size: AtomicUsize::new(clamp_threads(threads)),
            guards: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            surplus_from: AtomicUsize::new(NONE),
            quit: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake_idle: Condvar::new(),
            wake_surplus: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            workers: Mutex::new(Vec::new()),
        }
    }

    /// Number of threads of a run, including the caller.
    pub fn threads(&self) -> usize {
        self.shared.size.load(Ordering::SeqCst)
    }

    /// Sets the number of threads from the next run on; see [`Team::new`]. Costs nothing until
    /// then: workers that become surplus park, and the next run of more threads wakes them.
    pub fn set_threads(&self, threads: usize) {
        self.shared.size.store(clamp_threads(threads), Ordering::SeqCst);
    }

    /// Keeps the workers awake until the guard is dropped.
    pub fn enter(&self) -> Awake<'_> {
        self.shared.guards.fetch_add(1, Ordering::SeqCst);
        self.shared.wake(self.threads());
        Awake(&self.shared)
    }

    /// Calls `work` once with every index below `chunks`, on any thread of the team, and returns
    /// when all calls have returned. Nested runs are executed inline; concurrent calls wait for
    /// each other.
    ///
    /// # Panics
    /// If a chunk panics: the panic resumes in the caller after the other chunks have finished.
    pub fn run(&self, chunks: usize, work: &Work<'_>) {
        let threads = self.threads();
        if trace::run(chunks, work) {
            return;
        }
        if chunks <= 1 || threads == 1 || IN_WORK_CHUNK.get() || u32::try_from(chunks).is_err() {
            (0..chunks).for_each(work);
            return;
        }
        let mut workers = lock(&self.workers);
        self.start(&mut workers);
        let shared = &*self.shared;
        let work: *const Work<'_> = work;
        // SAFETY: no chunk is unfinished, so no thread reads the work. The lifetime is erased only
        // until `unfinished` is zero again, which is awaited below on every path: chunks do not
        // unwind.
        unsafe {
            *shared.current.0.work.get() = std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work);
        }
        shared.unfinished.0.store(chunks, Ordering::Relaxed);
        for (thread, range) in shared.ranges.iter().enumerate().take(threads) {
            range.set(thread * chunks / threads..(thread + 1) * chunks / threads);
        }
        shared.current.0.number.fetch_add(1, Ordering::SeqCst);
        shared.wake(threads);
        IN_WORK_CHUNK.set(true);
        shared.run_chunks(0, threads);
        IN_WORK_CHUNK.set(false);
        let mut spins = 0_u32;
        while shared.unfinished.0.load(Ordering::Acquire) != 0 {
            spins = spins.saturating_add(1);
            if spins < SPINS {
                std::hint::spin_loop()
            } else {
                thread::yield_now()
            }
        }
        let panic = lock(&shared.panic).take();
        drop(workers);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Starts missing workers. If one cannot be started, the other threads take its chunks.
    fn start(&self, workers: &mut Vec<thread::JoinHandle<()>>) {
        for index in workers.len() + 1..self.threads() {
            let shared = self.shared.clone();
            let worker = thread::Builder::new()
                .name(format!("team-{index}"))
                .spawn(move || shared.work(index));
            match worker {
                Ok(worker) => workers.push(worker),
                Err(_) => break,
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        drop(lock(&self.shared.lock));
        self.shared.wake_idle.notify_all();
        self.shared.wake_surplus.notify_all();
        for worker in lock(&self.workers).drain(..) {
            // A worker catches every panic of its chunks, so there is no error to report.
            let _ = worker.join();
        }
    }
}

/// Guard that keeps the workers of a team awake.
pub struct Awake<'a>(&'a Shared);

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lower bound of [`max_threads`], set by [`oversubscribe`].
static MIN_THREADS: AtomicUsize = AtomicUsize::new(1);

/// Allows a team to have this many threads even if there are fewer hardware threads, for tests and
/// simulations. Must be called before any team is used.
#[doc(hidden)]
pub fn oversubscribe(threads: usize) {
    MIN_THREADS.fetch_max(threads, Ordering::Relaxed);
}

/// Maximum number of threads of a team: the hardware threads, or the number set by
/// [`oversubscribe`] if that is higher.
fn max_threads() -> usize {
    static MAX_THREADS: LazyLock<usize> = LazyLock::new(|| {
        let available = thread::available_parallelism().map_or(1, usize::from);
        available.max(MIN_THREADS.load(Ordering::Relaxed))
    });
    *MAX_THREADS
}

/// Clamps a number of threads to the range that a team may have.
fn clamp_threads(threads: usize) -> usize {
    threads.clamp(1, max_threads())
}

static GLOBAL: LazyLock<Team> = LazyLock::new(|| Team::new(max_threads()));

/// See [`Team::set_threads`].
pub fn set_threads(threads: usize) {
    GLOBAL.set_threads(threads);
}

/// See [`Team::threads`].
pub fn threads() -> usize {
    GLOBAL.threads()
}

/// See [`Team::enter`].
pub fn enter() -> Awake<'static> {
    GLOBAL.enter()
}

/// See [`Team::run`].
///
/// # Panics
/// If a chunk panics.
pub fn run(chunks: usize, work: &Work<'_>) {
    GLOBAL.run(chunks, work);
}

/// Splits `data` into work chunks of `size` elements (the last may be shorter) and calls `work`
/// with the index and elements of each.
///
/// # Panics
/// If a chunk panics.
pub fn run_over<T: Send>(data: &mut [T], size: usize, work: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let (size, data) = (size.max(1), Scattered::new(data));
    run(data.len().div_ceil(size), &|chunk| {
        let start = chunk * size;
        // SAFETY: chunks do not overlap, and each index is used once.
        work(chunk, unsafe { data.slice(start, size.min(data.len() - start)) });
    });
}

/// A slice whose disjoint parts several threads write.
pub(crate) struct Scattered<'a, T> {
    start: *mut T,
    length: usize,
    slice: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: callers of `slice` guarantee that live parts do not overlap, so only one thread at a time
// uses an element.
unsafe impl<T: Send> Sync for Scattered<'_, T> {}

impl<'a, T> Scattered<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            length: slice.len(),
            slice: std::marker::PhantomData,
        }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// The address of an element, for prefetching.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn address(&self, element: usize) -> *const T {
        self.start.wrapping_add(element)
    }

    /// Elements `start..start + length`.
    ///
    /// # Safety
    /// No other live part may overlap this one.
    #[inline]
    #[allow(clippy::mut_from_ref)] // Exclusive, as the caller guarantees.
    pub unsafe fn slice(&self, start: usize, length: usize) -> &mut [T] {
        assert!(start <= self.length && length <= self.length - start);
        // SAFETY: within the slice, as just checked; exclusive, as the caller guarantees.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Number of calls for each chunk of a run.
    fn count_calls(team: &Team, chunks: usize) -> Vec<u32> {
        let counts: Vec<AtomicU32> = (0..chunks).map(|_| AtomicU32::new(0)).collect();
        team.run(chunks, &|chunk| {
            counts[chunk].fetch_add(1, Ordering::Relaxed);
        });
        counts.into_iter().map(AtomicU32::into_inner).collect()
    }

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 8] {
            let team = Team::new(threads);
            for chunks in [0, 1, 2, 3, 17, 1000] {
                assert_eq!(
                    count_calls(&team, chunks),
                    vec![1; chunks],
                    "{threads} threads, {chunks} chunks"
                );
            }
        }
    }

    #[test]
    fn many_short_runs_lose_no_chunk() {
        let team = Team::new(2);
        let _awake = team.enter();
        for run in 0..20_000 {
            assert_eq!(count_calls(&team, 2 + run % 5), vec![1; 2 + run % 5]);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_survives() {
        let team = Team::new(2);
        for _ in 0..50 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                team.run(8, &|chunk| assert!(chunk != 5, "chunk five"));
            }));
            let message = result.expect_err("the panic of chunk 5");
            assert!(format!("{:?}", message.downcast_ref::<&str>()).contains("chunk five"));
            assert_eq!(count_calls(&team, 8), vec![1; 8]);
        }
    }

    #[test]
    fn nested_runs_are_inline() {
        let team = Team::new(2);
        let calls = AtomicU32::new(0);
        team.run(4, &|_| {
            team.run(4, &|_| {
                calls.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(calls.into_inner(), 16);
    }

    #[test]
    fn concurrent_callers_are_serialized() {
        let team = Team::new(2);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| assert_eq!(count_calls(&team, 9), vec![1; 9])));
            }
        });
    }

    #[test]
    fn the_number_of_threads_can_change_between_runs() {
        let team = Team::new(2);
        for threads in [1, 2, 1, 4, 2, 0] {
            team.set_threads(threads);
            assert!((1..=max_threads()).contains(&team.threads()));
            assert_eq!(count_calls(&team, 33), vec![1; 33]);
        }
    }

    #[test]
    fn parked_workers_wake() {
        let team = Team::new(2);
        for _ in 0..5 {
            assert_eq!(count_calls(&team, 3), vec![1; 3]);
            while team.shared.parked.load(Ordering::SeqCst) == 0 && team.threads() > 1 {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn surplus_workers_sleep_until_a_run_needs_them() {
        let team = Team::new(2);
        if team.threads() == 1 {
            return;
        }
        for _ in 0..20 {
            team.set_threads(2);
            assert_eq!(count_calls(&team, 9), vec![1; 9]);
            team.set_threads(1);
            // A worker that was parked as idle notices here that it is surplus.
            drop(team.enter());
            while team.shared.surplus_from.load(Ordering::SeqCst) == NONE {
                thread::yield_now();
            }
            assert_eq!(count_calls(&team, 9), vec![1; 9]);
            let _awake = team.enter();
            assert_eq!(team.shared.surplus_from.load(Ordering::SeqCst), 1);
            team.set_threads(2);
            // Both threads must run at the same time to pass.
            let barrier = std::sync::Barrier::new(2);
            team.run(2, &|_| {
                barrier.wait();
            });
        }
    }

    #[test]
    fn workers_that_are_kept_awake_park_if_nothing_comes() {
        let team = Team::new(2);
        let _awake = team.enter();
        for _ in 0..3 {
            assert_eq!(count_calls(&team, 3), vec![1; 3]);
            while team.shared.parked.load(Ordering::SeqCst) == 0 && team.threads() > 1 {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn run_over_visits_every_element() {
        let mut data = vec![0_usize; 103];
        run_over(&mut data, 10, &|chunk, part| part.fill(chunk + 1));
        assert!(data.iter().enumerate().all(|(i, part)| *part == i / 10 + 1));
    }
}

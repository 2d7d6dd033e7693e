//! Pooled buffers of activations and outputs, reused after they are dropped: allocating and zeroing
//! the pages of a new buffer of some megabytes takes about a tenth of the time of the product that
//! fills it.

use bytemuck::{AnyBitPattern, NoUninit};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a cache line. In a buffer aligned to it, no vector crosses a line.
pub(crate) const LINE: usize = 64;
/// Words by which buffers are longer than requested, so that they can be aligned to a cache line.
pub(crate) const SLACK: usize = LINE / size_of::<u32>() - 1;
/// Minimum words of a pooled buffer; the allocator handles smaller ones.
const MIN_POOLED: usize = 16 * 1024;
/// Pooled and used words together may exceed the peak use by one part in this many: a step requests
/// buffers of the same lengths as the previous step in a different order.
const SPARE_FRACTION: usize = 16;
/// Further words that the pool may hold (16 MiB): the buffers of a layer's operations differ in
/// length and are not used together, so they do not all fit in the peak use.
const SPARE_WORDS: usize = 4 << 20;

/// Steps with fewer rows, such as decode, do not change the pool: their buffers are small.
const MIN_ROWS: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// Unused buffers, and usage statistics.
struct Pool {
    /// Unused buffers, the least recently used first.
    unused: Vec<Vec<u32>>,
    /// Words in use.
    in_use: usize,
    /// Peak of `in_use`.
    peak: usize,
    /// Rows of the last step that had at least [`MIN_ROWS`].
    rows: usize,
}

impl Pool {
    const fn new() -> Self {
        Self {
            unused: Vec::new(),
            in_use: 0,
            peak: 0,
            rows: 0,
        }
    }

    /// Returns `true` if buffers of `available` words (or rows) may be used for `needed`: they must
    /// be long enough, and at most a quarter longer.
    fn fits(needed: usize, available: usize) -> bool {
        (needed..=needed + needed / 4).contains(&available)
    }

    /// Takes the shortest unused buffer that [`fits`](Self::fits) `count` words. If there is none,
    /// frees the least recently used buffers if the pool is too large.
    fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        let candidates = self.unused.iter().enumerate();
        let candidates = candidates.filter(|(_, words)| Self::fits(count, words.len()));
        let index = candidates.min_by_key(|(_, words)| words.len()).map(|(index, _)| index);
        let buffer = index.map(|index| self.unused.remove(index));
        self.in_use += buffer.as_ref().map_or(count, Vec::len);
        self.peak = self.peak.max(self.in_use);
        if buffer.is_none() {
            self.trim();
        }
        buffer
    }

    /// See [`begin_step`].
    fn begin_step(&mut self, rows: usize) {
        if rows < MIN_ROWS {
            return;
        }
        if !Self::fits(rows, self.rows) {
            self.release();
        }
        self.rows = rows;
    }

    /// Frees all unused buffers.
    fn release(&mut self) {
        self.unused = Vec::new();
        self.peak = self.in_use;
    }

    /// Returns a buffer to the pool.
    fn put_back(&mut self, words: Vec<u32>) {
        self.in_use -= words.len();
        self.unused.push(words);
    }

    /// Frees the least recently used buffers until the pool has at most its spare words.
    fn trim(&mut self) {
        let total = self.in_use + self.unused.iter().map(Vec::len).sum::<usize>();
        let mut surplus = total.saturating_sub(self.peak + self.peak / SPARE_FRACTION + SPARE_WORDS);
        let mut freed = 0;
        while surplus > 0 && freed < self.unused.len() {
            surplus = surplus.saturating_sub(self.unused[freed].len());
            freed += 1;
        }
        self.unused.drain(..freed);
    }
}

/// Words before the first cache line boundary; at most [`SLACK`].
pub(crate) fn before_line(words: &[u32]) -> usize {
    words.as_ptr().align_offset(LINE).min(SLACK)
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pooled buffer of elements of 16 bits or of whole words, whose initial values are unspecified.
/// Returned to the pool when dropped.
pub struct Scratch<E> {
    /// The whole buffer, which may be longer than requested.
    words: Vec<u32>,
    length: usize,
    elements: PhantomData<E>,
}

impl<E> Scratch<E> {
    /// Takes the smallest pooled buffer that fits and is not much larger, or allocates one.
    pub fn new(length: usize) -> Self {
        let count = (length * size_of::<E>()).div_ceil(size_of::<u32>()) + SLACK;
        let pooled = if count < MIN_POOLED { None } else { pool().take(count) };
        let mut words = pooled.unwrap_or_else(|| vec![0; count]);
        if cfg!(debug_assertions) {
            // NaN in f32 and bf16, so that reads of unwritten elements are noticed.
            words.fill(u32::MAX);
        }
        Self {
            words,
            length,
            elements: PhantomData,
        }
    }

    /// The range of words that contain the elements.
    fn range(&self) -> Range<usize> {
        let first = before_line(&self.words);
        first..first + (self.length * size_of::<E>()).div_ceil(size_of::<u32>())
    }
}

impl<E> Drop for Scratch<E> {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        if words.len() >= MIN_POOLED {
            pool().put_back(words);
        }
    }
}

impl<E: AnyBitPattern> Deref for Scratch<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &bytemuck::cast_slice(&self.words[self.range()])[..self.length]
    }
}

impl<E: AnyBitPattern + NoUninit> DerefMut for Scratch<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        let range = self.range();
        &mut bytemuck::cast_slice_mut(&mut self.words[range])[..self.length]
    }
}

/// Frees all unused buffers. Call it when idle: training and long prompts need larger buffers than
/// chat.
pub fn release() {
    pool().release();
}

/// Prepares the pool for a step through a model with this many rows: frees the unused buffers if
/// the buffers of the previous step do not fit. Otherwise the pool would keep buffers for the
/// chunks of a prompt of every length.
pub fn begin_step(rows: usize) {
    pool().begin_step(rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo xtask test` sets `HEARTH_CHECKED` when it runs these tests with debug assertions.
    #[test]
    fn unwritten_elements_are_nan_with_debug_assertions() {
        let is_checked = std::env::var_os("HEARTH_CHECKED").is_some();
        assert!(
            cfg!(debug_assertions) || !is_checked,
            "debug assertions were requested and are off"
        );
        for length in [100, MIN_POOLED] {
            let (floats, halves) = (Scratch::<f32>::new(length), Scratch::<half::bf16>::new(length));
            let all_nan = floats.iter().all(|x| x.is_nan()) && halves.iter().all(|x| x.is_nan());
            assert!(all_nan || !is_checked, "{length}");
        }
    }

    #[test]
    fn buffers_of_a_step_are_kept_for_steps_that_they_fit() {
        let mut pool = Pool::new();
        // Rows of a step, and whether the buffers of the previous step are kept for it.
        let steps = [
            (128, false),
            (256, false),
            (512, false),
            (1, true),
            (512, true),
            (410, true),
            (512, false),
            (128, false),
        ];
        for (step, (rows, kept)) in steps.into_iter().enumerate() {
            pool.begin_step(rows);
            assert_eq!(pool.unused.len(), usize::from(kept), "step {step} of {rows} rows");
            pool.unused = vec![vec![0; MIN_POOLED]];
        }
    }

    #[test]
    fn buffers_have_the_requested_length_and_are_reused() {
        // Longer than in other tests, so that the same buffer is found again.
        let length = (1 << 22) + 12_345;
        let mut first = Scratch::<f32>::new(length);
        first.fill(1.0);
        assert_eq!(first.len(), length);
        let address = first.as_ptr();
        drop(first);
        let second = Scratch::<f32>::new(length - 1);
        assert_eq!((second.as_ptr(), second.len()), (address, length - 1));
        drop(second);
        let halves = Scratch::<half::bf16>::new(2 * length - 1);
        assert_eq!((halves.as_ptr().cast(), halves.len()), (address, 2 * length - 1));
    }
}

//! Room for results: kept for the next one when dropped, because the pages of a fresh buffer of some megabytes take the system as
//! long to find, and as long to fill with zeros, as a tenth of the product that fills it.

use bytemuck::{AnyBitPattern, NoUninit};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a line of the cache. What begins with one has no vector that lies in two.
const LINE: usize = 64;
/// Words more than are used, so that some line begins among them.
pub(crate) const SLACK: usize = LINE / size_of::<u32>() - 1;
/// Words of a buffer that is worth keeping: less is the allocator's to keep.
const LEAST: usize = 16 * 1024;
/// What is kept and what is in use may be this part more than what was ever in use at once: one step asks for the lengths of the step
/// before it, only in another order.
const SPARE: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool {
    kept: Vec::new(),
    in_use: 0,
    most: 0,
});

/// Buffers that nobody uses, and how much is used.
struct Pool {
    /// Those that have lain the longest first.
    kept: Vec<Vec<u32>>,
    /// Words.
    in_use: usize,
    /// Words that were in use at once.
    most: usize,
}

impl Pool {
    /// A buffer of `count` words or a few more, where there is one. Else what has lain the longest goes, should there be too much.
    fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        let fitting = self.kept.iter().enumerate();
        let fitting = fitting.filter(|(_, words)| (count..=count + count / 4).contains(&words.len()));
        let found = fitting.min_by_key(|(_, words)| words.len()).map(|(at, _)| at);
        let found = found.map(|at| self.kept.remove(at));
        self.in_use += found.as_ref().map_or(count, Vec::len);
        self.most = self.most.max(self.in_use);
        if found.is_none() {
            self.shorten();
        }
        found
    }

    fn give_back(&mut self, words: Vec<u32>) {
        self.in_use -= words.len();
        self.kept.push(words);
    }

    fn shorten(&mut self) {
        let all = self.in_use + self.kept.iter().map(Vec::len).sum::<usize>();
        let mut surplus = all.saturating_sub(self.most + self.most / SPARE);
        let mut gone = 0;
        while surplus > 0 && gone < self.kept.len() {
            surplus = surplus.saturating_sub(self.kept[gone].len());
            gone += 1;
        }
        self.kept.drain(..gone);
    }
}

/// Words before the first that begins a line; at most [`SLACK`].
pub(crate) fn before_line(words: &[u32]) -> usize {
    words.as_ptr().align_offset(LINE).min(SLACK)
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Elements of 16 or 32 bits that hold anything at first, in a buffer that is given back when dropped.
pub struct Scratch<E> {
    /// All that the buffer has, which may be more than was asked for.
    words: Vec<u32>,
    length: usize,
    elements: PhantomData<E>,
}

impl<E> Scratch<E> {
    /// Room for so many elements: the smallest buffer that will do and is not much larger, or a new one.
    pub fn new(length: usize) -> Self {
        let count = (length * size_of::<E>()).div_ceil(size_of::<u32>()) + SLACK;
        let kept = if count < LEAST { None } else { pool().take(count) };
        let mut words = kept.unwrap_or_else(|| vec![0; count]);
        if cfg!(debug_assertions) {
            // Not a number, in f32 and bf16: who reads what it did not write shall see it.
            words.fill(u32::MAX);
        }
        Self {
            words,
            length,
            elements: PhantomData,
        }
    }
}

impl<E> Drop for Scratch<E> {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        if words.len() >= LEAST {
            pool().give_back(words);
        }
    }
}

impl<E: AnyBitPattern> Deref for Scratch<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &bytemuck::cast_slice(&self.words[before_line(&self.words)..])[..self.length]
    }
}

impl<E: AnyBitPattern + NoUninit> DerefMut for Scratch<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        let first = before_line(&self.words);
        &mut bytemuck::cast_slice_mut(&mut self.words[first..])[..self.length]
    }
}

/// Gives all kept room back to the system: what training and long prompts needed is of no use to a chat that waits.
pub fn release() {
    let mut pool = pool();
    pool.kept = Vec::new();
    pool.most = pool.in_use;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo xtask test` runs these tests once more with assertions, and says so: else the poison would be tested nowhere.
    #[test]
    fn what_was_not_written_is_no_number_where_assertions_are_asked_for() {
        let asked = std::env::var_os("HEARTH_CHECKED").is_some();
        assert!(
            cfg!(debug_assertions) || !asked,
            "assertions were asked for and are off"
        );
        for length in [100, LEAST] {
            let (floats, halves) = (Scratch::<f32>::new(length), Scratch::<half::bf16>::new(length));
            let poisoned = floats.iter().all(|x| x.is_nan()) && halves.iter().all(|x| x.is_nan());
            assert!(poisoned || !asked, "{length}");
        }
    }

    #[test]
    fn room_is_as_long_as_asked_and_comes_back() {
        // Longer than what other tests use, so that the buffer is found again.
        let length = (1 << 22) + 12_345;
        let mut first = Scratch::<f32>::new(length);
        first.fill(1.0);
        assert_eq!(first.len(), length);
        let at = first.as_ptr();
        drop(first);
        let again = Scratch::<f32>::new(length - 1);
        assert_eq!((again.as_ptr(), again.len()), (at, length - 1));
        drop(again);
        let halves = Scratch::<half::bf16>::new(2 * length - 1);
        assert_eq!((halves.as_ptr().cast(), halves.len()), (at, 2 * length - 1));
    }
}
